// Package registry is the appliance's own registry. It serves the images on media as they lie
// there, and images that people and programs push.
//
// Package medium reads media. [Registry] knows the media, present and missing, and finds the places
// of blobs and manifests on them. Package web/registry speaks HTTP.
package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
	"landfall/store"
)

// mediumRows stores the known media by their identity, and indexFiles their indexes.
var (
	mediumRows = store.NewBucket[mediumRow]("registry-media", 1)
	indexFiles = store.NewFiles("registry-indexes")
)

type mediumRow struct {
	Path      string           `json:"path"` // of the configuration or of a request, which led to the medium
	Location  medium.Location  `json:"location"`
	Added     time.Time        `json:"added"`
	LastSeen  time.Time        `json:"last_seen"`
	Container medium.Container `json:"container"`
}

// Options configures [Open].
type Options struct {
	DB    *store.DB
	Media []string // paths of the configuration
	Dir   string   // of pushed images
	Bytes int64    // limit of pushed images; 0 for none
	// Open opens the files of media; nil for [medium.OpenFile].
	Open medium.Opener
	// ReadDeadline limits one read from a medium; 0 for [medium.ReadDeadline].
	ReadDeadline time.Duration
	Clock        clockwork.Clock
	Logger       *slog.Logger
}

// Registry holds the known media. Its methods may be called concurrently.
type Registry struct {
	// Overlay has the pushed images.
	Overlay *overlay.Overlay

	options Options
	log     *slog.Logger
	current atomic.Pointer[content]
	wake    chan struct{} // makes Run look at the media at once

	verifying chan struct{} // orders a comparison of all blobs

	mu       sync.Mutex
	changed  chan struct{}    // closed at the next change of the known media
	paths    []string         // that are watched
	media    map[string]*held // by identity
	problems map[string][]string
	reading  map[string]bool // paths whose first scan has not ended
	verify   Verify
}

// held is a known medium.
type held struct {
	path     string // that led to it
	location medium.Location
	index    *medium.Index
	starts   chan struct{} // limits the clients that read at the same time

	mu      sync.Mutex
	reader  *medium.Reader // nil while the medium is missing
	stamp   string         // of the present file; see stampOf
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
	r := &Registry{options: options, log: options.Logger, wake: make(chan struct{}, 1), verifying: make(chan struct{},
		1), paths: options.Media,
		changed: make(chan struct{}), media: map[string]*held{}, problems: map[string][]string{},
		reading: map[string]bool{}}
	added, err := r.addedPaths()
	if err != nil {
		return nil, err
	}
	r.paths = append(slices.Clip(r.paths), added...)
	for _, path := range r.paths {
		r.reading[path] = true
	}
	if r.Overlay, err = overlay.Open(overlay.Options{DB: options.DB, Dir: options.Dir, Bytes: options.Bytes,
		Clock: options.Clock}); err != nil {
		return nil, err
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	r.rebuild()
	return r, nil
}

// addedPaths returns the paths that administrators added, except those of the configuration.
func (r *Registry) addedPaths() (paths []string, err error) {
	err = r.options.DB.View(func(tx *store.Tx) error {
		return addedRows.Each(tx, "", func(path string, _ *time.Time) error {
			if !slices.Contains(r.options.Media, path) {
				paths = append(paths, path)
			}
			return nil
		})
	})
	return paths, err
}

// load reads the known media from the store.
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
	for identity, row := range rows {
		if !slices.Contains(r.paths, row.Path) {
			continue // no longer in the configuration
		}
		file, _, err := indexFiles.Open(r.options.DB, identity)
		if errors.Is(err, store.ErrNotFound) {
			continue
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
		r.media[identity] = newHeld(row.Path, row.Location, index, row.LastSeen)
	}
	return nil
}

func newHeld(path string, location medium.Location, index *medium.Index, since time.Time) *held {
	return &held{path: path, location: location, index: index, since: since, damaged: map[string]bool{},
		sound: map[string]bool{}, starts: make(chan struct{}, parallelClients)}
}

// rebuild makes the content of the present set of media visible.
func (r *Registry) rebuild() {
	r.mu.Lock()
	media := slices.SortedFunc(maps.Values(r.media), func(a, b *held) int {
		return cmp.Or(cmp.Compare(a.location.Path, b.location.Path), cmp.Compare(a.index.Identity, b.index.Identity))
	})
	r.mu.Unlock()
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

// remember stores a medium and its index.
func (r *Registry) remember(ctx context.Context, m *held) error {
	var encoded bytes.Buffer
	if err := m.index.Encode(&encoded); err != nil {
		return fmt.Errorf("encode the index of a medium: %w", err)
	}
	staged, err := r.options.DB.Stage(ctx, &encoded)
	if err != nil {
		return fmt.Errorf("store the index of a medium: %w", err)
	}
	now := r.options.Clock.Now().UTC()
	if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		row := &mediumRow{Path: m.path, Location: m.location, Added: now, LastSeen: now}
		return errors.Join(mediumRows.Put(tx, m.index.Identity, row),
			indexFiles.Put(tx, m.index.Identity, staged, now))
	}); err != nil {
		return fmt.Errorf("store the index of a medium: %w", err)
	}
	return nil
}

// Close closes all media. It does not wait for reads that hang.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
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
