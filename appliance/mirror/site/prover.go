package site

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/architecture"
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
	"landfall/store"
)

// maxProofs is the number of proofs that stay in memory.
const maxProofs = 20

// Reasons for a proof.
const (
	reasonOrdered = "ordered"
	reasonReady   = "ready"
	reasonInstall = "install"
	// before clusters use another registry
	reasonHandOver = "hand-over"
)

// States of a proof.
const (
	ProofRunning = "running"
	ProofDone    = "done"
	ProofFailed  = "failed"
)

// Proof is a check of whether the mirror holds a release.
type Proof struct {
	ID        string    `json:"id"`
	Release   string    `json:"release"` // pull spec
	ClusterID string    `json:"cluster_id,omitempty"`
	Why       string    `json:"why"` // ordered, ready, install, hand-over
	State     string    `json:"state"`
	Started   time.Time `json:"started"`
	// Message describes the result in a sentence.
	Message    string `json:"message,omitempty"`
	Complete   bool   `json:"complete"`
	Gaps       int    `json:"gaps"`
	Images     int    `json:"images"` // images that were checked, of Total
	Total      int    `json:"total"`
	BytesRead  int64  `json:"bytes_read,omitempty"`
	BytesTotal int64  `json:"bytes_total,omitempty"`
	// Arrived is the number of images of an earlier list that the mirror holds now, of Awaited.
	Arrived int                   `json:"arrived,omitempty"`
	Awaited int                   `json:"awaited,omitempty"`
	Report  *prover.ReleaseReport `json:"report,omitempty"`
}

// ProverOptions configures [NewProver].
type ProverOptions struct {
	Rules    *Rules
	Releases *release.Library
	DB       *store.DB
	Version  string // of the program, for the User-Agent
	Logger   *slog.Logger
	// Signed reports whether a key of the configuration signed a release; nil without such keys.
	Signed func(ctx context.Context, pullSpec, digest string, secret authn.Keychain) (bool, error)
}

// Prover proves releases on the site's mirror and keeps the latest proofs. It implements
// engine.MirrorProver.
type Prover struct {
	rules    *Rules
	prover   *prover.Prover
	releases *release.Library
	signed   func(ctx context.Context, pullSpec, digest string, secret authn.Keychain) (bool, error)
	clock    clockwork.Clock
	log      *slog.Logger

	mu     sync.Mutex
	proofs []*Proof                     // the newest first
	listed map[string][]string          // images of the last shopping list, by pull spec of the release
	proven map[string][sha256.Size]byte // digest of release and rules of the last proof (see noteProven), by cluster
}

// NewProver returns a Prover without proofs.
func NewProver(options ProverOptions) *Prover {
	clock := clockwork.NewRealClock()
	return &Prover{
		rules: options.Rules, releases: options.Releases, signed: options.Signed, clock: clock, log: options.Logger,
		prover: prover.New(prover.Options{Client: options.Rules.client,
			Proven: &provenBlobs{db: options.DB, clock: clock}, UserAgent: "landfall/" + options.Version}),
		listed: map[string][]string{}, proven: map[string][sha256.Size]byte{},
	}
}

// requestOf returns the request for the images of a cluster's installation, with the CAs that its
// nodes trust.
func (p *Prover) requestOf(source engine.InstallSource) (prover.ReleaseRequest, error) {
	secret, err := mirror.ParsePullSecret(source.PullSecret)
	if err != nil {
		return prover.ReleaseRequest{}, fault.New(fault.Invalid, "%s", sentence.Close(err.Error()))
	}
	request := prover.ReleaseRequest{
		PullSpec: source.Release, Architecture: architecture.Of(source.Architecture).RPM(), Platform: source.Platform,
		Secret: secret, Also: source.Also,
	}
	if rules := p.rules.At(mirror.Level{Cluster: source.ClusterID}); len(source.TrustBundle) > 0 ||
		rules != p.rules.client.Rules() {
		request.Client = mirror.NewClient(rules.Trusting(source.TrustBundle), p.rules.options)
	}
	return request, nil
}

// begin adds a proof to the list.
func (p *Prover) begin(proof *Proof) {
	proof.ID, proof.State, proof.Started = uuid.NewString(), ProofRunning, p.clock.Now().UTC()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proofs = append([]*Proof{proof}, p.proofs...)
	if len(p.proofs) > maxProofs {
		p.proofs = p.proofs[:maxProofs]
	}
}

// run runs a proof that begin has added.
func (p *Prover) run(ctx context.Context, proof *Proof, request prover.ReleaseRequest,
	progress func(done, total int)) (*prover.ReleaseReport, error) {
	if request.Client != nil {
		defer request.Client.CloseIdleConnections()
	}
	releases := p.releases
	if request.Client != nil {
		releases = releases.WithMirror(request.Client)
	}
	rules := p.rules.At(mirror.Level{Cluster: proof.ClusterID})
	report, err := prover.Release(ctx, p.prover, releases, request, func(now prover.Progress) {
		p.mu.Lock()
		proof.Images, proof.Total, proof.BytesRead, proof.BytesTotal = now.Images, now.Total, now.Bytes, now.TotalBytes
		p.mu.Unlock()
		if progress != nil && now.Bytes == 0 {
			progress(now.Images, now.Total)
		}
	})
	warning := ""
	if err == nil {
		warning = p.signatureWarning(ctx, report, request.Secret)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		proof.State, proof.Message = ProofFailed, sentence.Close(err.Error())
		return nil, err
	}
	if !slices.Contains(rules.Signatures(), report.Digest) && !report.Unread {
		report.Warnings = append(report.Warnings,
			"The mirror rules contain no signature of the release. Installations don't need a signature; upgrades to "+
				"this release do.")
	}
	if warning != "" {
		report.Warnings = append(report.Warnings, warning)
	}
	proof.State, proof.Report, proof.Message = ProofDone, report, report.Summary()
	proof.Images, proof.Total, proof.Gaps, proof.Complete = len(report.Results), len(report.Results), report.Gaps(),
		report.Complete()
	p.countArrived(proof, report)
	p.log.Info("Proof of the mirror completed.", "release", report.PullSpec, "images", len(report.Results), "gaps",
		proof.Gaps,
		"requests", report.Requests, "took", report.Took.Round(time.Millisecond))
	return report, nil
}

// signatureWarning returns a warning if no key of the configuration signed a release, or "".
func (p *Prover) signatureWarning(ctx context.Context, report *prover.ReleaseReport, secret authn.Keychain) string {
	if p.signed == nil || report.Unread || report.Digest == "" {
		return ""
	}
	switch signed, err := p.signed(ctx, report.PullSpec, report.Digest, secret); {
	case err != nil:
		return "The signature of the release could not be read: " + sentence.Ending(err)
	case signed:
		return ""
	}
	return "The release has no signature by a key in releases.signing_keys. It may be used only if release_images " +
		"names it or an administrator allowed it."
}

// countArrived counts the images of the release's last shopping list that the mirror holds now. It
// drops the list when the mirror holds all of them. The caller holds p.mu.
func (p *Prover) countArrived(proof *Proof, report *prover.ReleaseReport) {
	awaited := p.listed[report.PullSpec]
	held := map[string]bool{}
	for i := range report.Results {
		held[report.Results[i].Ref] = report.Results[i].Status == prover.Held
	}
	proof.Awaited = len(awaited)
	for _, image := range awaited {
		if held[image] {
			proof.Arrived++
		}
	}
	if proof.Arrived == proof.Awaited {
		delete(p.listed, report.PullSpec)
	}
}

// Proofs lists the latest proofs, the newest first, without their reports.
func (p *Prover) Proofs() []Proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Proof, 0, len(p.proofs))
	for _, proof := range p.proofs {
		shown := *proof
		shown.Report = nil
		list = append(list, shown)
	}
	return list
}

// Proof returns a proof with its report.
func (p *Prover) Proof(id string) (*Proof, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, proof := range p.proofs {
		if proof.ID == id {
			shown := *proof
			return &shown, nil
		}
	}
	return nil, fault.New(fault.NotFound, "There is no proof %s; the appliance keeps the last %d proofs until it "+
		"stops.", id, maxProofs)
}

// ProveMirror implements engine.MirrorProver: it proves the images that an installation pulls. A
// release without a mirror rule is not pulled from a mirror, so it counts as complete.
func (p *Prover) ProveMirror(ctx context.Context, source engine.InstallSource,
	progress func(done, total int)) (engine.MirrorProof, error) {
	p.noteProven(source)
	return p.prove(ctx, source, reasonInstall, progress)
}

func (p *Prover) prove(ctx context.Context, source engine.InstallSource, reason string,
	progress func(done, total int)) (engine.MirrorProof, error) {
	if !p.mirrored(source) {
		return engine.MirrorProof{Complete: true}, nil
	}
	request, err := p.requestOf(source)
	if err != nil {
		return engine.MirrorProof{}, err
	}
	proof := &Proof{ClusterID: source.ClusterID, Release: source.Release, Why: reason}
	p.begin(proof)
	report, err := p.run(ctx, proof, request, progress)
	if err != nil {
		return engine.MirrorProof{}, err
	}
	return engine.MirrorProof{Complete: report.Complete(), Images: len(report.Results), Gaps: report.Gaps(),
		Summary: sentence.Close(report.Summary())}, nil
}

// ProveWith proves the images of an installation through a client, for example of a registry that
// is not in the rules yet. It closes the connections of the client.
func (p *Prover) ProveWith(ctx context.Context, source engine.InstallSource,
	client *mirror.Client) (engine.MirrorProof, error) {
	request, err := p.requestOf(source)
	if err != nil {
		return engine.MirrorProof{}, err
	}
	if request.Client != nil {
		request.Client.CloseIdleConnections()
	}
	request.Client, request.Fresh = client, true
	proof := &Proof{ClusterID: source.ClusterID, Release: source.Release, Why: reasonHandOver}
	p.begin(proof)
	report, err := p.run(ctx, proof, request, nil)
	if err != nil {
		return engine.MirrorProof{}, err
	}
	return engine.MirrorProof{Complete: report.Complete(), Images: len(report.Results), Gaps: report.Gaps(),
		Summary: sentence.Close(report.Summary())}, nil
}

// mirrored reports whether a rule of the cluster maps its release to a mirror.
func (p *Prover) mirrored(source engine.InstallSource) bool {
	ref, err := name.ParseReference(source.Release)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(p.rules.At(mirror.Level{Cluster: source.ClusterID}).Endpoints(ref),
		func(e mirror.Endpoint) bool { return !e.Source })
}

// noteProven records the release and the rules of a cluster's proof. It reports whether the
// previous proof of the cluster had the same release and rules.
func (p *Prover) noteProven(source engine.InstallSource) bool {
	rules := p.rules.At(mirror.Level{Cluster: source.ClusterID})
	state := sha256.Sum256([]byte(source.Release + "\n" + string(rules.RegistriesConf())))
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.proven[source.ClusterID] == state
	p.proven[source.ClusterID] = state
	return known
}

// dropProven drops the record of noteProven for a cluster.
func (p *Prover) dropProven(clusterID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.proven, clusterID)
}

// blobProofLifetime is the time for which a blob that was read completely counts as proven.
const blobProofLifetime = 7 * 24 * time.Hour

// blobProofs stores the times at which blobs were read completely, by repository and digest.
var blobProofs = store.NewBucket[time.Time]("mirror-bytes", 1).Derived()

// provenBlobs implements prover.Proven with the store.
type provenBlobs struct {
	db    *store.DB
	clock clockwork.Clock

	mu      sync.Mutex
	cleaned time.Time // when Mark last deleted old rows
}

func blobKey(key string) string { return strings.ReplaceAll(key, "/", "|") }

// isCurrent reports whether a proof counts. One of the future was made before the clock was
// corrected, so its age is unknown.
func isCurrent(now, at time.Time) bool {
	age := now.Sub(at)
	return age >= 0 && age < blobProofLifetime
}

// Has reports whether a blob was read completely within blobProofLifetime.
func (b *provenBlobs) Has(key string) bool {
	known := false
	if err := b.db.View(func(tx *store.Tx) error {
		at, err := blobProofs.Get(tx, blobKey(key))
		known = err == nil && isCurrent(b.clock.Now(), *at)
		return nil
	}); err != nil {
		return false // the blob is read again
	}
	return known
}

// Mark records that a blob was read completely. Sometimes it also deletes the records that are too
// old to count.
func (b *provenBlobs) Mark(ctx context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now().UTC()
	clean := now.Sub(b.cleaned).Abs() >= blobProofLifetime
	err := b.db.Update(ctx, func(tx *store.Tx) error {
		if clean {
			if err := deleteOldProofs(tx, now); err != nil {
				return err
			}
		}
		return blobProofs.Put(tx, blobKey(key), &now)
	})
	if err == nil && clean {
		b.cleaned = now
	}
	return err
}

func deleteOldProofs(tx *store.Tx, now time.Time) error {
	var old []string
	if err := blobProofs.Each(tx, "", func(key string, at *time.Time) error {
		if !isCurrent(now, *at) {
			old = append(old, key)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, key := range old {
		if err := blobProofs.Delete(tx, key); err != nil {
			return err
		}
	}
	return nil
}
