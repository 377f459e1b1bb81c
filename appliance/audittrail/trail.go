// Package audittrail records who changed what and who read which secret, so that later changes of
// the records are found.
//
// The trail is a sequence of JSON lines in files of the directory audit. Each record contains the
// hash of the previous one, and the last record of each write is signed with the site's key. The
// newest number and hash (the head) are also kept in the store. [Trail.Begin] returns when its
// record is on the disk, and [Trail.Start] says when it is, so no operation that needs a record has
// an effect without one.
//
// Design: docs/design.md#an-audit-trail-of-chained-records.
package audittrail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// DirName is the name of the trail's directory in the data directory.
const DirName = "audit"

// DefaultBytes is the default space of a trail.
const DefaultBytes = 256 << 20

const (
	// tick is the interval in which the store's copy of the head follows, and in which repeated
	// refusals are checked.
	tick = time.Second
	// shareDelay is how long a record without a waiting caller waits for others, so that the end of
	// an operation and the begin of the next one share a write and a sync.
	shareDelay = 20 * time.Millisecond
	// maxQueue limits the records that wait for the disk without a waiting caller.
	maxQueue = 4096
	// defaultPatience limits how long a caller of Start waits for the disk, because other changes
	// may have to wait for the caller. A write that takes a twentieth of it is late.
	defaultPatience = 2 * time.Second
)

// Options configures a trail.
type Options struct {
	Dir string // the trail's directory
	Key *sitekey.Key
	DB  *store.DB // keeps the head
	// Member identifies the member of a fleet whose trail this is: each has its own, of the time
	// for which it has led. A machine whose fleet has ended keeps it. "": a single machine.
	Member string
	Clock  clockwork.Clock // nil: the real clock
	Logger *slog.Logger    // nil: silent
	// Bytes is the space for all files; 0 means DefaultBytes. The oldest files are removed first.
	Bytes int64
	// Syslog receives each record; the zero value means none.
	Syslog Syslog

	create   func(path string) (file, error) // nil: a real file
	patience time.Duration                   // 0: defaultPatience
}

// Head is the end of a trail: the number of its newest record and the hash of that record's line.
type Head struct {
	Sequence uint64 `json:"seq"`
	Hash     string `json:"hash"`
}

// Trail is an open trail. Its methods are safe for concurrent use.
type Trail struct {
	options Options
	files   *segments
	refused refusals
	work    sync.WaitGroup
	stop    context.CancelFunc // of all goroutines except the writer
	wake    chan struct{}

	mu      sync.Mutex
	queue   []*entry
	delayed bool // whether the time runs after which records without a waiting caller are written
	closed  bool
	failing error         // of the last write; nil after a success
	writing time.Time     // begin of the present write; zero if none runs
	head    Head          // of the durable records
	tail    source        // the file that ends with the head
	grown   chan struct{} // closed when the head advances
}

// entry is a record that waits for the writer. Without a kind, it only marks a place in the queue.
type entry struct {
	record Record
	done   chan error // nil if nobody waits
}

// isMark reports whether an entry has no record.
func isMark(one *entry) bool { return one.record.Kind == "" }

// ErrClosed is returned for records after Close.
var ErrClosed = fault.New(fault.Unavailable, "the appliance is stopping; try again after its start")

// Open opens the trail of a directory, which it creates if necessary, and records the start. The
// caller must have locked the data directory.
func Open(options Options) (_ *Trail, err error) {
	options.Clock = cmp.Or[clockwork.Clock](options.Clock, clockwork.NewRealClock())
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	options.Bytes = cmp.Or(options.Bytes, DefaultBytes)
	options.patience = cmp.Or(options.patience, defaultPatience)
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the audit trail: %w", err)
	}
	dial, err := options.Syslog.dialer()
	if err != nil {
		return nil, fmt.Errorf("open the audit trail: %w", err)
	}
	if err := forgetSingle(options.DB, options.Member); err != nil {
		return nil, fmt.Errorf("open the audit trail: %w", err)
	}
	t := &Trail{options: options, wake: make(chan struct{}, 1), grown: make(chan struct{})}
	kept, err := readHead(options.DB, options.Member)
	var damage error // of the head
	if store.IsDamaged(err) {
		damage = err
	} else if err != nil {
		return nil, fmt.Errorf("open the audit trail: %w", err)
	}
	t.files = &segments{dir: options.Dir, bytes: options.Bytes, key: options.Key, create: options.create}
	found, _, unread, err := newestReadable(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the audit trail: %w", err)
	}
	t.files.head = found
	public := options.Key.Public()
	start := []*entry{{record: Record{Kind: Opened, Key: &public, Time: t.now()}}}
	if damage != nil {
		const text = "the head of the audit trail in the database is damaged, so this start did not check whether " +
			"records are missing at the end"
		options.Logger.Warn("The head of the audit trail cannot be read.", "finding", text, "error", damage)
		start = append(start, &entry{record: Record{Kind: Event, Time: t.now(), Entry: Entry{Text: text}}})
	}
	missing, err := t.missing(kept.Head, found, unread)
	if err != nil {
		return nil, fmt.Errorf("open the audit trail: %w", err)
	}
	if missing != "" {
		options.Logger.Error("The audit trail was altered or damaged while the appliance was stopped.", "finding",
			missing)
		t.files.head.Sequence = max(found.Sequence, kept.Sequence)
		if unread != nil { // its name is taken
			t.files.head.Sequence = max(t.files.head.Sequence, firstOf(unread.path))
		}
		start = append(start, &entry{record: Record{
			Kind: Shortened, Time: t.now(), Through: kept.Sequence, Hash: kept.Hash, Entry: Entry{Text: missing}}})
	}
	if err := t.files.write(start); err != nil {
		return nil, writeFailure(options.Dir, err)
	}
	t.head, t.tail = t.files.head, t.files.source
	options.Logger.Info("Audit trail opened.", "seq", t.head.Sequence, "hash", t.head.Hash)
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.work.Go(t.write)
	t.work.Go(func() { t.keep(ctx, kept, newForwarder(t, kept.Sent, dial)) })
	return t, nil
}

// missing compares the head in the store with the files, the newest of which may be damaged. It
// returns a sentence if records are missing or altered, or "".
func (t *Trail) missing(kept, found Head, unread *unreadError) (string, error) {
	switch {
	case unread != nil:
		return unread.Error(), nil
	case kept.Sequence == 0:
		return "", nil
	case kept.Sequence > found.Sequence:
		return fmt.Sprintf("the newest record was %d, but the files end at record %d", kept.Sequence,
			found.Sequence), nil
	}
	hash, removed, err := t.files.hashAt(kept.Sequence)
	if unread, ok := errors.AsType[*unreadError](err); ok {
		return unread.Error(), nil
	}
	switch {
	case err != nil || removed:
		return "", err
	case hash != kept.Hash:
		return fmt.Sprintf("record %d in the files is not the record that was written", kept.Sequence), nil
	}
	return "", nil
}

func (t *Trail) now() time.Time { return t.options.Clock.Now().UTC() }

// Close records the stop of the appliance and waits until all records are on the disk. A nil trail
// has none.
func (t *Trail) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.queue = append(t.queue, t.refused.due(t.now(), true)...)
	last := &entry{record: Record{Kind: Closed, Time: t.now()}, done: make(chan error, 1)}
	t.queue = append(t.queue, last)
	t.signal()
	t.mu.Unlock()
	err := <-last.done
	t.stop()
	t.work.Wait()
	head := t.Head()
	t.options.Logger.Info("Audit trail closed.", "seq", head.Sequence, "hash", head.Hash)
	return errors.Join(err, t.files.close())
}

// Head returns the head of the records on the disk.
func (t *Trail) Head() Head {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

// Begin records that the context's identity begins an operation that changes something or reads a
// secret. It returns when the record is on the disk. The caller must not run the operation after an
// error, which is a sentence for the client; otherwise it must call end once, with the status of
// the response and the objects that the operation created.
//
// end does not wait for the disk. The operation has taken place, so an error would be of no use. If
// the process ends before the record is written, at most shareDelay later, the trail contains only
// the begin, and the outcome counts as unknown.
func (t *Trail) Begin(ctx context.Context, begun Entry) (end func(status int, created map[string]string), err error) {
	begin := t.beginning(ctx, begun)
	if err := t.wait(begin); err != nil {
		return nil, err
	}
	return t.ending(begin), nil
}

// Start does the same as Begin without waiting for the disk. The caller must not change anything
// before written has returned nil. written waits until two seconds after Start at most, because
// others may have to wait for the caller. While the disk is full, fails or is late, Start waits as
// Begin does.
func (t *Trail) Start(ctx context.Context, begun Entry) (written func() error,
	end func(status int, created map[string]string), err error) {
	begin := t.beginning(ctx, begun)
	if t.late() {
		if err := t.wait(begin); err != nil {
			return nil, nil, err
		}
		return func() error { return nil }, t.ending(begin), nil
	}
	begin.done = make(chan error, 1)
	if !t.add(begin) {
		return nil, nil, ErrClosed
	}
	limit := time.Now().Add(t.options.patience) // a disk does not follow the clock of tests
	written = sync.OnceValue(func() error {
		select {
		case err := <-begin.done:
			return err
		default:
		}
		select {
		case err := <-begin.done:
			return err
		case <-time.After(time.Until(limit)):
			return slowFailure(t.options.Dir)
		}
	})
	return written, func(status int, created map[string]string) {
		if err := written(); err == nil {
			t.ending(begin)(status, created)
		} else if errors.Is(err, errSlow) {
			t.endLater(begin, status)
		}
	}, nil
}

// endLater records that an operation had no effect, because its begin was late. It does so when the
// begin is on the disk.
func (t *Trail) endLater(begin *entry, status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.work.Go(func() {
		if <-begin.done == nil {
			t.ending(begin)(status, nil)
		}
	})
}

// errSlow is the error of a record that is not on the disk in time.
var errSlow = errors.New("the disk did not answer in time")

func slowFailure(dir string) error {
	return &fault.Error{Kind: fault.Unavailable, Err: errSlow, Reason: fmt.Sprintf("the disk with the audit trail in "+
		"%s did not answer in time, so nothing was changed; try again, and check the disk if this happens often", dir)}
}

// late reports whether the last write failed, or one runs for a long time.
func (t *Trail) late() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failing != nil || !t.writing.IsZero() && time.Since(t.writing) > t.options.patience/20
}

// beginning returns the record of the begin of an operation.
func (t *Trail) beginning(ctx context.Context, begun Entry) *entry {
	begun = begun.clipped()
	begun.Status, begun.Text = 0, ""
	return &entry{record: Record{Kind: Begin, Time: t.now(), Actor: actorOf(ctx), Entry: begun}}
}

// ending returns what records the end of an operation whose begin is on the disk.
func (t *Trail) ending(begin *entry) func(status int, created map[string]string) {
	return func(status int, created map[string]string) {
		ended := begin.record.Entry.with(created)
		ended.Status = status
		t.add(&entry{record: Record{
			Kind: End, Time: t.now(), Began: begin.record.Sequence, Actor: begin.record.Actor, Entry: ended}})
	}
}

// Record records an event, and returns when the record is on the disk.
func (t *Trail) Record(ctx context.Context, event Entry) error {
	return t.wait(&entry{record: Record{Kind: Event, Time: t.now(), Actor: actorOf(ctx), Entry: event.clipped()}})
}

// RecordPast does the same as Record for an event that the client already knows of, such as a
// login. If the disk is full or fails, it returns nil, and the record is written when that is over.
// It returns an error if too many records wait for that.
func (t *Trail) RecordPast(ctx context.Context, event Entry) error {
	past := &entry{record: Record{Kind: Event, Time: t.now(), Actor: actorOf(ctx), Entry: event.clipped()}}
	err := t.wait(past)
	if err != nil && t.add(&entry{record: past.record}) {
		return nil
	}
	return err
}

// Refuse records a request that the caller was not permitted to make. It does not wait for the
// disk. Anyone can cause such records, so equal ones are counted: see [refusals].
func (t *Trail) Refuse(ctx context.Context, refused Entry) {
	record := Record{Kind: Refused, Time: t.now(), Actor: actorOf(ctx), Entry: refused.clipped()}
	if t.refused.first(&record) {
		t.add(&entry{record: record})
	}
}

// wait adds a record and waits until it is on the disk, even if the client has gone: otherwise the
// trail would contain operations that never began.
func (t *Trail) wait(added *entry) error {
	added.done = make(chan error, 1)
	if !t.add(added) {
		return ErrClosed
	}
	return <-added.done
}

// flush waits until the records that were added before are on the disk, so that a reader finds
// them. If they cannot be written, the reader continues without them.
func (t *Trail) flush() { _ = t.wait(new(entry)) }

// add adds a record to the queue. It reports whether the record will be written.
func (t *Trail) add(added *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	limited := added.record.Kind == Refused || added.record.Kind == Event && added.done == nil
	if t.closed || limited && len(t.queue) >= maxQueue {
		return false
	}
	t.queue = append(t.queue, added)
	switch {
	case added.done != nil:
		t.signal()
	case !t.delayed:
		t.delayed = true
		t.options.Clock.AfterFunc(shareDelay, t.endDelay)
	}
	return true
}

// endDelay has the records written that wait without a waiting caller.
func (t *Trail) endDelay() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delayed = false
	t.signal()
}

func (t *Trail) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// write writes queued records until the last one is Closed. Records that arrive during a write are
// written together in the next one.
func (t *Trail) write() {
	for range t.wake {
		t.mu.Lock()
		group := t.queue
		t.queue = nil
		records := slices.DeleteFunc(slices.Clone(group), isMark)
		if len(records) > 0 {
			t.writing = time.Now()
		}
		t.mu.Unlock()
		if len(group) == 0 {
			continue
		}
		if len(records) > 0 {
			t.report(records, t.files.write(records))
		}
		for _, one := range group {
			if isMark(one) {
				one.done <- nil
			}
		}
		if last := group[len(group)-1]; last.record.Kind == Closed {
			return
		}
	}
}

// report publishes the result of a write. After an error, the records that nobody waits for return
// to the queue.
func (t *Trail) report(group []*entry, err error) {
	t.mu.Lock()
	t.writing = time.Time{}
	recovered := t.failing != nil && err == nil
	if err != nil {
		if t.failing == nil {
			t.options.Logger.Error("The audit trail cannot be written. Changes are refused.", "error", err)
		}
		var rest []*entry
		for _, one := range group {
			if one.done == nil {
				rest = append(rest, one)
			}
		}
		t.queue = append(rest, t.queue...)
		err = writeFailure(t.options.Dir, err)
	} else {
		t.head, t.tail = t.files.head, t.files.source
		close(t.grown)
		t.grown = make(chan struct{})
	}
	t.failing = err
	t.mu.Unlock()
	if recovered {
		t.options.Logger.Info("The audit trail can be written again. Changes are permitted.")
	}
	for _, one := range group {
		if one.done != nil {
			one.done <- err
		}
	}
}

// writeFailure returns the error of a write as a sentence.
func writeFailure(dir string, err error) error {
	dir, absErr := filepath.Abs(dir)
	if absErr != nil {
		return errors.Join(err, absErr)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return &fault.Error{Kind: fault.NoSpace, Err: err, Reason: fmt.Sprintf("no space is left to write the audit "+
			"trail in %s, so nothing may be changed; free space on its file system, then try again", dir)}
	}
	return &fault.Error{Kind: fault.Unavailable, Err: err, Reason: fmt.Sprintf("the audit trail in %s cannot be "+
		"written (%v), so nothing may be changed; remove the cause, then try again", dir, err)}
}

// keep copies the head to the store and sends the records to the syslog server, until the context
// ends.
func (t *Trail) keep(ctx context.Context, kept headRow, sent *forwarder) {
	var forwarding sync.WaitGroup
	if t.options.Syslog != (Syslog{}) {
		forwarding.Go(func() { sent.run(ctx) })
	}
	ticker := t.options.Clock.NewTicker(tick)
	defer ticker.Stop()
	failed := false
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
			forwarding.Wait()
		case <-ticker.Chan():
			for _, repeated := range t.refused.due(t.now(), false) {
				t.add(repeated)
			}
			t.signal() // tries records again that could not be written
		}
		now := headRow{Head: t.Head(), Sent: sent.position()}
		if now == kept {
			continue
		}
		err := writeHead(context.WithoutCancel(ctx), t.options.DB, t.options.Member, now)
		if err == nil {
			kept = now
		} else if !failed {
			t.options.Logger.Warn("The head of the audit trail could not be copied to the database.", "error", err)
		}
		failed = err != nil
	}
}

// Failing returns the error of the last write, or nil after a success.
func (t *Trail) Failing() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failing
}
