package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"landfall/appliance/backup"
	"landfall/appliance/checksum"
	"landfall/store"
	"landfall/store/wal"
)

const (
	// waitingLimit is the size of the changes that wait in memory for a slow replica, in bytes.
	// Above it, a new generation begins.
	waitingLimit = 64 << 20
	// frameBytes is the size from which the operations of a frame are not joined by more, in bytes.
	frameBytes   = 8 << 20
	beatInterval = 5 * time.Second
	// pruneInterval is the time between two removals of what need not stay.
	pruneInterval = time.Hour
)

// generation ships one generation.
type generation struct {
	*Service
	session  Session
	objects  *objects
	follower *wal.Follower
	first    *store.Snapshot
	files    *files

	reading  sync.Mutex // held while open is read
	mu       sync.Mutex
	open     *store.Snapshot // the newest one
	complete atomic.Bool     // the first snapshot is in the replica
	// copied is when the newest snapshot began, and snapshotted its commit; snapshots uses them.
	copied      time.Time
	snapshotted uint64

	next     uint64 // commit; ship writes it, with mu
	revision uint64 // likewise

	// The fields below are used by ship only.
	base     uint64 // commit of the first snapshot
	previous string // SHA-256 of the last frame
	// pending was taken and is not written yet. attempted is the SHA-256 of the frame whose write
	// failed, with its first parts.
	pending   body
	attempted string
	parts     int // commits of pending in that frame
	last      uint64
}

// begin begins a generation in an open session. The caller must close it.
func (s *Service) begin(session Session) (_ *generation, err error) {
	g := &generation{Service: s, session: session,
		objects:  &objects{session: session, recipients: s.recipients, dir: s.Dir, added: s.noteAdded},
		follower: s.DB.Follow(waitingLimit)}
	if g.files, err = newFiles(s.source, len(s.recipients) > 0); err == nil {
		g.first, err = s.DB.Snapshot()
	}
	if err != nil {
		g.follower.Close()
		return nil, err
	}
	g.open = g.first
	g.base, g.revision = g.first.Commit(), g.first.Revision()
	g.next = g.base + 1
	return g, nil
}

// close ends the generation. It does not wait for a disk that hangs: after the end of the context
// of snapshot, nothing reads the store any more.
func (g *generation) close() error {
	g.follower.Close()
	g.reading.Lock()
	defer g.reading.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open.Close()
}

// snapshots writes the first snapshot and the later ones, and removes what need not stay.
func (g *generation) snapshots(ctx context.Context) error {
	if !g.complete.Load() { // a full disk may have no space for a snapshot before
		g.prune(ctx)
	}
	if err := g.completeFirst(ctx); err != nil {
		return err
	}
	ticker := g.Clock.NewTicker(min(pruneInterval, g.Settings.SnapshotInterval))
	defer ticker.Stop()
	for {
		g.prune(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.Chan():
		}
		if age := g.Clock.Since(g.copied); age >= 0 && age < g.Settings.SnapshotInterval {
			continue
		}
		snapshot, err := g.DB.Snapshot()
		if err != nil {
			return err
		}
		if snapshot.Commit() == g.snapshotted { // the log has what else has changed
			g.copied = g.Clock.Now()
			if err := snapshot.Close(); err != nil {
				return err
			}
			continue
		}
		g.mu.Lock()
		g.open = snapshot
		g.mu.Unlock()
		if err := errors.Join(g.snapshot(ctx, snapshot), snapshot.Close()); err != nil {
			return err
		}
	}
}

// prune removes what need not stay. A failure is noted: new changes are more important, and the
// writing of them fails by itself where it must.
func (g *generation) prune(ctx context.Context) {
	usage, err := g.session.Prune(ctx, Retention{Now: g.Clock.Now(), Keep: g.Settings.Keep, Bytes: g.Settings.Bytes,
		Interval: g.Settings.SnapshotInterval})
	if ctx.Err() == nil {
		g.notePruned(ctx, usage, err)
	}
}

// completeFirst writes the first snapshot, unless it was written.
func (g *generation) completeFirst(ctx context.Context) error {
	if g.complete.Load() {
		return nil
	}
	if err := g.snapshot(ctx, g.first); err != nil {
		return err
	}
	g.complete.Store(true)
	return g.first.Close()
}

// snapshot writes a snapshot. Contents that the replica has are not written again.
func (g *generation) snapshot(ctx context.Context, of *store.Snapshot) error {
	began := g.Clock.Now()
	var sums []string
	manifest, err := backup.Pipe(func(to *io.PipeWriter) error {
		g.reading.Lock()
		defer g.reading.Unlock()
		defer context.AfterFunc(ctx, func() { _ = to.CloseWithError(ctx.Err()) })() // never fails
		return g.source.WriteSnapshot(ctx, of, to, len(g.recipients) > 0)
	}, func(from io.Reader) (*backup.Manifest, error) {
		return backup.Read(from, func(_ string, _ int64, content io.Reader) error {
			sum, err := g.objects.put(ctx, content)
			sums = append(sums, sum)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	text, err := checksum.Marshal(manifest)
	if err != nil {
		return err
	}
	var stored bytes.Buffer
	if err := backup.Encrypt(&stored, bytes.NewReader(text), g.recipients...); err != nil {
		return err
	}
	if err := g.session.AddSnapshot(ctx, Snapshot{Backup: manifest.Name(), Commit: of.Commit(), Revision: of.Revision(),
		Time: manifest.Time}, stored.Bytes(), sums); err != nil {
		return err
	}
	g.copied, g.snapshotted = began, of.Commit()
	return nil
}

// ship writes the changes as they happen, until the context ends.
func (g *generation) ship(ctx context.Context) error {
	ticker := g.Clock.NewTicker(g.Interval)
	defer ticker.Stop()
	for {
		if err := g.round(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.Chan():
		}
	}
}

// round writes the changes that wait. What could not be written stays pending, and nothing is taken
// from the follower before it is written: the limit of the follower also limits what is pending.
func (g *generation) round(ctx context.Context) error {
	began := g.Clock.Now()
	if err := g.writePending(ctx, began); err != nil {
		return err
	}
	commits, err := g.follower.Take()
	if err != nil {
		return err
	}
	for len(commits) > 0 && commits[0].Number <= g.base {
		commits = commits[1:] // the snapshot has it
	}
	g.pending.commits = append(g.pending.commits, commits...)
	changes, err := g.files.changes(func(content io.Reader) (string, error) { return g.objects.put(ctx, content) })
	if _, away := errors.AsType[*AwayError](err); away {
		return err
	}
	if err != nil {
		return fmt.Errorf("read the files of the data directory: %w", err)
	}
	g.pending.files = append(g.pending.files, changes...)
	if err := g.writePending(ctx, began); err != nil {
		return err
	}
	if g.complete.Load() {
		g.noteShipped(began)
	}
	return nil
}

// writePending writes what is pending.
func (g *generation) writePending(ctx context.Context, now time.Time) error {
	for len(g.pending.commits) > 0 || len(g.pending.files) > 0 {
		count := 0
		for size := 0; count < len(g.pending.commits) && size < frameBytes; count++ {
			size += len(g.pending.commits[count].Operations)
		}
		if err := g.append(ctx, count, now); err != nil {
			return err
		}
	}
	return nil
}

// append writes a frame with the first pending commits and all pending files, and before it the
// contents of files to which they refer.
func (g *generation) append(ctx context.Context, count int, now time.Time) error {
	part := &body{files: slices.Clone(g.pending.files), commits: g.pending.commits[:count]}
	h := head{First: g.next, Last: g.next - 1, From: now, To: now, Previous: g.previous}
	for _, change := range part.files {
		if change.Object == "" {
			continue
		}
		if has, err := g.session.Has(ctx, change.Object); err != nil || !has {
			return errors.Join(err, errLostObject)
		}
		h.Objects = append(h.Objects, change.Object)
	}
	for i, each := range part.commits {
		if each.Number != h.Last+1 {
			return fmt.Errorf("%w: commit %d follows commit %d", ErrNotContinued, each.Number, h.Last)
		}
		h.Last = each.Number
		if i == 0 {
			h.From, h.To = each.Time, each.Time
		}
		if each.Time.Before(h.From) {
			h.From = each.Time
		}
		if each.Time.After(h.To) {
			h.To = each.Time
		}
		err := g.DB.ContentNames(each.Operations, func(name string) error {
			sum, err := g.content(ctx, name)
			if errors.Is(err, errNoContent) {
				return nil // a later commit no longer refers to it, or it is damage
			}
			if err == nil {
				h.Objects = append(h.Objects, sum)
				part.files = append(part.files, fileChange{Name: name, Object: sum})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	h.From, h.To = h.From.UTC(), h.To.UTC()
	text, err := part.encode()
	if err != nil {
		return err
	}
	var stored bytes.Buffer
	if err := backup.Encrypt(&stored, bytes.NewReader(text), g.recipients...); err != nil {
		return err
	}
	frame, sum, err := encodeFrame(h, stored.Bytes())
	if err != nil {
		return err
	}
	g.attempted, g.parts, g.last = sum, count, h.Last
	if err := g.session.Append(ctx, frame); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	g.written()
	g.noteWritten(int64(len(frame)))
	return nil
}

// written notes that the attempted frame is in the replica.
func (g *generation) written() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, each := range g.pending.commits[:g.parts] {
		if revision := store.CommittedRevision(each.Operations); revision > 0 {
			g.revision = revision
		}
	}
	g.pending = body{commits: g.pending.commits[g.parts:]}
	g.next, g.previous, g.attempted = g.last+1, g.attempted, ""
}

var errLostObject = errors.New("the replica has lost a content")

// resume continues the generation after a failure. Its error is ErrNotContinued if only a new
// generation can follow.
func (g *generation) resume(ctx context.Context) error {
	if !g.complete.Load() {
		return ErrNotContinued
	}
	last, err := g.session.Resume(ctx)
	if err != nil {
		return err
	}
	switch last {
	case g.previous:
	case g.attempted:
		g.written() // and only the answer was lost
	default:
		return ErrNotContinued
	}
	return nil
}

// errNoContent reports that the store does not have a content. A directory of the replica that went
// away does not exist, either.
var errNoContent = errors.New("the store does not have the content")

// content stores a content of the store. Its error is errNoContent if the store does not have it.
func (g *generation) content(ctx context.Context, name string) (sum string, err error) {
	file, err := os.Open(filepath.Join(g.Dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoContent
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return g.objects.put(ctx, file)
}

// beats writes signs of life until the context ends. A large content that is being written does not
// delay them: a missing sign of life lets a person replace the appliance.
func (g *generation) beats(ctx context.Context) error {
	ticker := g.Clock.NewTicker(beatInterval)
	defer ticker.Stop()
	for {
		if err := g.beat(ctx, false); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.Chan():
		}
	}
}

func (g *generation) beat(ctx context.Context, stopped bool) error {
	beat := Heartbeat{Generation: g.session.Generation(), Time: g.Clock.Now().UTC(), Stopped: stopped}
	if g.complete.Load() {
		g.mu.Lock()
		beat.Commit, beat.Revision = g.next-1, g.revision
		g.mu.Unlock()
	}
	return g.session.Beat(ctx, beat)
}
