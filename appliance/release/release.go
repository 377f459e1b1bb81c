// Package release reads OpenShift release payloads from the site's registries, takes the payload's
// openshift-install out of them and runs it.
//
// A payload is an ordinary image whose last layer holds release-manifests/ (the list of every
// component image by digest, the version, the CoreOS boot images). Everything here is found by the
// payload's digest, so a release that was read once needs no registry again.
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

// DefaultCommandTimeout bounds one run of openshift-install. The real program needs seconds; the
// rest is for slow disks.
const DefaultCommandTimeout = 10 * time.Minute

// Options are what a Library is made of. Mirror, CacheDir and Logger are required.
type Options struct {
	Mirror         *mirror.Client  // leads to every image
	CacheDir       string          // everything kept on disk lies here; used by one Library at a time
	CacheLimit     int64           // bytes of extracted installers and unfinished downloads; 0: no limit
	CommandTimeout time.Duration   // for one run of openshift-install; 0: DefaultCommandTimeout
	Clock          clockwork.Clock // waits between attempts; nil: the real one
	Logger         *slog.Logger
}

// A Library holds the releases this appliance has read: their contents in memory, their
// openshift-install on disk.
type Library struct {
	*shelf
	mirror *mirror.Client // leads to every image
}

// Through returns the same library, which reads what it has not yet by other mirror rules.
func (l *Library) Through(client *mirror.Client) *Library { return &Library{l.shelf, client} }

// shelf is what all ways into a library share.
type shelf struct {
	dir     string
	limit   int64
	timeout time.Duration
	clock   clockwork.Clock
	log     *slog.Logger

	ctx     context.Context // ends when the Library is closed; extractions run under it
	cancel  context.CancelFunc
	running sync.WaitGroup

	extracting chan struct{} // holds one token while an extraction writes to the cache

	mu       sync.Mutex
	payloads map[payloadKey]*Payload
	inUse    map[string]int     // installer key -> holders
	flights  map[string]*flight // installer key -> extraction under way
}

// New opens the cache in o.CacheDir. What an earlier process left half-done is removed, but for
// unfinished downloads, which are gone on with.
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
	l := &Library{mirror: o.Mirror, shelf: &shelf{
		dir: dir, limit: o.CacheLimit, timeout: o.CommandTimeout, clock: o.Clock, log: o.Logger,
		payloads: map[payloadKey]*Payload{}, inUse: map[string]int{}, flights: map[string]*flight{},
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

// Close ends extractions under way and waits for them. Installers handed out stay where they are.
func (l *Library) Close() error {
	l.cancel()
	l.running.Wait()
	return nil
}

func (l *Library) installersDir() string { return filepath.Join(l.dir, "installers") }
func (l *Library) partialDir() string    { return filepath.Join(l.dir, "partial") }
func (l *Library) workDir() string       { return filepath.Join(l.dir, "work") }
