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
	"landfall/store"
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
	if r.follows() {
		background.Go(func() { r.followRows(ctx) })
	} else {
		background.Go(func() { r.verifyAll(ctx) })
		background.Go(func() { r.whileWaiting(ctx, r.stageAll) })
		background.Go(func() { r.whileWaiting(ctx, r.unpackWanted) })
	}
	looks := map[string]chan struct{}{}   // the running look at each path
	awaited := map[string]chan struct{}{} // looks after which another one follows
	for {
		r.mu.Lock()
		paths := slices.Clone(r.paths)
		r.mu.Unlock()
		for _, p := range paths {
			if running := looks[p.path]; running != nil {
				select {
				case <-running:
				default: // the file system hangs, or a scan takes long
					if awaited[p.path] != running {
						awaited[p.path] = running
						background.Go(func() { r.lookAfter(ctx, running) })
					}
					continue
				}
			}
			done := make(chan struct{})
			looks[p.path] = done
			go func() {
				defer close(done)
				r.look(ctx, p)
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

// lookResult is the result of a look at a path.
type lookResult struct {
	present  map[*held]bool
	changed  bool              // a medium or an archive came or went
	whole    bool              // all media are complete, and nobody writes them
	written  []medium.Location // media that somebody writes
	refused  map[medium.Location]refusal
	problems []string
}

// fail notes that something at the path can't be used.
func (s *lookResult) fail(err error) {
	s.problems = append(s.problems, sentence.Clause(err.Error()))
	if err, ok := errors.AsType[*writtenError](err); ok {
		s.written, s.whole = append(s.written, err.location), false
	}
}

// look compares the media at a path with the known ones.
func (r *Registry) look(ctx context.Context, p *mediaPath) {
	asked, refused := r.beginLook(p)
	found, unusable, err := r.search(p.path)
	s := &lookResult{present: map[*held]bool{}, whole: true, refused: map[medium.Location]refusal{}}
	for _, problem := range unusable {
		s.problems = append(s.problems, problem.Error())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.fail(err)
	}
	found, unreadable, changed := r.replacePacked(ctx, p.path, found, asked != nil)
	s.changed = changed
	for _, err := range unreadable {
		s.fail(err)
	}
	for _, location := range found {
		r.noteProgress(p)
		r.lookAt(ctx, p, location, refused[location], asked != nil, s)
	}
	if ctx.Err() == nil {
		s.changed = r.detachOthers(p.path, s.present) || s.changed
		r.record(ctx, p, s, asked != nil)
	}
	r.endLook(p, s)
	if s.changed || asked != nil {
		r.notify()
	}
	if asked != nil {
		close(asked)
	}
}

// beginLook returns the channel to close at the end of a look if somebody asked for it, and the
// files that were refused before.
func (r *Registry) beginLook(p *mediaPath) (asked chan struct{}, refused map[medium.Location]refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if asked, p.asked = p.asked, nil; asked != nil {
		p.progress = r.options.Clock.Now()
	}
	return asked, p.refused
}

// lookAt looks at the medium at a location.
func (r *Registry) lookAt(ctx context.Context, p *mediaPath, location medium.Location, before refusal, asked bool,
	s *lookResult) {
	m, added, refused, err := r.attach(ctx, p, location, before, asked)
	switch {
	case ctx.Err() != nil:
		return
	case refused.reason != nil:
		s.refused[location] = refused
		s.problems = append(s.problems, refused.reason.Error())
	case err != nil:
		s.fail(err)
	case m != nil:
		s.changed = s.changed || added
		s.whole = s.whole && r.isQuiet(m) && !m.index.Cut() && !r.isRecent(location, m.modified)
	}
	if m != nil { // a folder that somebody writes is served on
		s.present[m] = true
	}
}

// record stores the releases that a look found, and since when media are missing. A member that
// follows stores nothing.
func (r *Registry) record(ctx context.Context, p *mediaPath, s *lookResult, asked bool) {
	if r.follows() {
		return
	}
	if len(s.present) > 0 {
		recorded, err := r.nameFirst(ctx, p.path, s.whole, s.changed || asked)
		if err != nil && ctx.Err() == nil {
			s.problems = append(s.problems, "its releases can't be recorded: "+sentence.Clause(err.Error()))
		}
		s.changed = s.changed || recorded
	}
	if err := r.noteMissing(ctx, p.path); err != nil && ctx.Err() == nil {
		r.log.Warn("The appliance can't store since when media are missing.", "path", p.path, "error", err)
	}
}

// endLook makes the result of a look that of its path. If somebody removed the path meanwhile, the
// media that the look found are forgotten, unless somebody added the path again.
func (r *Registry) endLook(p *mediaPath, s *lookResult) {
	r.mu.Lock()
	p.problems, p.refused, p.incoming = s.problems, s.refused, s.written
	if p.asked == nil {
		p.progress = time.Time{}
	}
	removed := r.watched(p.path) == nil
	if removed {
		r.forgetPath(p.path)
	}
	r.mu.Unlock()
	if removed {
		r.rebuild()
	}
}

// noteMissing stores since when the media and archives of a path are missing, so that a restart
// does not change it. A medium whose row is that of a copy in another place is left out.
func (r *Registry) noteMissing(ctx context.Context, path string) error {
	missing := map[string]*held{}       // by identity
	archives := map[*packed]time.Time{} // since when they are missing; zero for those that came back
	r.mu.Lock()
	for _, m := range r.media {
		if m.path == path && m.missing() && !m.noted {
			missing[m.index.Identity] = m
		}
	}
	for _, p := range r.packed {
		switch isNoted := !p.row.Missing.IsZero(); {
		case !p.stored, p.row.Path != path, p.present != isNoted:
		case p.present:
			archives[p] = time.Time{}
		default:
			archives[p] = p.since.UTC()
		}
	}
	r.mu.Unlock()
	if len(missing)+len(archives) == 0 {
		return nil
	}
	if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		for identity, m := range missing {
			row, err := mediumRows.Get(tx, identity)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err == nil && (row.Location != m.location || !row.Missing.IsZero()) {
				continue
			}
			if err == nil {
				m.mu.Lock()
				row.Missing = m.since.UTC()
				m.mu.Unlock()
				err = mediumRows.Put(tx, identity, row)
			}
			if err != nil {
				return err
			}
		}
		for p, since := range archives {
			row, err := packedRows.Get(tx, p.key)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err == nil {
				row.Missing = since
				err = packedRows.Put(tx, p.key, row)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range missing {
		m.noted = true
	}
	for p, since := range archives {
		p.row.Missing = since
	}
	return nil
}

// detachOthers notes that the other media of a path are missing. It reports whether one was
// present.
func (r *Registry) detachOthers(path string, present map[*held]bool) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.media {
		if m.path == path && !present[m] && m.detach(r.options.Clock.Now()) {
			changed = true
			r.log.Warn("A medium is missing. Clients are told to wait for it.", "medium", m.location.Label(), "path",
				m.location.Path)
		}
	}
	return changed
}

// stampOf returns a text that changes with the file or folder at a location, and when that changed
// last.
func stampOf(location medium.Location) (stamp string, modified time.Time, err error) {
	info, err := os.Stat(location.Path)
	if err != nil {
		return "", time.Time{}, err
	}
	stamp, modified = fmt.Sprintf("%s\n%d\n%d", location.Path, info.Size(), info.ModTime().UnixNano()), info.ModTime()
	if location.Container != medium.Folder {
		return stamp, modified, nil
	}
	for _, name := range []string{"index.json", "bundle.json", "blobs", "blobs/sha256", "v2",
		"docker/registry/v2/repositories", "docker/registry/v2/blobs/sha256"} {
		if info, err := os.Stat(filepath.Join(location.Path, filepath.FromSlash(name))); err == nil {
			stamp += fmt.Sprintf("\n%s %d", name, info.ModTime().UnixNano())
			if info.ModTime().After(modified) {
				modified = info.ModTime()
			}
		}
	}
	return stamp, modified, nil
}

// settleTime is how long a file or folder must be unchanged before it counts as whole: a program
// may still be writing it.
const settleTime = 5 * time.Second

// isRecent reports whether the file or folder at a location, which changed at a time, may still be
// written. A time after now is from another clock, and says nothing. Unpacked archives are whole.
func (r *Registry) isRecent(location medium.Location, modified time.Time) bool {
	_, unpacked := r.unpacked.KeyOf(location.Path)
	age := r.options.Clock.Since(modified)
	return !unpacked && age >= 0 && age < settleTime
}

// quietTime is how long all files of a folder must be unchanged before nobody writes them any more:
// a slow stick keeps a program that copies a folder waiting for long. The times of the files say
// nothing, because cp -a, rsync -a and tar set them to those of the originals.
const quietTime = time.Minute

// isQuiet reports whether nobody writes a medium any more.
func (r *Registry) isQuiet(m *held) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return m.quiet || m.location.Container != medium.Folder
}

// compareFiles reports whether the files of a folder have changed since it was read, and whether
// somebody may still write them. The upper folders of a folder, which each look compares, do not
// change with all of its files. A quiet folder is compared only if somebody asked for it.
func (r *Registry) compareFiles(ctx context.Context, p *mediaPath, m *held, asked bool) (changed, recent bool) {
	if m.location.Container != medium.Folder || r.isQuiet(m) && !asked {
		return false, false
	}
	files, err := medium.FolderIdentity(ctx, m.location.Path, func() { r.noteProgress(p) })
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Clock.Now()
	if err != nil || files != m.files {
		m.files, m.same = files, now
	}
	if err != nil {
		return false, false
	}
	changed = files != m.index.Identity
	m.quiet = !changed && (m.quiet || now.Sub(m.same) >= quietTime)
	return changed, now.Sub(m.same) < settleTime
}

// writtenError reports a medium that is being written. Its text is a clause.
type writtenError struct{ location medium.Location }

func (e *writtenError) Error() string {
	use := "served"
	if e.location.Container == medium.Compressed {
		use = "offered for a copy to the disk"
	}
	return fmt.Sprintf("%s is still being copied or written; it is %s when it has been unchanged for %s",
		e.location.Path, use, settleTime)
}

// setWritten notes that the file of the medium at a location gets other content.
func (r *Registry) setWritten(location medium.Location) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.media {
		m.written = m.written || m.location == location && !m.missing()
	}
}

// presentIn returns the medium that is present at a location, or nil.
func (r *Registry) presentIn(location medium.Location) *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.media {
		if m.location == location && !m.missing() {
			return m
		}
	}
	return nil
}

// attach makes the medium at a location readable. A medium that is known by its fingerprint is not
// scanned again, and a file that was refused is not either while it is unchanged. A file that may
// still be written is read only if somebody asked for it.
func (r *Registry) attach(ctx context.Context, p *mediaPath, location medium.Location, before refusal, asked bool) (
	_ *held, changed bool, _ refusal, err error) {
	stamp, modified, err := stampOf(location)
	if err != nil {
		return nil, false, refusal{}, err
	}
	if m := r.presentAt(location, stamp); m != nil {
		switch filesChanged, recent := r.compareFiles(ctx, p, m, asked); {
		case !filesChanged:
			return m, false, refusal{}, nil
		case recent && !asked:
			return m, false, refusal{}, &writtenError{location}
		}
	}
	if before.reason != nil && before.stamp == stamp {
		return nil, false, before, nil
	}
	if !asked && r.isRecent(location, modified) {
		r.setWritten(location)
		var before *held
		if location.Container == medium.Folder { // what it had is still there
			before = r.presentIn(location)
		}
		return before, false, refusal{}, &writtenError{location}
	}
	fingerprint, err := medium.Fingerprint(location, r.options.Open)
	if err != nil {
		return nil, false, refusal{}, err
	}
	start := r.options.Clock.Now()
	index := r.indexOf(fingerprint)
	scanned := index == nil
	if scanned {
		index, err = medium.Scan(ctx, location, r.options.Open, func() { r.noteProgress(p) })
		if unusable, ok := errors.AsType[*medium.UnusableError](err); ok {
			return nil, false, refusal{stamp, unusable}, nil
		}
		if err != nil {
			return nil, false, refusal{}, err
		}
	}
	m := newHeld(p.path, location, index, r.options.Clock.Now())
	m.stamp, m.modified, m.files, m.same = stamp, modified, index.Identity, start
	if m.reader, err = medium.NewReader(medium.ReaderOptions{Location: location, Index: index, Open: r.options.Open,
		Deadline: r.options.ReadDeadline}); err != nil {
		return nil, false, refusal{}, err
	}
	if forgotten, ordered := r.place(m); r.follows() {
		// The leader stores media.
	} else if err := r.remember(ctx, m, scanned, forgotten, ordered); err != nil {
		// The index is in memory; a full disk must not keep images from nodes.
		r.log.Error("A medium can't be stored. It is served, and scanned again at the next start.", "medium",
			location.Label(), "error", err)
	}
	if scanned {
		r.log.Info("A medium was read.", "medium", location.Label(), "form", index.Form, "images",
			len(index.Manifests), "blobs", len(index.Blobs), "took", r.options.Clock.Since(start))
	}
	r.rebuild()
	return m, true, refusal{}, nil
}

// place adds a medium that is present. It replaces a missing one with the same content, and that
// which was at its location until the file was written again: a file that is being copied would
// otherwise leave media behind. A missing one with content that the new one lacks stays: it is
// another stick. One whose copy on the disk is whole stays too, unless it was a part of the new
// one. place returns the identities that no medium has any more, and when a copy of one of them was
// ordered, which is now an order of the medium.
func (r *Registry) place(m *held) (forgotten []string, ordered *time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	replaced := false
	now := r.options.Clock.Now()
	kept := []*held{m}
	for _, other := range r.media {
		same := other.index.Identity == m.index.Identity
		at, isOrdered := r.orders[other.index.Identity]
		grown := !same && other.location == m.location && m.index.Contains(other.index)
		wasHere := other.location == m.location && other.detach(now)
		isPart := grown && (other.index.Cut() || wasHere && m.location.Container == medium.Folder && !other.quiet)
		switch {
		case wasHere, other.location == m.location && (other.written || grown):
			switch {
			case same:
			case isOrdered && !isPart && r.wholeOf(other):
				kept = append(kept, other)
			default:
				if isOrdered {
					ordered = &at
				}
				forgotten = append(forgotten, other.index.Identity)
			}
		case same && !replaced && other.missing():
			replaced = true
		default:
			kept = append(kept, other)
		}
	}
	r.media = kept
	forgotten = slices.DeleteFunc(forgotten, func(identity string) bool {
		return slices.ContainsFunc(kept, func(m *held) bool { return m.index.Identity == identity })
	})
	for _, identity := range forgotten {
		delete(r.orders, identity)
	}
	if _, known := r.orders[m.index.Identity]; known || ordered == nil {
		return forgotten, nil
	}
	r.orders[m.index.Identity] = *ordered
	return forgotten, ordered
}

// presentAt returns the medium that was read at a location, if its file is unchanged.
func (r *Registry) presentAt(location medium.Location, stamp string) *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.media {
		if m.location == location && (m.stamp == stamp || r.isInRepair(location)) && !m.missing() {
			return m
		}
	}
	return nil
}

// indexOf returns the index of a known medium by its fingerprint, or nil.
func (r *Registry) indexOf(fingerprint string) *medium.Index {
	if fingerprint == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.media {
		if m.index.Fingerprint == fingerprint && m.index.Version == medium.Version {
			return m.index
		}
	}
	return nil
}

func (m *held) missing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reader == nil
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
