package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"landfall/appliance/fault"
	"landfall/appliance/registry/medium"
	"landfall/store"
)

// mediaPath is a path that is watched for media. Registry.mu guards its fields, except the path.
type mediaPath struct {
	path     string
	asked    chan struct{} // closed when the next look to begin ends; nil unless somebody asked for it
	progress time.Time     // when the look that was asked for last went on; zero if none is expected
	problems []string
	refused  map[medium.Location]refusal // not scanned again while they are unchanged
	incoming []medium.Location           // files and folders that are still being copied
}

// refusal is the reason why a file can't be served, and the state of the file that it is about.
type refusal struct {
	stamp  string
	reason *medium.UnusableError
}

// isExpected reports whether somebody asked for a look that has not ended.
func (p *mediaPath) isExpected() bool { return !p.progress.IsZero() }

// silence is how long a look may go on without progress. A look at a file system that hangs never
// ends, and what else the registry has must not wait for it.
const silence = time.Minute

// hangs reports whether the look that was asked for makes no progress.
func (p *mediaPath) hangs(now time.Time) bool {
	return p.isExpected() && now.Sub(p.progress) >= silence
}

// ask makes the next look one that was asked for. It returns a channel that is closed when that
// look has ended.
func (p *mediaPath) ask(now time.Time) <-chan struct{} {
	if p.asked == nil {
		p.asked = make(chan struct{})
	}
	p.progress = now
	return p.asked
}

// noteProgress notes that a look goes on.
func (r *Registry) noteProgress(p *mediaPath) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.isExpected() {
		p.progress = r.options.Clock.Now()
	}
}

// watched returns a watched path, or nil. The caller holds the mutex.
func (r *Registry) watched(path string) *mediaPath {
	for _, p := range r.paths {
		if p.path == path {
			return p
		}
	}
	return nil
}

// watch returns a path, which is watched from now on. The caller holds the mutex.
func (r *Registry) watch(path string) *mediaPath {
	p := r.watched(path)
	if p == nil {
		p = &mediaPath{path: path}
		r.paths = append(slices.Clip(r.paths), p)
	}
	return p
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

// Add adds a path of media, reads it, and records that the caller named its releases. For a known
// path, it does so for the releases that are there now.
func (r *Registry) Add(ctx context.Context, path string) error {
	if !filepath.IsAbs(path) {
		return fault.New(fault.Invalid, "%q is not an absolute path of the appliance's machine.", path)
	}
	path = filepath.Clean(path)
	if err := r.checkPlace(path); err != nil {
		return err
	}
	found, unusable, err := r.search(path)
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "%s can't be read on the appliance's machine: %v.", path, errors.Unwrap(err))
	case len(found) == 0 && len(unusable) > 0:
		return fault.New(fault.Invalid, "%s.", unusable[0].Error())
	case len(found) == 0:
		return fault.New(fault.Invalid, "%s has no media: no archive of oc-mirror, no OCI layout, no folder of "+
			"landfall courier or of oc image mirror.", path)
	}
	if !slices.Contains(r.options.Media, path) {
		if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
			now := r.options.Clock.Now().UTC()
			return addedRows.Put(tx, path, &now)
		}); err != nil {
			return fmt.Errorf("record a path of media: %w", err)
		}
	}
	if err := r.awaitLook(ctx, path); err != nil {
		return err
	}
	if err := r.nameMedia(ctx, path); err != nil {
		return err
	}
	r.notify()
	return nil
}

// checkPlace returns an error for a path whose folders are not those of a medium: each look would
// read the file systems of the kernel, or the registry's own files.
func (r *Registry) checkPlace(path string) error {
	place, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // the search says why
	}
	const instead = "Name the archive, or the folder where the medium is mounted."
	if place == "/" {
		return fault.New(fault.Invalid, "%s can't be a medium, because all file systems are there. %s", path, instead)
	}
	own, err := filepath.EvalSymlinks(r.options.Dir)
	if err == nil {
		own, err = filepath.Abs(own)
	}
	if err != nil {
		return fmt.Errorf("find the registry's own files: %w", err)
	}
	info, err := os.Stat(place)
	switch {
	case err != nil || !info.IsDir():
		return nil
	case isWithin(place, own):
		return fault.New(fault.Invalid, "%s can't be a medium, because the appliance's own images are in %s. %s", path,
			own, instead)
	}
	for _, system := range []string{"/proc", "/sys", "/dev"} {
		if isWithin(place, system) {
			return fault.New(fault.Invalid, "%s can't be a medium, because the kernel makes the files in %s. %s", path,
				system, instead)
		}
	}
	return nil
}

// search returns the media at a path, without the registry's own files. The path may be that of a
// stick with the data directory and media.
func (r *Registry) search(path string) ([]medium.Location, []*medium.UnusableError, error) {
	own, err := os.Stat(r.options.Dir)
	if err != nil {
		own = nil // the registry has no files
	}
	return medium.Find(path, own)
}

// isWithin reports whether a path is a folder or lies in it.
func isWithin(path, folder string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(relative)
}

// awaitLook waits until Run has read a path. Run begins after the call, so it reads what is there
// now.
func (r *Registry) awaitLook(ctx context.Context, path string) error {
	r.mu.Lock()
	p := r.watch(path)
	ended := p.ask(r.options.Clock.Now())
	r.mu.Unlock()
	r.Look()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ended:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched(path) != p {
		return fault.New(fault.Conflict, "%s was removed while it was read.", path)
	}
	return nil
}

// forgetPath stops watching a path, and forgets what was found there. The caller holds the mutex.
func (r *Registry) forgetPath(path string) {
	if p := r.watched(path); p != nil && p.asked != nil {
		close(p.asked) // nobody looks any more
		p.asked = nil
	}
	r.paths = slices.DeleteFunc(slices.Clone(r.paths), func(p *mediaPath) bool { return p.path == path })
	now := r.options.Clock.Now()
	r.media = slices.DeleteFunc(slices.Clone(r.media), func(m *held) bool {
		if m.path == path {
			m.detach(now)
		}
		return m.path == path
	})
	for _, p := range r.packed {
		if p.row.Path == path && p.present {
			p.present, p.since = false, now
		}
	}
}
