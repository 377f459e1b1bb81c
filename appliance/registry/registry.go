// Package registry is the appliance's own registry. It serves the images on media as they lie
// there, and images that people and programs push.
//
// Package medium reads media. [Registry] knows the media, present and missing, and finds the places
// of blobs and manifests on them. Package web/registry speaks HTTP.
//
// Design: docs/design.md#a-registry-on-media.
package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/registry/quota"
	"landfall/appliance/registry/staging"
	"landfall/appliance/registry/traffic"
	"landfall/appliance/registry/unpacked"
	"landfall/appliance/storage"
	"landfall/store"
)

// mediumRows stores the known media by their identity, and IndexFiles their indexes.
var (
	mediumRows = store.NewBucket[mediumRow]("registry-media", 1)
	IndexFiles = store.NewFiles("registry-indexes")
)

type mediumRow struct {
	Path     string          `json:"path"` // of the configuration or of a request, which led to the medium
	Location medium.Location `json:"location"`
	Missing  time.Time       `json:"missing,omitzero"` // since when, unless it is present
}

// Options configures [Open].
type Options struct {
	DB    *store.DB
	Media []string // paths of the configuration
	Dir   string   // of pushed images and copies of media
	Bytes int64    // limit of both; 0 for none
	// Shared is what the registry shares with those of the other members of a fleet; nil on a
	// single machine.
	Shared *overlay.Shared
	// Open opens the files of media; nil for [medium.OpenFile].
	Open medium.Opener
	// Free returns the bytes that can still be written to a file system; nil for [storage.Free].
	Free func(dir string) (int64, error)
	// ReadDeadline limits one read from a medium; 0 for [medium.ReadDeadline].
	ReadDeadline time.Duration
	Clock        clockwork.Clock
	Logger       *slog.Logger
}

// Registry holds the known media. Its methods may be called concurrently.
type Registry struct {
	// Overlay has the pushed images.
	Overlay *overlay.Overlay
	// Traffic counts what clients are sent.
	Traffic *traffic.Traffic

	options  Options
	quota    *quota.Quota
	staging  *staging.Store
	pushed   *disk // blobs of Overlay
	copies   *disk // whole copies of staging
	unpacked *unpacked.Store
	log      *slog.Logger
	current  atomic.Pointer[content]
	wake     chan struct{} // makes Run look at the media at once

	verifying chan struct{} // orders a comparison of all blobs

	rebuilding sync.Mutex // orders changes of current

	mu      sync.Mutex
	changed chan struct{} // closed at the next change of the known media
	paths   []*mediaPath
	media   []*held
	verify  Verify
	orders  map[string]time.Time // copies to the disk that were ordered, by identity of the medium
	packed  map[string]*packed   // compressed archives, by fingerprint
	removed map[string]bool      // pushed blobs that were damaged, by digest
	// stageProblems are the states of copies that do not go on, by identity of the medium.
	stageProblems map[string]string
}

// held is a known medium. Copies of a medium in several places are several of them.
type held struct {
	path     string // that led to it
	location medium.Location
	index    *medium.Index
	stamp    string        // of the file when it was read; see stampOf; guarded by Registry.mu
	modified time.Time     // of the file when it was read
	written  bool          // the file got other content since; guarded by Registry.mu
	quiet    bool          // nobody writes the files of the folder any more; guarded by Registry.mu
	files    string        // identity of the folder's files at the last look; guarded by Registry.mu
	same     time.Time     // since when the files are unchanged by the appliance's clock; guarded by Registry.mu
	noted    bool          // it is stored since when the medium is missing; guarded by Registry.mu
	starts   chan struct{} // limits the clients that read at the same time

	mu      sync.Mutex
	reader  *medium.Reader // nil while the medium is missing
	since   time.Time      // missing since, or present since
	damaged map[string]bool
	sound   map[string]bool // blobs whose bytes were compared with their digest
}

// parallelClients limits the blobs that clients read from one medium at the same time. The next
// client waits for a few seconds, and is then told to come back.
const parallelClients = 64

// Open reads the indexes of the known media and looks at the configured paths. Media that were
// known before can be served when it returns.
func Open(ctx context.Context, options Options) (*Registry, error) {
	if options.Open == nil {
		options.Open = medium.OpenFile
	}
	if options.Free == nil {
		options.Free = storage.Free
	}
	r := &Registry{options: options, Traffic: traffic.New(options.Clock), log: options.Logger,
		wake: make(chan struct{}, 1), verifying: make(chan struct{}, 1), changed: make(chan struct{}),
		orders: map[string]time.Time{}, stageProblems: map[string]string{}, packed: map[string]*packed{},
		removed: map[string]bool{}, quota: quota.New(options.Dir, options.Bytes, options.Free)}
	added, err := r.addedPaths()
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Concat(options.Media, added) {
		r.watch(path)
	}
	if err := r.loadPacked(); err != nil {
		return nil, fmt.Errorf("read which archives were unpacked: %w", err)
	}
	for _, p := range r.paths {
		p.ask(options.Clock.Now())
	}
	if r.Overlay, err = overlay.Open(overlay.Options{DB: options.DB, Dir: options.Dir, Quota: r.quota,
		Shared: options.Shared, Clock: options.Clock, Logger: options.Logger}); err != nil {
		return nil, err
	}
	if r.staging, err = staging.Open(filepath.Join(options.Dir, "staged"), r.quota); err != nil {
		return nil, err
	}
	r.pushed, r.copies = disksOf(r.Overlay, r.staging)
	if r.unpacked, err = unpacked.Open(filepath.Join(options.Dir, "unpacked"), r.quota, func(key string) bool {
		return r.follows() || r.packed[key] != nil
	}); err != nil {
		return nil, err
	}
	if r.orders, err = r.readOrders(); err != nil {
		return nil, fmt.Errorf("read which media are copied: %w", err)
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	r.compareSizes()
	r.rebuild()
	return r, nil
}

// load reads the media from the store that are not known yet.
func (r *Registry) load() error {
	rows := map[string]*mediumRow{}
	if err := r.options.DB.View(func(tx *store.Tx) error {
		return mediumRows.Each(tx, "", func(identity string, row *mediumRow) error {
			rows[identity] = row
			return nil
		})
	}); err != nil {
		return fmt.Errorf("read the known media: %w", err)
	}
	r.mu.Lock()
	for identity, row := range rows {
		_, ordered := r.orders[identity]
		if !ordered && r.watched(row.Path) == nil || // no longer in the configuration, and not copied
			slices.ContainsFunc(r.media, func(m *held) bool { return m.index.Identity == identity }) {
			delete(rows, identity)
		}
	}
	r.mu.Unlock()
	for identity, row := range rows {
		file, _, err := IndexFiles.Open(r.options.DB, identity)
		if errors.Is(err, store.ErrNotFound) || store.IsDamaged(err) {
			continue // the medium is scanned again
		}
		if err != nil {
			return fmt.Errorf("read the index of a medium: %w", err)
		}
		index, err := medium.Decode(file)
		if err = errors.Join(err, file.Close()); err != nil {
			r.log.Warn("The index of a medium can't be read. The medium is scanned again.", "path", row.Path, "error",
				err)
			continue
		}
		r.mu.Lock()
		since := row.Missing
		if since.IsZero() {
			since = r.options.Clock.Now()
		}
		r.media = append(r.media, newHeld(row.Path, row.Location, index, since))
		r.mu.Unlock()
	}
	return nil
}

// newHeld returns a medium that is missing since a time.
func newHeld(path string, location medium.Location, index *medium.Index, since time.Time) *held {
	return &held{path: path, location: location, index: index, since: since, damaged: map[string]bool{},
		sound: map[string]bool{}, starts: make(chan struct{}, parallelClients)}
}

// rebuild makes the content of the known media visible. Looks at several paths may call it
// concurrently; the last one must see the media of all.
func (r *Registry) rebuild() {
	r.rebuilding.Lock()
	defer r.rebuilding.Unlock()
	r.mu.Lock()
	media := slices.Clone(r.media)
	r.mu.Unlock()
	slices.SortFunc(media, func(a, b *held) int {
		return cmp.Or(cmp.Compare(a.location.Path, b.location.Path), cmp.Compare(a.index.Identity, b.index.Identity))
	})
	r.current.Store(merge(media))
}

// Changed returns a channel that is closed at the next change of the known media.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *Registry) notify() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// remember stores a medium, its index if the medium was scanned, and when its copy was ordered,
// unless that is nil or stored. It forgets others.
func (r *Registry) remember(ctx context.Context, m *held, scanned bool, forgotten []string,
	ordered *time.Time) error {
	var staged *store.Staged
	if scanned {
		var encoded bytes.Buffer
		if err := m.index.Encode(&encoded); err != nil {
			return fmt.Errorf("encode the index of a medium: %w", err)
		}
		var err error
		if staged, err = r.options.DB.Stage(ctx, &encoded); err != nil {
			return fmt.Errorf("store the index of a medium: %w", err)
		}
	}
	if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		for _, identity := range forgotten {
			if err := errors.Join(mediumRows.Delete(tx, identity), IndexFiles.Delete(tx, identity),
				stageRows.Delete(tx, identity)); err != nil {
				return err
			}
		}
		if ordered != nil {
			if err := stageRows.Put(tx, m.index.Identity, ordered); err != nil {
				return err
			}
		}
		if scanned {
			if err := IndexFiles.Put(tx, m.index.Identity, staged, r.options.Clock.Now().UTC()); err != nil {
				return err
			}
		}
		return mediumRows.Put(tx, m.index.Identity, &mediumRow{Path: m.path, Location: m.location})
	}); err != nil {
		return fmt.Errorf("store a medium: %w", err)
	}
	return nil
}

// Close closes all media. It does not wait for reads that hang.
func (r *Registry) Close() error {
	errs := []error{r.staging.Close()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.media {
		m.mu.Lock()
		if m.reader != nil {
			errs = append(errs, m.reader.Close())
			m.reader = nil
		}
		m.mu.Unlock()
	}
	return errors.Join(errs...)
}
