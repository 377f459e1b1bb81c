package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/quota"
	"landfall/appliance/registry/unpacked"
	"landfall/appliance/sentence"
	"landfall/store"
)

// packedRows stores the compressed archives that were unpacked, or are to be, by their fingerprint.
var packedRows = store.NewBucket[packedRow]("registry-unpacked", 1)

type packedRow struct {
	Path     string          `json:"path"` // of the configuration or of a request, which led to the archive
	Location medium.Location `json:"location"`
	Name     string          `json:"name"` // relative path of the tar archive, from which its label is made
	Size     int64           `json:"size"`
	AtLeast  int64           `json:"at_least"` // bytes of the tar archive
	Wanted   bool            `json:"wanted"`
	Missing  time.Time       `json:"missing,omitzero"` // since when, unless it is present
}

// packed is a compressed archive that lies at a path, or that was unpacked. Its tar archive is a
// medium of the same path.
type packed struct {
	key  string // its fingerprint
	read atomic.Int64

	// guarded by Registry.mu
	row     packedRow
	stamp   string // of the file when it was read; see stampOf
	present bool
	since   time.Time // present or missing since
	stored  bool      // the row is stored, so there may be files
	// overwritten is set if its file got other content while it was present, as while it is being
	// copied. A part that was unpacked before then belongs to no archive.
	overwritten bool
	// repairs is set from the start of a repair of its tar archive until it is sound.
	repairs bool
	busy    bool   // it is unpacked or removed now
	state   string // why it is not unpacked further
	message string
}

// loadPacked reads which archives were unpacked or are to be. Their paths are watched, also if the
// configuration does not have them any more.
func (r *Registry) loadPacked() error {
	return r.options.DB.View(func(tx *store.Tx) error {
		return packedRows.Each(tx, "", func(key string, row *packedRow) error {
			since := row.Missing
			if since.IsZero() {
				since = r.options.Clock.Now()
			}
			r.packed[key] = &packed{key: key, row: *row, stored: true, since: since}
			r.watch(row.Path)
			return nil
		})
	})
}

// replacePacked notes the compressed archives at a path. It returns the other media there, and the
// tar archives of those that were unpacked. changed is set if an archive came or went. An archive
// that may still be written is noted only if somebody asked for it: a part of it can't be unpacked.
func (r *Registry) replacePacked(ctx context.Context, path string, found []medium.Location, asked bool) (
	plain []medium.Location, problems []error, changed bool) {
	here := map[string]bool{}
	for _, location := range found {
		if location.Container != medium.Compressed {
			plain = append(plain, location)
			continue
		}
		key, added, err := r.notePacked(path, location, asked)
		if err != nil {
			problems = append(problems, err)
		}
		if key != "" {
			here[key], changed = true, changed || added
		}
	}
	for key := range here {
		inherited, err := r.inheritOrder(ctx, key)
		if err != nil {
			problems = append(problems, err)
		}
		changed = changed || inherited
	}
	for _, p := range r.allPacked() {
		if _, whole := r.written(p); whole && r.rowOf(p).Path == path {
			plain = append(plain, medium.Location{Path: r.unpacked.Path(p.key, p.row.Name), Container: medium.Tar})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, p := range r.packed {
		if p.row.Path != path || here[key] {
			continue
		}
		if p.present {
			p.present, p.since, changed = false, r.options.Clock.Now(), true
		}
		if !p.stored {
			delete(r.packed, key)
		}
	}
	return plain, problems, changed
}

// notePacked notes a compressed archive. It reports whether it is new or was missing.
func (r *Registry) notePacked(path string, location medium.Location, asked bool) (key string, added bool, err error) {
	stamp, modified, err := stampOf(location)
	if err != nil {
		return "", false, err
	}
	r.mu.Lock()
	for _, p := range r.packed {
		if p.row.Location == location && p.stamp == stamp && p.present {
			r.mu.Unlock()
			return p.key, false, nil
		}
	}
	r.mu.Unlock()
	if key, err = medium.Fingerprint(location, r.options.Open); err != nil {
		return "", false, err
	}
	r.mu.Lock()
	former := r.packed[key]
	// A known archive that is back is whole.
	isWritten := !asked && r.isRecent(location, modified) && former == nil
	for _, p := range r.packed {
		if p.row.Location != location || !p.present {
			continue
		}
		p.overwritten = isWritten || modified.After(p.since) // otherwise it is another stick
	}
	isSecond := former != nil && former.present && former.row.Location != location
	var first packed
	if isSecond {
		first = packed{row: former.row, stamp: former.stamp}
	}
	r.mu.Unlock()
	if first.row.Path == path { // the look at another path notes itself that its copy is gone
		now, _, err := stampOf(first.row.Location)
		isSecond = err == nil && now == first.stamp
	}
	if isWritten {
		return "", false, &writtenError{location}
	}
	size, atLeast, err := medium.UnpackedSize(location, r.options.Open)
	if err != nil {
		return "", false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.packed[key]
	if p == nil {
		p = &packed{key: key, row: packedRow{Name: medium.PlainName(location.Label()), Size: size, AtLeast: atLeast}}
		r.packed[key] = p
	}
	if isSecond {
		return key, false, nil
	}
	for _, other := range r.packed { // both must not count as present here, not even for a moment
		if other.row.Location == location && other.present {
			other.present, other.since = false, r.options.Clock.Now()
		}
	}
	p.row.Path, p.row.Location = path, location
	p.stamp, p.present, p.overwritten, p.since = stamp, true, false, r.options.Clock.Now()
	p.state, p.message = "", "" // it may be sound now
	return key, true, nil
}

// successor returns the present archive that lies where another one lay, or nil.
func (r *Registry) successor(p *packed) (by *packed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.packed {
		if q != p && q.row.Location == p.row.Location && q.present && !p.present {
			by = q
		}
	}
	return by
}

// tarOf returns the medium that is the tar archive of an archive, or nil.
func (r *Registry) tarOf(p *packed) *held {
	path := r.unpacked.Path(p.key, r.rowOf(p).Name)
	for _, m := range r.current.Load().media {
		if m.location.Path == path {
			return m
		}
	}
	return nil
}

// inheritOrder makes the order of an archive that was incomplete one of the archive that replaced
// it in its place. It reports whether there was one. After a restart nobody knows whether the
// archive was incomplete; the status then says what to do.
func (r *Registry) inheritOrder(ctx context.Context, key string) (inherited bool, err error) {
	r.mu.Lock()
	p := r.packed[key]
	if p == nil || p.row.Wanted || r.follows() {
		r.mu.Unlock()
		return false, nil
	}
	location := p.row.Location
	r.mu.Unlock()
	former := slices.DeleteFunc(r.allPacked(), func(q *packed) bool {
		r.mu.Lock()
		is := q != p && q.row.Location == location && q.overwritten && q.row.Wanted
		r.mu.Unlock()
		return !is || r.isWhole(q)
	})
	if len(former) == 0 {
		return false, nil
	}
	if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(r.wantPacked(tx, []*packed{p}, true), r.wantPacked(tx, former, false))
	}); err != nil {
		return false, fmt.Errorf("record the copy of a medium: %w", err)
	}
	r.setWanted([]*packed{p}, true)
	r.setWanted(former, false)
	return true, nil
}

// removeParts removes what was written of archives that are not wanted any more, and whose files
// were overwritten before they were unpacked completely. Only a person removes a whole copy.
func (r *Registry) removeParts(ctx context.Context) {
	for _, p := range r.allPacked() {
		if !r.claim(p, func() bool { return p.stored && !p.row.Wanted && p.overwritten }) {
			continue
		}
		var err error
		if !r.isWhole(p) {
			if _, err = r.unpacked.Remove(p.key); err == nil {
				err = r.forgetUnpacked(ctx, p)
			}
		}
		r.release(p)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("A part of an archive that was replaced can't be removed.", "error", err)
		}
	}
}

func (r *Registry) rowOf(p *packed) packedRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.row
}

// packedOf returns the compressed archive of a medium that was unpacked, or nil.
func (r *Registry) packedOf(m *held) *packed {
	key, ok := r.unpacked.KeyOf(m.location.Path)
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.packed[key]
}

// allPacked returns the compressed archives by their paths.
func (r *Registry) allPacked() []*packed {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*packed
	for _, p := range r.packed {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *packed) int {
		return cmp.Or(cmp.Compare(a.row.Location.Path, b.row.Location.Path), cmp.Compare(a.key, b.key))
	})
	return all
}

// written returns how many bytes of the tar archive are on the disk.
func (r *Registry) written(p *packed) (bytes int64, whole bool) {
	return r.unpacked.Written(p.key, p.row.Name)
}

func (r *Registry) isWhole(p *packed) bool {
	_, whole := r.written(p)
	return whole
}

// packedStatus describes a compressed archive. It returns nil if its tar archive is a medium, or if
// neither the archive nor a wish for it is there.
func (r *Registry) packedStatus(p *packed) *MediumStatus {
	r.mu.Lock()
	row, present, since, state, message := p.row, p.present, p.since, p.state, p.message
	at := r.watched(row.Path)
	isWritten := p.overwritten && at != nil && slices.Contains(at.incoming, row.Location)
	r.mu.Unlock()
	if r.isWhole(p) || !present && !row.Wanted {
		return nil
	}
	s := &MediumStatus{Path: row.Path, Label: r.labelOfPacked(p), Form: medium.FormUnknown,
		Container: medium.Compressed, Present: present, Since: since, Bytes: row.Size, Releases: []Release{},
		Damaged: []string{}, Problems: []string{}}
	if !row.Wanted {
		s.Problems = append(s.Problems, fmt.Sprintf("the archive is compressed, so it can't be served where it lies. "+
			"Copy it to the disk, which unpacks it and takes at least %s", sentence.Size(row.AtLeast)))
		return s
	}
	s.Staging = Staging{State: cmp.Or(state, StageCopying), Done: p.read.Load(), Total: row.Size, Message: message}
	by := r.successor(p)
	switch {
	case isWritten:
		s.Staging.State = StageWaiting
		s.Staging.Message = "the archive is still being copied; it is unpacked afterwards"
	case state == StageFull:
		s.Staging.Message = r.fullMessage()
	case by != nil:
		s.Staging.State = StageWaiting
		s.Staging.Message = fmt.Sprintf("another archive lies in its place now; landfall registry stage %q copies "+
			"that one, and landfall registry stage %q --cancel ends this order", r.labelOfPacked(by), s.Label)
	case state == "" && !present:
		s.Staging.State, s.Staging.Message = StageWaiting, "plug the medium in again; it is unpacked from its beginning"
	}
	return s
}

// needed returns how many bytes the unpacking still takes at least.
func (r *Registry) needed(p *packed) int64 {
	written, whole := r.written(p)
	if whole {
		return 0
	}
	return max(0, p.row.AtLeast-written)
}

// wantPacked records whether archives are wanted.
func (r *Registry) wantPacked(tx *store.Tx, archives []*packed, wanted bool) error {
	for _, p := range archives {
		row := r.rowOf(p)
		row.Wanted = wanted
		if err := packedRows.Put(tx, p.key, &row); err != nil {
			return err
		}
	}
	return nil
}

// setWanted makes the record of wantPacked count.
func (r *Registry) setWanted(archives []*packed, wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range archives {
		p.row.Wanted, p.stored, p.state, p.message = wanted, true, "", ""
	}
}

func (r *Registry) isWanted(p *packed) bool { return r.rowOf(p).Wanted }

// claim makes the caller the only one that changes the files of an archive, if it is in a state and
// nobody else does. The caller calls release later.
func (r *Registry) claim(p *packed, in func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.busy || !in() {
		return false
	}
	p.busy = true
	return true
}

func (r *Registry) release(p *packed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.busy = false
}

// unpackWanted unpacks the wanted archives that are present, also again if the tar archive is
// damaged. It reports whether one waits.
func (r *Registry) unpackWanted(ctx context.Context) (waits bool) {
	r.removeParts(ctx)
	for _, p := range r.allPacked() {
		whole := r.isWhole(p)
		if whole && !r.isDamaged(p) || !r.claim(p, func() bool {
			return p.row.Wanted && p.present && p.state != StageDamaged
		}) {
			continue
		}
		waits = r.unpackOne(ctx, p, whole) || waits
		r.release(p)
	}
	return waits
}

// unpackOne unpacks an archive, or repairs its tar archive. It reports whether the archive waits.
func (r *Registry) unpackOne(ctx context.Context, p *packed, repairs bool) (waits bool) {
	err := r.whileWanted(ctx, func() bool { return r.isWanted(p) }, func(ctx context.Context) error {
		if repairs {
			return r.repair(ctx, p)
		}
		return r.unpackTo(ctx, p, func(plain io.Reader) error {
			return r.unpacked.Write(p.key, r.rowOf(p).Name, plain)
		})
	})
	label := r.rowOf(p).Location.Label()
	_, fromMedium := errors.AsType[*medium.ReadError](err)
	input, damaged := errors.AsType[*unpacked.InputError](err)
	switch {
	case err == nil:
		if !repairs {
			r.log.Info("A compressed archive is unpacked. It may be removed.", "medium", label)
		}
		r.setRepairs(p, false)
		r.setPacked(p, "", "")
		r.notify()
		r.Look() // the tar archive is a medium now, or is read again
		return false
	case errors.Is(err, errNotOrdered), ctx.Err() != nil:
		return false
	case errors.Is(err, errSameDamage):
		r.setPacked(p, StageDamaged, "the compressed archive has the same damage; copy it to the medium again")
		r.log.Error("A compressed archive has damaged content.", "medium", label)
		return false
	case errors.Is(err, errNoChecksum):
		r.setPacked(p, StageDamaged, fmt.Sprintf("this copy can't be made again in its place, because the compressed "+
			"archive has no checksum. landfall registry stage %[1]q --cancel and landfall registry gc remove this "+
			"copy; landfall registry stage %[1]q copies the archive afterwards", label))
		r.log.Error("A damaged copy can't be repaired: the compressed archive has no checksum.", "medium", label)
		return false
	case errors.Is(err, quota.ErrFull):
		if r.setPacked(p, StageFull, "") {
			r.log.Warn("The unpacking of an archive waits for room on the disk.", "medium", label)
		}
	case damaged && !fromMedium && r.isChanged(p):
		r.log.Info("A compressed archive is still being copied. It is unpacked afterwards.", "medium", label)
	case errors.Is(err, errOther):
		r.setPacked(p, StageWaiting, "another file lies in the place of "+label+"; plug in the medium with it again")
		r.Look()
	case damaged && !fromMedium:
		message := "the archive can't be unpacked: " + input.Error() + ". Copy it again"
		switch {
		case repairs:
			message = "the compressed archive is damaged too (" + input.Error() + "); copy it to the medium again"
		case errors.Is(input, io.ErrUnexpectedEOF):
			message = "the archive can't be unpacked, because it ends early. If it is still being copied, it is " +
				"unpacked afterwards; otherwise copy it again"
		}
		r.setPacked(p, StageDamaged, message)
		r.log.Error("A compressed archive can't be unpacked.", "medium", label, "error", input)
		return false
	default:
		r.setPacked(p, "", "")
		r.log.Warn("The unpacking of an archive waits.", "medium", label, "error", err)
	}
	return true
}

// isChanged reports whether the file of an archive is not the one that was noted.
func (r *Registry) isChanged(p *packed) bool {
	stamp, _, err := stampOf(r.rowOf(p).Location)
	r.mu.Lock()
	defer r.mu.Unlock()
	return err == nil && stamp != p.stamp
}

// setPacked notes why an archive is not unpacked further. It reports whether this is new.
func (r *Registry) setPacked(p *packed, state, message string) bool {
	r.mu.Lock()
	changed := p.state != state
	p.state, p.message = state, message
	r.mu.Unlock()
	if changed {
		r.notify()
	}
	return changed
}

// unpackTo unpacks an archive and lets write store the tar archive on the disk.
func (r *Registry) unpackTo(ctx context.Context, p *packed, write func(plain io.Reader) error) error {
	row := r.rowOf(p)
	if err := r.checkArchive(ctx, p); err != nil {
		return err
	}
	if needed := r.needed(p); needed > 0 {
		// Each start reads the archive from its beginning, so a little room is not enough.
		room, _, err := r.quota.Room()
		if err != nil || room < max(needed, min(row.AtLeast/10, 1<<30)) {
			return errors.Join(quota.ErrFull, err)
		}
	}
	from, err := medium.NewReader(medium.ReaderOptions{Location: row.Location, Open: r.options.Open,
		Index: &medium.Index{Files: []string{""}}, Deadline: r.options.ReadDeadline})
	if err != nil {
		return err
	}
	p.read.Store(0)
	in, out := io.Pipe()
	reading := make(chan error, 1)
	go func() {
		_, err := from.Copy(ctx, counter{out, &p.read}, medium.Blob{{Size: row.Size}}, 0, row.Size)
		reading <- errors.Join(err, out.CloseWithError(err))
	}()
	err = unpackFrom(in, func() error { return r.checkArchive(ctx, p) }, write)
	_ = in.Close() // ends the reading, if the writing ended early
	if failed, ok := errors.AsType[*medium.ReadError](errors.Join(<-reading, from.Close())); ok && err != nil {
		return failed
	}
	return errors.Join(err, context.Cause(ctx))
}

// errOther reports that the file at the place of an archive is not that archive.
var errOther = errors.New("another file lies in its place")

// checkArchive returns an error unless the file at the place of an archive is that archive.
func (r *Registry) checkArchive(ctx context.Context, p *packed) error {
	location := r.rowOf(p).Location
	return r.withDeadline(ctx, location, func() error {
		key, err := medium.Fingerprint(location, r.options.Open)
		switch {
		case err != nil:
			return &medium.ReadError{Label: location.Label(), Err: err}
		case key != p.key:
			return errOther
		}
		return nil
	})
}

// withDeadline calls a function that reads from a medium. It does not wait for a medium that hangs.
func (r *Registry) withDeadline(ctx context.Context, location medium.Location, read func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(r.options.ReadDeadline, medium.ReadDeadline),
		&medium.ReadError{Label: location.Label(), Hangs: true})
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- read() }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-result:
		return err
	}
}

func unpackFrom(in io.Reader, atEnd func() error, write func(plain io.Reader) error) error {
	plain, err := medium.Unpack(in)
	if err != nil {
		return &unpacked.InputError{Err: err}
	}
	return errors.Join(write(endReader{plain, atEnd}), plain.Close())
}

// endReader is a reader whose end is an error if atEnd returns one.
type endReader struct {
	io.Reader
	atEnd func() error
}

// Read implements io.Reader.
func (e endReader) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = cmp.Or(e.atEnd(), err)
	}
	return n, err
}

// counter counts the bytes that are written.
type counter struct {
	io.Writer
	count *atomic.Int64
}

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.count.Add(int64(n))
	return n, err
}

// collectPacked removes the tar archives that are no longer wanted.
func (r *Registry) collectPacked(ctx context.Context) (files int, bytes int64, err error) {
	for _, p := range r.allPacked() {
		if !r.claim(p, func() bool { return p.stored && !p.row.Wanted }) {
			continue
		}
		freed, err := r.unpacked.Remove(p.key)
		if err == nil {
			err = r.forgetUnpacked(ctx, p)
		}
		r.release(p)
		if freed > 0 {
			files, bytes = files+1, bytes+freed
		}
		if err != nil {
			return files, bytes, err
		}
	}
	return files, bytes, nil
}

// forgetUnpacked forgets the medium of a removed tar archive, and that it was unpacked, unless the
// archive is wanted again.
func (r *Registry) forgetUnpacked(ctx context.Context, p *packed) error {
	tar := r.unpacked.Path(p.key, p.row.Name)
	r.mu.Lock()
	var identities []string
	for _, m := range r.media {
		if m.location.Path == tar {
			identities = append(identities, m.index.Identity)
		}
	}
	r.mu.Unlock()
	if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		for _, identity := range identities {
			if err := errors.Join(mediumRows.Delete(tx, identity), IndexFiles.Delete(tx, identity)); err != nil {
				return err
			}
		}
		if row, err := packedRows.Get(tx, p.key); err == nil && row.Wanted {
			return nil
		}
		return packedRows.Delete(tx, p.key)
	}); err != nil {
		return fmt.Errorf("forget an unpacked archive: %w", err)
	}
	r.mu.Lock()
	var kept []*held
	for _, m := range r.media {
		if m.location.Path == tar {
			m.detach(r.options.Clock.Now())
			continue
		}
		kept = append(kept, m)
	}
	r.media = kept
	p.repairs = false
	if p.stored = p.row.Wanted; !p.stored && !p.present {
		delete(r.packed, p.key)
	}
	r.mu.Unlock()
	r.rebuild()
	r.notify()
	return nil
}
