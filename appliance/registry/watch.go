package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"landfall/appliance/registry/medium"
	"landfall/appliance/sentence"
)

// watchInterval is the time between two looks at the paths of media.
const watchInterval = 2 * time.Second

// Run watches the paths until the context ends: media that come are scanned, media that go are
// missing. A path whose file system hangs delays neither the others nor the end.
func (r *Registry) Run(ctx context.Context) error {
	ticker := r.options.Clock.NewTicker(watchInterval)
	defer ticker.Stop()
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() { r.verifyAll(ctx) })
	looks := map[string]chan struct{}{}   // the running look at each path
	awaited := map[string]chan struct{}{} // looks after which another one follows
	for {
		r.mu.Lock()
		paths := slices.Clone(r.paths)
		r.mu.Unlock()
		for _, path := range paths {
			if running := looks[path]; running != nil {
				select {
				case <-running:
				default: // the file system hangs, or a scan takes long
					if awaited[path] != running {
						awaited[path] = running
						background.Go(func() { r.lookAfter(ctx, running) })
					}
					continue
				}
			}
			done := make(chan struct{})
			looks[path] = done
			go func() {
				defer close(done)
				r.look(ctx, path)
			}()
		}
		select {
		case <-ctx.Done():
			return r.wait(looks)
		case <-ticker.Chan():
		case <-r.wake:
		}
	}
}

// lookAfter makes Run look again when a running look has ended.
func (r *Registry) lookAfter(ctx context.Context, running <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-running:
		r.Look()
	}
}

// wait waits for the running looks. Those that hang in the kernel end with the process.
func (r *Registry) wait(looks map[string]chan struct{}) error {
	limit := time.NewTimer(medium.ReadDeadline)
	defer limit.Stop()
	for path, done := range looks {
		select {
		case <-done:
		case <-limit.C:
			r.log.Warn("A medium does not answer. The appliance stops without waiting for it.", "path", path)
			return nil
		}
	}
	return nil
}

// Look makes Run look at the paths at once.
func (r *Registry) Look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// look compares the media at a path with the known ones.
func (r *Registry) look(ctx context.Context, path string) {
	found, unusable, err := medium.Find(path)
	var problems []string
	for _, problem := range unusable {
		problems = append(problems, problem.Error())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		problems = append(problems, sentence.Clause(err.Error()))
	}
	changed := false
	present := map[*held]bool{}
	for _, location := range found {
		m, added, err := r.attach(ctx, path, location)
		if refused, ok := errors.AsType[*medium.UnusableError](err); ok {
			problems = append(problems, refused.Error())
			continue
		}
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			problems = append(problems, sentence.Clause(err.Error()))
			continue
		}
		present[m] = true
		changed = changed || added
	}
	r.mu.Lock()
	for _, m := range r.media {
		if m.path == path && !present[m] && m.detach(r.options.Clock.Now()) {
			changed = true
			r.log.Warn("A medium is missing. Clients are told to wait for it.", "medium", m.location.Label(), "path",
				m.location.Path)
		}
	}
	first := r.reading[path]
	delete(r.reading, path)
	r.problems[path] = problems
	r.mu.Unlock()
	if changed {
		r.rebuild()
	}
	if len(present) > 0 && (changed || first) {
		if err := r.nameFirst(ctx, path); err != nil && ctx.Err() == nil {
			r.log.Error("The releases of a medium can't be recorded.", "path", path, "error", err)
		}
	}
	if changed || first {
		r.notify()
	}
}

// stampOf returns a text that changes with the file or folder at a location.
func stampOf(location medium.Location) (string, error) {
	info, err := os.Stat(location.Path)
	if err != nil {
		return "", err
	}
	stamp := fmt.Sprintf("%s\n%d\n%d", location.Path, info.Size(), info.ModTime().UnixNano())
	if location.Container != medium.Folder {
		return stamp, nil
	}
	for _, name := range []string{"index.json", "bundle.json", "blobs", "blobs/sha256", "v2",
		"docker/registry/v2/repositories", "docker/registry/v2/blobs/sha256"} {
		if info, err := os.Stat(filepath.Join(location.Path, filepath.FromSlash(name))); err == nil {
			stamp += fmt.Sprintf("\n%s %d", name, info.ModTime().UnixNano())
		}
	}
	return stamp, nil
}

// attach makes the medium at a location readable. A medium that is known by its fingerprint is not
// scanned again.
func (r *Registry) attach(ctx context.Context, path string, location medium.Location) (_ *held, changed bool,
	err error) {
	stamp, err := stampOf(location)
	if err != nil {
		return nil, false, err
	}
	if m := r.presentAt(location, stamp); m != nil {
		return m, false, nil
	}
	fingerprint, err := medium.Fingerprint(location, r.options.Open)
	if err != nil {
		return nil, false, err
	}
	start := r.options.Clock.Now()
	m := r.byFingerprint(fingerprint)
	if m == nil {
		index, err := medium.Scan(ctx, location, r.options.Open)
		if err != nil {
			return nil, false, err
		}
		m = r.known(path, location, index)
		if err := r.remember(ctx, m); err != nil {
			// The index is in memory; a full disk must not keep images from nodes.
			r.log.Error("The index of a medium can't be stored. The medium is served, and scanned again at the next "+
				"start.", "medium", location.Label(), "error", err)
		}
		r.log.Info("A medium was read.", "medium", location.Label(), "form", index.Form, "images",
			len(index.Manifests), "blobs", len(index.Blobs), "took", r.options.Clock.Since(start))
	}
	reader, err := medium.NewReader(medium.ReaderOptions{Location: location, Index: m.index, Open: r.options.Open,
		Deadline: r.options.ReadDeadline})
	if err != nil {
		return nil, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reader != nil {
		err = m.reader.Close()
	}
	m.path, m.location, m.reader, m.stamp, m.since = path, location, reader, stamp, r.options.Clock.Now()
	clear(m.sound) // another copy may have other bytes
	clear(m.damaged)
	r.media[m.index.Identity] = m
	return m, true, err
}

func (r *Registry) presentAt(location medium.Location, stamp string) *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.media {
		m.mu.Lock()
		same := m.reader != nil && m.location == location && m.stamp == stamp
		m.mu.Unlock()
		if same {
			return m
		}
	}
	return nil
}

func (r *Registry) byFingerprint(fingerprint string) *held {
	if fingerprint == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.media {
		if m.index.Fingerprint == fingerprint {
			return m
		}
	}
	return nil
}

// known returns the known medium with the content of an index, or a new one.
func (r *Registry) known(path string, location medium.Location, index *medium.Index) *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.media[index.Identity]; m != nil && m.index.Identity == index.Identity {
		fresh := newHeld(path, location, index, m.since)
		fresh.reader = m.reader
		return fresh
	}
	return newHeld(path, location, index, r.options.Clock.Now())
}

// detach closes a missing medium. It reports whether the medium was present.
func (m *held) detach(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reader == nil {
		return false
	}
	_ = m.reader.Close() // it was only read
	m.reader, m.since = nil, now
	return true
}
