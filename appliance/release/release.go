// Package release reads OpenShift release payloads from the site's registries, extracts their
// openshift-install and runs it.
//
// A payload is an image whose last layer holds release-manifests/: the list of all component images
// by digest, the version, and the CoreOS boot images. Data is stored by the digest of the payload,
// so a release that was read once needs no registry again.
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

	"github.com/jonboulle/clockwork"

	"landfall/appliance/mirror"
)

// DefaultCommandTimeout limits one run of openshift-install. The program needs seconds; the rest is
// for slow disks.
const DefaultCommandTimeout = 10 * time.Minute

// Options configures a Library. Mirror, CacheDir and Logger are required.
type Options struct {
	Mirror         *mirror.Client  // leads to every image
	CacheDir       string          // everything kept on disk lies here; used by one Library at a time
	CacheLimit     int64           // bytes of extracted installers and unfinished downloads; 0: no limit
	CommandTimeout time.Duration   // for one run of openshift-install; 0: DefaultCommandTimeout
	Clock          clockwork.Clock // waits between attempts; nil: the real one
	Logger         *slog.Logger
}

// Library holds the releases that this appliance has read: their metadata in memory, their
// openshift-install on disk.
type Library struct {
	*state
	mirror *mirror.Client // leads to every image
}

// Through returns the same library with other mirror rules for further reads.
func (l *Library) WithMirror(client *mirror.Client) *Library { return &Library{l.state, client} }

// shelf is the state that all views of a library share.
type state struct {
	dir     string
	limit   int64
	timeout time.Duration
	clock   clockwork.Clock
	log     *slog.Logger

	ctx     context.Context // ends when the Library is closed; extractions run under it
	cancel  context.CancelFunc
	running sync.WaitGroup

	extracting chan struct{} // holds one token while an extraction writes to the cache

	mu          sync.Mutex
	payloads    map[payloadKey]*Payload
	inUse       map[string]int               // installer key -> holders
	extractions map[string]*sharedExtraction // installer key -> extraction under way
}

// New opens the cache in o.CacheDir. It removes unfinished data of an earlier process, except for
// downloads, which are resumed.
func New(o Options) (*Library, error) {
	if o.CommandTimeout == 0 {
		o.CommandTimeout = DefaultCommandTimeout
	}
	if o.Clock == nil {
		o.Clock = clockwork.NewRealClock()
	}
	dir, err := filepath.Abs(o.CacheDir) // programs are run elsewhere
	if err != nil {
		return nil, fmt.Errorf("open the release cache: %w", err)
	}
	l := &Library{mirror: o.Mirror, state: &state{
		dir: dir, limit: o.CacheLimit, timeout: o.CommandTimeout, clock: o.Clock, log: o.Logger,
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

// Close cancels running extractions and waits for them. Installers in use stay on disk.
func (l *Library) Close() error {
	l.cancel()
	l.running.Wait()
	return nil
}

func (l *Library) installersDir() string { return filepath.Join(l.dir, "installers") }
func (l *Library) partialDir() string    { return filepath.Join(l.dir, "partial") }
func (l *Library) workDir() string       { return filepath.Join(l.dir, "work") }
