package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/architecture"
	"landfall/appliance/doctor"
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Proofs runs the proofs that people start, and proves the mirror for each cluster that becomes
// ready.
type Proofs struct {
	*Prover
	engine *engine.Engine
	known  release.Offered
	db     *store.DB
	key    *sitekey.Key // signs shopping lists

	running sync.WaitGroup
	ctx     context.Context // canceled when the appliance stops
	cancel  context.CancelFunc
}

// ProofsOptions configures [NewProofs].
type ProofsOptions struct {
	Prover *Prover
	Engine *engine.Engine
	Known  release.Offered
	DB     *store.DB
	Key    *sitekey.Key
}

// NewProofs returns Proofs, which must be closed.
func NewProofs(options ProofsOptions) *Proofs {
	p := &Proofs{Prover: options.Prover, engine: options.Engine, known: options.Known, db: options.DB, key: options.Key}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close cancels the running proofs and waits for them.
func (p *Proofs) Close() {
	p.cancel()
	p.running.Wait()
}

// ProofRequest selects the release to prove, directly or by a cluster.
type ProofRequest struct {
	Release      string `json:"release,omitempty"` // version or pull spec
	Architecture string `json:"cpu_architecture,omitempty"`
	ClusterID    string `json:"cluster_id,omitempty"`
	PullSecret   string `json:"pull_secret,omitempty"` // for a release; "" is the appliance's own
	Bytes        bool   `json:"bytes,omitempty"`       // read every layer
	Fresh        bool   `json:"fresh,omitempty"`       // ignore recent results
}

// Start starts a proof in the background.
func (p *Proofs) Start(_ context.Context, wanted ProofRequest) (*Proof, error) {
	request, err := p.request(wanted)
	if err != nil {
		return nil, err
	}
	request.Signatures, request.Bytes, request.Fresh = true, wanted.Bytes, wanted.Fresh
	proof := &Proof{ClusterID: wanted.ClusterID, Release: request.PullSpec, Why: reasonOrdered}
	p.begin(proof)
	shown := *proof
	p.running.Go(func() {
		if _, err := p.run(p.ctx, proof, request, nil); err != nil && p.ctx.Err() == nil {
			p.log.Warn("A proof of the mirror failed.", "release", request.PullSpec, "error", err)
		}
	})
	return &shown, nil
}

func (p *Proofs) request(wanted ProofRequest) (request prover.ReleaseRequest, err error) {
	if wanted.ClusterID != "" {
		source, err := p.engine.InstallSource(wanted.ClusterID)
		if err != nil {
			return request, err
		}
		return p.requestOf(source)
	}
	if request.Secret, err = p.secret(wanted.PullSecret); err != nil {
		return request, err
	}
	request.PullSpec, request.Architecture, err = p.pullSpec(wanted.Release,
		architecture.Of(wanted.Architecture).RPM())
	return request, err
}

// secret returns the given pull secret, or the appliance's own if given is empty. It returns nil if
// neither exists.
func (p *Proofs) secret(given string) (authn.Keychain, error) {
	secret, err := p.known.Keychain(given)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s", sentence.Close(err.Error()))
	}
	return secret, nil
}

// pullSpec returns the pull spec and the architecture of a release. wanted is its version or its
// pull spec.
func (p *Proofs) pullSpec(wanted, arch string) (string, string, error) {
	if _, err := name.ParseReference(wanted, name.StrictValidation); err == nil {
		return wanted, arch, nil
	}
	for _, image := range p.known.Images() {
		own := architecture.Of(image.CPUArchitecture)
		if image.OpenshiftVersion == wanted && (arch == "" || own.RPM() == arch || own == architecture.Multi) {
			if arch == "" && own != architecture.Multi {
				arch = own.RPM()
			}
			return image.URL, arch, nil
		}
	}
	return "", "", fault.New(fault.NotFound, "The site has no release %s; add it in the settings, or give the "+
		"pull spec of its release image.", wanted)
}

// Contents returns the releases that the mirror must hold according to the doctor: the release of a
// cluster, or all configured releases with the appliance's own pull secret.
func (p *Proofs) Contents(clusterID string) ([]doctor.MirroredRelease, error) {
	of := func(label string, request prover.ReleaseRequest, client *mirror.Client) doctor.MirroredRelease {
		return doctor.MirroredRelease{Name: label, Anonymous: request.Secret == nil,
			Prove: func(ctx context.Context) (*prover.ReleaseReport, error) {
				defer client.CloseIdleConnections()
				return prover.Release(ctx, p.prover, p.releases.WithMirror(client), request, nil)
			}}
	}
	if clusterID != "" {
		source, err := p.engine.InstallSource(clusterID)
		if err != nil || source.Release == "" {
			return nil, err
		}
		request, err := p.requestOf(source)
		if err != nil {
			return nil, err
		}
		if request.Client == nil {
			return []doctor.MirroredRelease{of(source.Version, request, p.rules.client)}, nil
		}
		return []doctor.MirroredRelease{of(source.Version, request, request.Client)}, nil
	}
	secret, err := p.secret("")
	if err != nil {
		return nil, err
	}
	var list []doctor.MirroredRelease
	for _, image := range p.known.Images() {
		request := prover.ReleaseRequest{PullSpec: image.URL,
			Architecture: architecture.Of(image.CPUArchitecture).RPM(), Secret: secret}
		list = append(list, of(image.OpenshiftVersion+" "+image.CPUArchitecture, request, p.rules.client))
	}
	return list, nil
}

// List returns the shopping list of a proof, which names the images that the mirror lacks. Later
// proofs of the release count the images of this list that the mirror has received.
func (p *Proofs) List(id, format string) (string, []byte, error) {
	proof, err := p.Proof(id)
	if err != nil {
		return "", nil, err
	}
	if proof.Report == nil {
		return "", nil, fault.New(fault.Conflict, "Proof %s has no results yet.", id)
	}
	list := shoppingList(proof.Report, p.rules.At(mirror.Level{Cluster: proof.ClusterID}))
	if len(list.Items) == 0 {
		return "", nil, fault.New(fault.Conflict, "The shopping list is empty: %s", proof.Message)
	}
	file, data, err := render(list, format, p.key)
	if err != nil {
		return "", nil, fault.New(fault.Invalid, "%s", sentence.Close(err.Error()))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	images := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		images = append(images, item.Source)
	}
	p.listed[proof.Report.PullSpec] = images
	return file, data, nil
}

// ProveImages checks that the mirror has images that no installation of a cluster pulls.
func (p *Proofs) ProveImages(ctx context.Context, source engine.InstallSource) (engine.MirrorProof, error) {
	return p.ProveMirror(ctx, source, nil)
}

// AcceptGaps allows the installation of a cluster although the mirror lacks images, or revokes
// that.
func (p *Proofs) AcceptGaps(ctx context.Context, clusterID string, accept bool) error {
	return p.engine.AcceptMirrorGaps(ctx, clusterID, accept)
}

// FollowClusters proves the mirror for each cluster that becomes ready, until the context ends. It
// proves each combination of release and rules once.
func (p *Proofs) FollowClusters(ctx context.Context) error {
	const prefix = "/clusters/"
	for from := p.db.Revision(); ctx.Err() == nil; from = p.db.Revision() {
		watcher := p.db.Watch(ctx, from, prefix)
		for changes := range watcher.C() {
			for _, change := range changes {
				id := strings.TrimPrefix(change.Key, prefix)
				if change.Deleted {
					p.dropProven(id)
					continue
				}
				if err := p.proveIfReady(ctx, id); err != nil && ctx.Err() == nil {
					p.log.Warn("The mirror could not be proven for a ready cluster.", "error", err)
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the changes of clusters: %w", err)
		}
	}
	return nil
}

// proveIfReady proves the mirror for a cluster that is ready for a person to start the
// installation.
func (p *Proofs) proveIfReady(ctx context.Context, id string) error {
	ready, err := p.engine.ReadyToInstall(id)
	if err != nil || !ready {
		return err
	}
	source, err := p.engine.InstallSource(id)
	if err != nil {
		return err
	}
	if p.noteProven(source) || !p.mirrored(source) {
		return nil
	}
	proof, err := p.prove(ctx, source, reasonReady, nil)
	if err != nil {
		return err
	}
	return p.engine.NoteNewMirrorProof(ctx, id, proof)
}
