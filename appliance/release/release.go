// Package release reads OpenShift release payloads from the site's registries, extracts their
// openshift-install and runs it.
//
// A payload is an image whose last layer holds release-manifests/: the list of all component images
// by digest, the version, and the CoreOS boot images. Data is stored by the digest of the payload,
// so a release is read from the registry only once.
//
// Design: docs/design.md#repeatable-preparations.
package release

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/mirror"
	"landfall/appliance/sandbox"
)

// DefaultCommandTimeout limits one run of openshift-install. A run takes seconds; the limit allows
// for slow disks.
const DefaultCommandTimeout = 10 * time.Minute

// Options configures a Library. Mirror, CacheDir and Logger are required.
type Options struct {
	Mirror         *mirror.Client  // locates all images
	CacheDir       string          // directory of all files; only one Library may use it at a time
	CacheLimit     int64           // bytes of extracted installers and unfinished downloads; 0 for no limit
	CommandTimeout time.Duration   // for one run of openshift-install; 0 for DefaultCommandTimeout
	Clock          clockwork.Clock // for delays between attempts; nil for the real clock
	Logger         *slog.Logger
	// Policy decides which releases may be used. Without a policy, the library reads releases but
	// provides no openshift-install.
	Policy Policy
	// Sandbox runs openshift-install with few rights; nil for tests, which run other programs.
	Sandbox *sandbox.Sandbox
}

// Policy decides which releases may be used; *trust.Policy implements it.
type Policy interface {
	// Check returns an error unless the release with the digest may be used. pullSpec is its name,
	// the secret has the credentials for its registry.
	Check(ctx context.Context, pullSpec, digest string, secret authn.Keychain) error
}

// Library caches the releases that this appliance has read: the metadata in memory, and the
// openshift-install programs on disk.
type Library struct {
	*state
	mirror *mirror.Client // locates all images
}

// WithMirror returns a library with the same state that reads images through another mirror client.
func (l *Library) WithMirror(client *mirror.Client) *Library { return &Library{l.state, client} }

// state is the state that all views of a library share.
type state struct {
	dir     string
	limit   int64
	timeout time.Duration
	policy  Policy
	sandbox *sandbox.Sandbox
	clock   clockwork.Clock
	log     *slog.Logger

	ctx     context.Context // ends when the Library is closed; the parent context of extractions
	cancel  context.CancelFunc
	running sync.WaitGroup

	extracting chan struct{} // semaphore: holds one token while an extraction writes to the cache

	mu          sync.Mutex
	payloads    map[payloadKey]*Payload
	inUse       map[string]int               // installer key -> number of users
	extractions map[string]*sharedExtraction // installer key -> running extraction
}

// New opens the cache in o.CacheDir. It removes unfinished data of an earlier process, except for
// downloads, which can be resumed.
func New(o Options) (*Library, error) {
	if o.CommandTimeout == 0 {
		o.CommandTimeout = DefaultCommandTimeout
	}
	if o.Clock == nil {
		o.Clock = clockwork.NewRealClock()
	}
	dir, err := filepath.Abs(o.CacheDir) // programs run in other working directories
	if err != nil {
		return nil, fmt.Errorf("open the release cache: %w", err)
	}
	l := &Library{mirror: o.Mirror, state: &state{
		dir: dir, limit: o.CacheLimit, timeout: o.CommandTimeout, policy: o.Policy, sandbox: o.Sandbox,
		clock:    o.Clock,
		log:      o.Logger,
		payloads: map[payloadKey]*Payload{}, inUse: map[string]int{}, extractions: map[string]*sharedExtraction{},
		extracting: make(chan struct{}, 1),
	}}
	if err := os.RemoveAll(l.workDir()); err != nil {
		return nil, fmt.Errorf("clear the release cache: %w", err)
	}
	for _, dir := range []string{l.installersDir(), l.partialDir(), l.workDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open the release cache: %w", err)
		}
	}
	if err := l.removeUnfinished(); err != nil {
		return nil, fmt.Errorf("clear the release cache: %w", err)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Close cancels running extractions and waits for them. It does not remove installers from the
// disk. A nil library has none.
func (l *Library) Close() error {
	if l == nil {
		return nil
	}
	l.cancel()
	l.running.Wait()
	return nil
}

func (l *Library) installersDir() string { return filepath.Join(l.dir, "installers") }
func (l *Library) partialDir() string    { return filepath.Join(l.dir, "partial") }
func (l *Library) workDir() string       { return filepath.Join(l.dir, "work") }
