package appliance

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall/appliance/config"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/doctor"
	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/release"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/api"
	"landfall/web/console"
	"landfall/web/problem"
)

// proofsKept is how many proofs are remembered, until the appliance ends.
const proofsKept = 20

// Why a proof was made.
const (
	whyOrdered = "ordered"
	whyReady   = "ready"
	whyInstall = "install"
)

// mirrorProver proves releases and clusters on the site's mirror: when a person orders it, when a
// cluster becomes ready, and when Install is pressed.
type mirrorProver struct {
	site     *siteMirror
	prover   *prover.Prover
	releases *release.Library
	known    []config.ReleaseImage
	secret   releaseFetcher // finds pull specs and the appliance's own pull secret
	engine   *engine.Engine // set before the first proof
	key      *sitekey.Key
	clock    clockwork.Clock
	log      *slog.Logger

	mu      sync.Mutex
	proofs  []*console.MirrorProof       // the newest first
	lists   map[string]listed            // by release: what was last missing
	proven  map[string][sha256.Size]byte // by cluster: what was proven of it
	running sync.WaitGroup
	ctx     context.Context // ends with the appliance
	cancel  context.CancelFunc
}

// listed is a list that was handed out, to be ticked off.
type listed struct{ sources []string }

func newMirrorProver(config config.Config, site *siteMirror, releases *release.Library, key *sitekey.Key, db *store.DB,
	version string, logger *slog.Logger) *mirrorProver {
	p := &mirrorProver{
		site: site, releases: releases, known: config.ReleaseImages, key: key, clock: clockwork.NewRealClock(),
		log:    logger,
		secret: releaseFetcher{releases: releases, known: config.ReleaseImages, secretFile: config.Mirror.PullSecret},
		lists:  map[string]listed{}, proven: map[string][sha256.Size]byte{},
	}
	p.prover = prover.New(prover.Options{Client: site.client, Proven: &provenBlobs{db: db, clock: p.clock},
		UserAgent: "landfall/" + version})
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// close ends the proofs that run and waits for them.
func (p *mirrorProver) close() {
	p.cancel()
	p.running.Wait()
}

// Start begins a proof in the background.
func (p *mirrorProver) Start(_ context.Context, wanted console.MirrorProofRequest) (*console.MirrorProof, error) {
	request := prover.ReleaseRequest{Architecture: rpmArchitecture(wanted.Architecture), Signatures: true,
		Bytes: wanted.Bytes, Fresh: wanted.Fresh}
	proof := &console.MirrorProof{ClusterID: wanted.ClusterID, Why: whyOrdered}
	if wanted.ClusterID != "" {
		source, err := p.engine.InstallSource(wanted.ClusterID)
		if err != nil {
			return nil, api.Problem(err)
		}
		if request, err = p.ofCluster(source); err != nil {
			return nil, err
		}
		request.Signatures, request.Bytes, request.Fresh = true, wanted.Bytes, wanted.Fresh
	} else {
		secret, err := p.secret.secret(wanted.PullSecret)
		if err != nil {
			return nil, problem.BadRequest("%s", sentenceCase(err.Error()))
		}
		if request.PullSpec, request.Architecture, err = p.pullSpec(wanted.Release, request.Architecture); err != nil {
			return nil, err
		}
		request.Secret = secret
	}
	proof.Release = request.PullSpec
	p.begin(proof)
	shown := *proof
	p.running.Go(func() {
		if _, err := p.run(p.ctx, proof, request, nil); err != nil && p.ctx.Err() == nil {
			p.log.Warn("A proof of the mirror could not be made.", "release", request.PullSpec, "error", err)
		}
	})
	return &shown, nil
}

// pullSpec finds the release that is meant by its version or pull spec.
func (p *mirrorProver) pullSpec(wanted, arch string) (string, string, error) {
	if _, err := name.ParseReference(wanted, name.StrictValidation); err == nil {
		return wanted, arch, nil
	}
	for _, image := range p.known {
		if image.OpenshiftVersion == wanted && (arch == "" || rpmArchitecture(image.CPUArchitecture) == arch ||
			image.CPUArchitecture == "multi") {
			if arch == "" && image.CPUArchitecture != "multi" {
				arch = rpmArchitecture(image.CPUArchitecture)
			}
			return image.URL, arch, nil
		}
	}
	return "", "",
		problem.NotFound("There is no release %s under release_images; add it there, or give the pull spec of its "+
			"release image.", wanted)
}

// ofCluster says what a cluster's installation pulls, with the trust that its nodes will have.
func (p *mirrorProver) ofCluster(source engine.InstallSource) (prover.ReleaseRequest, error) {
	secret, err := mirror.ParsePullSecret(source.PullSecret)
	if err != nil {
		return prover.ReleaseRequest{}, problem.BadRequest("%s", sentenceCase(err.Error()))
	}
	request := prover.ReleaseRequest{
		PullSpec: source.Release, Architecture: rpmArchitecture(source.Architecture), Platform: source.Platform,
		Secret: secret, Also: source.Also,
	}
	if rules := p.site.at(mirror.Level{Cluster: source.ClusterID}).Rules(); len(source.TrustBundle) > 0 ||
		rules != p.site.client.Rules() {
		request.Client = mirror.NewClient(rules.Trusting(source.TrustBundle), p.site.options)
	}
	return request, nil
}

// begin makes a proof known.
func (p *mirrorProver) begin(proof *console.MirrorProof) {
	proof.ID, proof.State, proof.Started = uuid.NewString(), console.ProofRunning, p.clock.Now().UTC()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proofs = append([]*console.MirrorProof{proof}, p.proofs...)
	if len(p.proofs) > proofsKept {
		p.proofs = p.proofs[:proofsKept]
	}
}

// run makes a proof that has begun.
func (p *mirrorProver) run(ctx context.Context, proof *console.MirrorProof, request prover.ReleaseRequest,
	progress func(done, total int)) (*prover.ReleaseReport, error) {
	if request.Client != nil {
		defer request.Client.CloseIdleConnections()
	}
	releases := p.releases
	if request.Client != nil {
		releases = releases.Through(request.Client)
	}
	rules := p.site.at(mirror.Level{Cluster: proof.ClusterID}).Rules()
	report, err := prover.Release(ctx, p.prover, releases, request, func(now prover.Progress) {
		p.mu.Lock()
		proof.Images, proof.Total, proof.BytesRead, proof.BytesTotal = now.Images, now.Total, now.Bytes, now.TotalBytes
		p.mu.Unlock()
		if progress != nil && now.Bytes == 0 {
			progress(now.Images, now.Total)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		proof.State, proof.Message = console.ProofFailed, sentenceCase(err.Error())
		return nil, err
	}
	if !slices.Contains(rules.Signatures(), report.Digest) && !report.Unread {
		report.Warnings = append(report.Warnings,
			"The release's signature did not come with the mirror rules. Installations don't need it; upgrades to "+
				"this release do.")
	}
	proof.State, proof.Report, proof.Message = console.ProofDone, report, report.Summary()
	proof.Images, proof.Total, proof.Gaps, proof.Complete = len(report.Results), len(report.Results), report.Gaps(),
		report.Complete()
	p.tickOff(proof, report)
	p.log.Info("The mirror was proven.", "release", report.PullSpec, "images", len(report.Results), "gaps", proof.Gaps,
		"requests", report.Requests, "took", report.Took.Round(time.Millisecond))
	return report, nil
}

// contents are the releases that the doctor asks the mirror for: a cluster's, or all that the
// configuration names, with the appliance's own pull secret.
func (p *mirrorProver) contents(clusterID string) ([]doctor.Contents, error) {
	of := func(label string, request prover.ReleaseRequest, client *mirror.Client) doctor.Contents {
		return doctor.Contents{Release: label, Anonymous: request.Secret == nil,
			Prove: func(ctx context.Context) (*prover.ReleaseReport, error) {
				defer client.CloseIdleConnections()
				return prover.Release(ctx, p.prover, p.releases.Through(client), request, nil)
			}}
	}
	if clusterID != "" {
		source, err := p.engine.InstallSource(clusterID)
		if err != nil || source.Release == "" {
			return nil, err
		}
		request, err := p.ofCluster(source)
		if err != nil {
			return nil, err
		}
		if request.Client == nil {
			return []doctor.Contents{of(source.Version, request, p.site.client)}, nil
		}
		return []doctor.Contents{of(source.Version, request, request.Client)}, nil
	}
	secret, err := p.secret.secret("")
	if err != nil {
		return nil, problem.BadRequest("%s", sentenceCase(err.Error()))
	}
	var list []doctor.Contents
	for _, image := range p.known {
		request := prover.ReleaseRequest{PullSpec: image.URL, Architecture: rpmArchitecture(image.CPUArchitecture),
			Secret: secret}
		list = append(list, of(image.OpenshiftVersion+" "+image.CPUArchitecture, request, p.site.client))
	}
	return list, nil
}

// tickOff compares a report with the last list of what was missing of that release.
func (p *mirrorProver) tickOff(proof *console.MirrorProof, report *prover.ReleaseReport) {
	before := p.lists[report.PullSpec].sources
	held := map[string]bool{}
	for i := range report.Results {
		held[report.Results[i].Ref] = report.Results[i].Verdict == prover.Held
	}
	proof.Awaited = len(before)
	for _, source := range before {
		if held[source] {
			proof.Arrived++
		}
	}
	if proof.Arrived == proof.Awaited {
		delete(p.lists, report.PullSpec)
	}
}

// Proofs lists the proofs of late.
func (p *mirrorProver) Proofs() []console.MirrorProof {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]console.MirrorProof, 0, len(p.proofs))
	for _, proof := range p.proofs {
		shown := *proof
		shown.Report = nil
		list = append(list, shown)
	}
	return list
}

// Proof returns one proof.
func (p *mirrorProver) Proof(id string) (*console.MirrorProof, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, proof := range p.proofs {
		if proof.ID == id {
			shown := *proof
			return &shown, nil
		}
	}
	return nil, problem.NotFound("There is no proof %s; only the last %d are remembered, and none of an earlier start.",
		id, proofsKept)
}

// List writes what a proof found missing, and remembers it to be ticked off.
func (p *mirrorProver) List(id, format string) (string, []byte, error) {
	proof, err := p.Proof(id)
	if err != nil {
		return "", nil, err
	}
	if proof.Report == nil {
		return "", nil, problem.Conflict("Proof %s has no results yet.", id)
	}
	list := shoppingList(proof.Report, p.site.at(mirror.Level{Cluster: proof.ClusterID}).Rules())
	if len(list.Items) == 0 {
		return "", nil, problem.Conflict("There is nothing to bring: %s", proof.Message)
	}
	file, data, err := p.render(list, format)
	if err != nil {
		return "", nil, problem.BadRequest("%s", sentenceCase(err.Error()))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sources := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		sources = append(sources, item.Source)
	}
	p.lists[proof.Report.PullSpec] = listed{sources}
	return file, data, nil
}

// AcceptGaps has a cluster be installed although images are missing.
func (p *mirrorProver) AcceptGaps(ctx context.Context, clusterID string, accept bool) error {
	return api.Problem(p.engine.AcceptMirrorGaps(ctx, clusterID, accept))
}

// ProveMirror is engine.MirrorProver: it proves what an installation pulls. A release for which
// there is no mirror rule does not come from a mirror, and nothing is proven of it.
func (p *mirrorProver) ProveMirror(ctx context.Context, source engine.InstallSource,
	progress func(done, total int)) (engine.MirrorProof, error) {
	p.noteProven(source)
	return p.prove(ctx, source, whyInstall, progress)
}

func (p *mirrorProver) prove(ctx context.Context, source engine.InstallSource, why string,
	progress func(done, total int)) (engine.MirrorProof, error) {
	if !p.mirrored(source) {
		return engine.MirrorProof{Complete: true}, nil
	}
	request, err := p.ofCluster(source)
	if err != nil {
		return engine.MirrorProof{}, err
	}
	proof := &console.MirrorProof{ClusterID: source.ClusterID, Release: source.Release, Why: why}
	p.begin(proof)
	report, err := p.run(ctx, proof, request, progress)
	if err != nil {
		return engine.MirrorProof{}, err
	}
	return engine.MirrorProof{Complete: report.Complete(), Images: len(report.Results), Gaps: report.Gaps(),
		Summary: sentenceCase(report.Summary())}, nil
}

// mirrored tells whether a rule of the cluster leads from the release to a mirror.
func (p *mirrorProver) mirrored(source engine.InstallSource) bool {
	ref, err := name.ParseReference(source.Release)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(p.site.at(mirror.Level{Cluster: source.ClusterID}).Rules().Endpoints(ref),
		func(e mirror.Endpoint) bool { return !e.Source })
}

// followClusters proves the mirror for each cluster that becomes ready, once for each release and
// set of rules.
func (p *mirrorProver) followClusters(ctx context.Context, db *store.DB) error {
	const prefix = "/clusters/"
	for from := db.Revision(); ctx.Err() == nil; from = db.Revision() {
		watcher := db.Watch(ctx, from, prefix)
		for changes := range watcher.C() {
			for _, change := range changes {
				id := strings.TrimPrefix(change.Key, prefix)
				if change.Deleted {
					p.mu.Lock()
					delete(p.proven, id)
					p.mu.Unlock()
					continue
				}
				if err := p.proveIfReady(ctx, id); err != nil && ctx.Err() == nil {
					p.log.Warn("The mirror could not be proven for a cluster that is ready.", "error", err)
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the clusters' changes: %w", err)
		}
	}
	return nil
}

// proveIfReady proves the mirror for a cluster that only waits for Install to be pressed.
func (p *mirrorProver) proveIfReady(ctx context.Context, id string) error {
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
	proof, err := p.prove(ctx, source, whyReady, nil)
	if err != nil {
		return err
	}
	return p.engine.NoteMirrorProof(ctx, id, proof)
}

// noteProven remembers of which release and by which rules a cluster was proven, and tells whether
// that was so before.
func (p *mirrorProver) noteProven(source engine.InstallSource) bool {
	state := sha256.Sum256([]byte(source.Release + "\n" + string(p.site.at(mirror.Level{Cluster: source.ClusterID}).
		Rules().RegistriesConf())))
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.proven[source.ClusterID] == state
	p.proven[source.ClusterID] = state
	return known
}

// provenFor is how long blobs that were read whole count as such.
const provenFor = 7 * 24 * time.Hour

// blobProofs are the times at which blobs were read whole, by repository and digest.
var blobProofs = store.NewBucket[time.Time]("mirror-bytes", 1)

// provenBlobs is prover.Proven over the store.
type provenBlobs struct {
	db    *store.DB
	clock clockwork.Clock
}

func blobKey(key string) string { return strings.ReplaceAll(key, "/", "|") }

// Has tells whether a blob was read whole of late.
func (b *provenBlobs) Has(key string) bool {
	known := false
	if err := b.db.View(func(tx *store.Tx) error {
		at, err := blobProofs.Get(tx, blobKey(key))
		known = err == nil && b.clock.Since(*at) < provenFor
		return nil
	}); err != nil {
		return false // it is read again
	}
	return known
}

// Mark notes that a blob was read whole.
func (b *provenBlobs) Mark(ctx context.Context, key string) error {
	now := b.clock.Now().UTC()
	return b.db.Update(ctx, func(tx *store.Tx) error { return blobProofs.Put(tx, blobKey(key), &now) })
}
