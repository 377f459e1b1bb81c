package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"

	"landfall/appliance/backup"
	"landfall/store"
	"landfall/store/wal"
)

// Reader reads a replica in a directory.
type Reader struct {
	Directory
	Identities []age.Identity // that open an encrypted replica
	// Progress gets the bytes that Verify has read, and those of the whole replica; nil: nothing
	// does.
	Progress func(done, total int64)
}

// NoStateError reports that a replica has no state of a time.
type NoStateError struct {
	Place  string
	At     time.Time
	Oldest time.Time // zero: the replica has no state at all
}

// Error implements error.
func (e *NoStateError) Error() string {
	if e.Oldest.IsZero() {
		return fmt.Sprintf("the replica in %s has no complete snapshot yet", e.Place)
	}
	return fmt.Sprintf("the replica in %s has no state of %s; the oldest is that of %s", e.Place,
		e.At.UTC().Format(time.RFC3339), e.Oldest.UTC().Format(time.RFC3339))
}

// GapError reports that changes are missing in the log of a replica.
type GapError struct {
	Path string // file of frames
	// Until is the newest state before the gap.
	Until time.Time
	Cause string
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("the log of the replica is damaged in %s: %s. The newest state before the damage is that of "+
		"%s: restore it with --at %[3]s", e.Path, e.Cause, e.Until.UTC().Format(time.RFC3339Nano))
}

// located is the place of a frame.
type located struct {
	head
	path   string
	offset int64
	size   int64
	sum    string
}

// Damage is a damaged place of a replica.
type Damage struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// frames returns the places of the whole frames of a generation, and the damaged places.
func (d Directory) frames(generation uint64) (all []located, damaged []hole, err error) {
	paths, err := d.segmentPaths(generation)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		found, broken, err := readFrames(path)
		if err != nil {
			return nil, nil, err
		}
		damaged = append(damaged, broken...)
		for _, f := range found {
			all = append(all, located{head: f.head, path: path, offset: f.offset, size: f.size, sum: f.sum})
		}
	}
	return all, damaged, nil
}

// body reads the body of a frame again.
func (r Reader) body(at located) (_ *body, err error) {
	file, err := os.Open(at.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	f, err := readFrame(io.NewSectionReader(file, at.offset, at.size))
	if err != nil {
		return nil, &DamagedError{at.path, err.Error()}
	}
	clear, err := backup.Decrypt(bytes.NewReader(f.stored), r.Identities...)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(clear)
	if err != nil {
		return nil, fmt.Errorf("decrypt a frame of %s: %w", at.path, err)
	}
	return decodeBody(text)
}

// plan says what a restore reads.
type plan struct {
	point  point
	frames []located // of the generation, up to the last one
	cut    uint64    // the last commit
}

// plan chooses the snapshot and the frames for the state of a time; the zero time is the newest.
func (r Reader) plan(at time.Time) (*plan, error) {
	all, bad, err := r.points()
	if err != nil {
		return nil, err
	}
	var p *plan
	for _, each := range all {
		if at.IsZero() || !each.Time.After(at) {
			p = &plan{point: each, cut: each.Commit}
		}
	}
	if p == nil && len(bad) > 0 {
		return nil, bad[0]
	}
	if p == nil {
		missing := &NoStateError{Place: r.Path, At: at}
		if len(all) > 0 {
			missing.Oldest = all[0].Time
		}
		return nil, missing
	}
	frames, _, err := r.frames(p.point.generation)
	if err != nil {
		return nil, err
	}
	last := len(frames)
	for last > 0 && !at.IsZero() && frames[last-1].From.After(at) {
		last--
	}
	p.frames = frames[:last]
	if last == len(frames) {
		// A former snapshot and the log have the state of a damaged one only in its generation.
		if n := len(bad); n > 0 && bad[n-1].generation > p.point.generation {
			return nil, bad[n-1]
		}
		if err := r.checkEnd(p, at); err != nil {
			return nil, err
		}
	}
	if last == 0 {
		return p, nil
	}
	newest := frames[last-1]
	if at.IsZero() || !newest.To.After(at) {
		p.cut = max(p.cut, newest.Last)
		return p, nil
	}
	content, err := r.body(newest)
	if err != nil {
		return nil, err
	}
	for _, c := range content.commits {
		if !c.Time.After(at) {
			p.cut = max(p.cut, c.Number)
		}
	}
	return p, nil
}

// checkEnd returns an error if the log ends before the last commit that was written, so that its
// end is lost.
func (r Reader) checkEnd(p *plan, at time.Time) error {
	beat, err := ReadHeartbeat(r.Path)
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		return fmt.Errorf("%w; it says which change was written last. Move it away to restore what the log has, "+
			"without that proof", damaged)
	}
	if err != nil || beat == nil || beat.Generation != p.point.generation || !at.IsZero() && at.Before(beat.Time) {
		return err
	}
	end, until := p.point.Commit, p.point.Time
	if len(p.frames) > 0 {
		newest := p.frames[len(p.frames)-1]
		end, until = max(end, newest.Last), newest.To
	}
	if end >= beat.Commit {
		return nil
	}
	return &GapError{Path: r.log(p.point.generation), Until: until,
		Cause: fmt.Sprintf("it ends with commit %d, and commit %d was written", end, beat.Commit)}
}

// Restore makes a data directory with the state of a time; the zero time is the newest. See
// backup.Target.
func (r Reader) Restore(ctx context.Context, at time.Time, target backup.Target) (_ *backup.Manifest, err error) {
	unlock := r.repository().LockForReading()
	defer func() { err = errors.Join(err, unlock()) }()
	p, err := r.plan(at)
	if err != nil {
		return nil, err
	}
	target.Replay = func(ctx context.Context, manifest *backup.Manifest, dir string) error {
		return r.replay(ctx, p, manifest, dir)
	}
	return r.repository().Restore(ctx, p.point.Backup, &target, r.Identities...)
}

func (r Reader) repository() *backup.Repository {
	return &backup.Repository{Dir: filepath.Join(r.Path, snapshotsName)}
}

// fileMargin is the time before a snapshot from which the changes of files are applied again: the
// snapshot read a file at some moment after it was taken.
const fileMargin = time.Minute

// replay applies the frames of a plan to a restored directory.
func (r Reader) replay(ctx context.Context, p *plan, manifest *backup.Manifest, dir string) error {
	next := p.point.Commit + 1
	until := p.point.Time
	var waiting []wal.Commit
	heads := make([]head, len(p.frames))
	for i, frame := range p.frames {
		heads[i] = frame.head
	}
	covered := p.point.covered(heads)
	frames := p.frames[covered:]
	previous := ""
	if covered > 0 {
		previous = p.frames[covered-1].sum
	}
	read := func() error {
		for len(waiting) == 0 && len(frames) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			at := frames[0]
			frames = frames[1:]
			broken := previous != "" && at.Previous != previous
			previous = at.sum
			if at.Last >= next && (at.First > next || broken) {
				return &GapError{Path: at.path, Until: until,
					Cause: fmt.Sprintf("the changes from commit %d to %d are missing", next, at.First-1)}
			}
			content, err := r.body(at)
			if err != nil {
				return err
			}
			for _, change := range content.files {
				if err := r.applyFile(dir, change, at.Last <= p.point.Commit); err != nil {
					return fmt.Errorf("restore %s: %w", change.Name, err)
				}
			}
			for _, c := range content.commits {
				if c.Number >= next && c.Number <= p.cut {
					waiting = append(waiting, c)
				}
			}
		}
		return nil
	}
	err := store.Apply(dir, func() ([]byte, error) {
		if err := read(); err != nil {
			return nil, err
		}
		if len(waiting) == 0 {
			return nil, io.EOF
		}
		c := waiting[0]
		waiting = waiting[1:]
		next, until = c.Number+1, c.Time
		if revision := store.CommittedRevision(c.Operations); revision > 0 {
			manifest.Revision = revision
		}
		return c.Operations, nil
	})
	if err != nil {
		return err
	}
	if next <= p.cut {
		return &GapError{Path: r.log(p.point.generation), Until: until,
			Cause: fmt.Sprintf("the changes from commit %d to %d are missing", next, p.cut)}
	}
	if until.After(manifest.Time) {
		manifest.Time = until.UTC()
	}
	return nil
}

// applyFile applies a change of a file. One that may be older than the snapshot need not fit.
func (r Reader) applyFile(dir string, change fileChange, old bool) (err error) {
	var content io.Reader
	hash := sha256.New()
	if change.Object != "" {
		object, err := r.repository().Open(change.Object, r.Identities...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, object.Close()) }()
		content = io.TeeReader(object, hash)
	}
	err = applyFile(dir, change, content)
	if old && errors.Is(err, errOffset) {
		return nil
	}
	if err == nil && content != nil && hex.EncodeToString(hash.Sum(nil)) != change.Object {
		return &DamagedError{filepath.Join(r.Path, snapshotsName),
			fmt.Sprintf("the content %s has changed", change.Object)}
	}
	return err
}

// Promote restores a replica, and makes the new data directory the owner of the replica. The former
// owner notices it and refuses to serve. It is the decision of a person.
func (r Reader) Promote(ctx context.Context, at time.Time, name string,
	target backup.Target) (*backup.Manifest, error) {
	before, err := r.plan(at)
	if err != nil {
		return nil, err
	}
	manifest, err := r.Restore(ctx, at, target)
	if err != nil {
		return nil, err
	}
	id, err := ID(target.Dir)
	if err != nil {
		return nil, err
	}
	if err := r.Claim(ctx, Owner{ID: id, Name: name, Since: target.Now()}); err != nil {
		return nil, err
	}
	// The former owner may have written until it was replaced.
	after, err := r.plan(at)
	if err != nil || after.cut == before.cut && after.point == before.point {
		return manifest, err
	}
	entries, err := os.ReadDir(target.Dir) // the directory stays, and with it its owner
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(target.Dir, entry.Name())))
	}
	if err != nil {
		return nil, err
	}
	if manifest, err = r.Restore(ctx, at, target); err != nil {
		return nil, err
	}
	return manifest, writeID(target.Dir, id)
}
