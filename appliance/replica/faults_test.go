package replica_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/doctor"
	"landfall/appliance/replica"
	"landfall/store"
)

// TestReplica_disksAreExchanged takes turns with two disks, which both have a replica of the site.
func TestReplica_disksAreExchanged(t *testing.T) {
	data, dir := dirs(t)
	other := dir + ".other"
	require.NoError(t, os.Mkdir(other, 0o700))
	for range 3 { // generations
		r := run(t, data, to(other))
		r.shipped()
		r.stop()
	}
	r := run(t, data, to(dir))
	r.updates(10)
	r.shipped()
	exchange := func() {
		require.NoError(t, errors.Join(os.Rename(dir, dir+".away"), os.Rename(other, dir),
			os.Rename(dir+".away", other)))
	}
	for range 3 {
		exchange()
		r.updates(10)
		r.shipped()
		s, err := restored(t, dir, time.Time{}, data)
		require.NoError(t, err)
		require.Equal(t, r.serial, s.check(t)[0])
	}
	r.stop()
	require.Empty(t, verify(t, dir).Damage)
	require.Empty(t, verify(t, other).Damage)
}

// TestReplica_disksAreExchangedDuringARemoval exchanges the disks after the removal of old states
// has read one of them. It must remove nothing from the other one, whose snapshots are older.
func TestReplica_disksAreExchangedDuringARemoval(t *testing.T) {
	data, dir := dirs(t)
	other := dir + ".other"
	require.NoError(t, os.Mkdir(other, 0o700))
	for _, at := range []string{other, dir} {
		r := run(t, data, to(at))
		r.updates(1)
		r.shipped()
		r.stop()
	}
	owner, err := replica.ReadOwner(dir)
	require.NoError(t, err)
	s, err := replica.Directory{Path: dir}.Open(t.Context(), replica.Owner{ID: owner.ID})
	require.NoError(t, err)
	pipe := filepath.Join(dir, "log", fmt.Sprintf("%010d", s.Generation()), "0.json")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	removed := make(chan error, 1)
	go func() {
		_, err := s.Prune(t.Context(), replica.Retention{Keep: time.Hour, Interval: time.Hour, Now: time.Now()})
		removed <- err
	}()
	reads, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the removal reads
	require.NoError(t, err)
	require.NoError(t, errors.Join(os.Rename(dir, dir+".away"), os.Rename(other, dir)))
	require.NoError(t, reads.Close())
	require.ErrorIs(t, <-removed, replica.ErrNotContinued)
	require.Empty(t, verify(t, dir).Damage)
}

// TestReplica_olderCopyOfADisk replaces the disk by a copy of it from an earlier start.
func TestReplica_olderCopyOfADisk(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(10)
	r.shipped()
	r.stop()
	require.NoError(t, os.CopyFS(dir+".copy", os.DirFS(dir)))
	r = run(t, data, to(dir))
	r.updates(10)
	r.shipped()
	require.NoError(t, errors.Join(os.Rename(dir, dir+".away"), os.Rename(dir+".copy", dir)))
	r.updates(10)
	r.shipped()
	r.stop()
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])
	require.Empty(t, verify(t, dir).Damage)
}

// full is a target whose disk is full while a function says so.
type full struct {
	replica.Target
	is     func() bool
	opened *atomic.Int32
}

func (f full) Open(ctx context.Context, owner replica.Owner) (replica.Session, error) {
	f.opened.Add(1)
	s, err := f.Target.Open(ctx, owner)
	return fullSession{s, f.is}, err
}

type fullSession struct {
	replica.Session
	is func() bool
}

func (s fullSession) Append(ctx context.Context, frame []byte) error {
	if s.is() {
		return syscall.ENOSPC
	}
	return s.Session.Append(ctx, frame)
}

func (s fullSession) Put(ctx context.Context, sum string, stored io.Reader) error {
	if s.is() {
		return syscall.ENOSPC
	}
	return s.Session.Put(ctx, sum, stored)
}

// TestReplica_fullDiskTakesLimitedMemory writes more changes than may wait in memory while the disk
// of the replica is full: the generation ends.
func TestReplica_fullDiskTakesLimitedMemory(t *testing.T) {
	data, dir := dirs(t)
	var isFull atomic.Bool
	target := full{replica.Directory{Path: dir}, isFull.Load, new(atomic.Int32)}
	r := run(t, data, func(o *replica.Options) { o.Settings.Target = target })
	r.shipped()
	isFull.Store(true)
	r.updates(1)
	require.Eventually(t, func() bool { return r.service.State().Failure != "" }, time.Minute, time.Millisecond)
	require.Contains(t, r.service.Finding().Advice, "No space is left to write the replica to "+dir)
	text := strings.Repeat("x", 1<<20)
	for n := range 140 {
		require.NoError(t, r.db.Update(t.Context(), func(tx *store.Tx) error {
			return items.Put(tx, "large", &item{n, text})
		}))
		require.NotEmpty(t, r.service.State().Failure, "it does not seem to be up to date")
	}
	require.Eventually(t, func() bool { return target.opened.Load() > 1 }, time.Minute, time.Millisecond)
	isFull.Store(false)
	r.shipped()
}

// TestReplica_fullDiskIsRelieved lowers the limit of a replica that has filled its disk.
func TestReplica_fullDiskIsRelieved(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Settings.SnapshotInterval = 20 * time.Millisecond
	})
	require.Eventually(t, func() bool {
		r.updates(10)
		return r.service.State().Usage.Snapshots > 8
	}, time.Minute, time.Millisecond)
	r.stop()
	found := verify(t, dir)
	r = run(t, data, func(o *replica.Options) {
		o.Settings.Bytes = found.Bytes / 2
		o.Settings.Target = full{replica.Directory{Path: dir}, func() bool {
			now, err := replica.Reader{Directory: replica.Directory{Path: dir}}.Summary()
			return err != nil || now.Bytes >= found.Bytes
		}, new(atomic.Int32)}
	})
	r.updates(1)
	r.shipped()
}

// add adds a snapshot with one content.
func add(t *testing.T, s replica.Session, commit uint64, at time.Time) (name string) {
	t.Helper()
	name = (&backup.Manifest{Time: at}).Name()
	sum := strings.Repeat("0", 64)
	require.NoError(t, s.Put(t.Context(), sum, strings.NewReader("content")))
	require.NoError(t, s.AddSnapshot(t.Context(), replica.Snapshot{Backup: name, Commit: commit, Time: at},
		[]byte("{}"), []string{sum}))
	return name
}

func TestPrune_wrongClockRemovesNoRightTimes(t *testing.T) {
	for name, test := range map[string]struct {
		ages  []time.Duration // of the snapshots
		ahead time.Duration   // of the clock, at the removal
		stay  int
	}{
		"right":               {[]time.Duration{96, 72, 48, 24, 1}, 0, 4},
		"ahead":               {[]time.Duration{96, 72, 48, 24, 1}, 87600, 4},
		"ahead before":        {[]time.Duration{72, 48, 24, -87600, 1}, 0, 5},
		"behind before":       {[]time.Duration{48, 24, 87600, 1}, 0, 4},
		"off for a long time": {[]time.Duration{1000, 900, 2, 1}, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := dirs(t)
			s, err := replica.Directory{Path: dir}.Open(t.Context(), replica.Owner{ID: "a"})
			require.NoError(t, err)
			for i, age := range test.ages {
				add(t, s, uint64(i+1), now.Add(-age*time.Hour))
			}
			usage, err := s.Prune(t.Context(), replica.Retention{Now: now.Add(test.ahead * time.Hour),
				Keep: 72 * time.Hour, Interval: 24 * time.Hour})
			require.NoError(t, err)
			require.Equal(t, test.stay, usage.Snapshots)
		})
	}
}

// TestPrune_backupsWithoutASnapshotAge removes the backup of a snapshot that was interrupted before
// it got its name in the log, and no file outside of the replica.
func TestPrune_backupsWithoutASnapshotAge(t *testing.T) {
	_, dir := dirs(t)
	s, err := replica.Directory{Path: dir}.Open(t.Context(), replica.Owner{ID: "a"})
	require.NoError(t, err)
	interrupted := add(t, s, 1, now.Add(-time.Minute))
	refs, err := filepath.Glob(filepath.Join(dir, "log", "*", "*.json"))
	require.NoError(t, err)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.WriteFile(outside+".json", nil, 0o600))
	require.NoError(t, os.WriteFile(refs[0], []byte(`{"backup":"../../../outside"}`), 0o600))
	add(t, s, 2, now)
	_, err = s.Prune(t.Context(), replica.Retention{Now: now, Interval: time.Hour})
	require.NoError(t, err)
	names, err := (&backup.Repository{Dir: filepath.Join(dir, "snapshots")}).Names()
	require.NoError(t, err)
	require.NotContains(t, names, interrupted)
	require.Len(t, names, 1)
	require.FileExists(t, outside+".json")
}

// TestSession_signOfLifeDoesNotWait writes an object that takes long: meanwhile, nobody may believe
// that the appliance is lost.
func TestSession_signOfLifeDoesNotWait(t *testing.T) {
	_, dir := dirs(t)
	s, err := replica.Directory{Path: dir}.Open(t.Context(), replica.Owner{ID: "a"})
	require.NoError(t, err)
	reader, writer := io.Pipe()
	put := make(chan error, 1)
	go func() { put <- s.Put(t.Context(), strings.Repeat("0", 64), reader) }()
	_, err = writer.Write([]byte("beginning"))
	require.NoError(t, err)
	beaten := make(chan error, 1)
	go func() { beaten <- s.Beat(t.Context(), replica.Heartbeat{Commit: 7}) }()
	select {
	case err := <-beaten:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Error("the sign of life waits")
	}
	require.NoError(t, writer.Close())
	require.NoError(t, <-put)
}

func TestOpen_numbersAreNotUsedTwice(t *testing.T) {
	_, dir := dirs(t)
	// Another process has taken the first number, and has not written the owner yet.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "log", "0000000001"), 0o700))
	s, err := replica.Directory{Path: dir}.Open(t.Context(), replica.Owner{ID: "a"})
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Generation())
}

// TestPrune_readersAreNotDisturbed removes old states after another process has read them.
func TestPrune_readersAreNotDisturbed(t *testing.T) {
	_, dir := dirs(t)
	s, err := replica.Directory{Path: dir}.Open(t.Context(), replica.Owner{ID: "a"})
	require.NoError(t, err)
	add(t, s, 1, now.Add(-time.Hour))
	add(t, s, 2, now)
	_, err = s.Prune(t.Context(), replica.Retention{Now: now, Keep: 24 * time.Hour, Interval: time.Hour})
	require.NoError(t, err)
	unlock := (&backup.Repository{Dir: filepath.Join(dir, "snapshots")}).LockForReading()
	usage, err := s.Prune(t.Context(), replica.Retention{Now: now, Interval: time.Hour})
	require.NoError(t, errors.Join(err, unlock()))
	require.Equal(t, 2, usage.Snapshots)
	usage, err = s.Prune(t.Context(), replica.Retention{Now: now, Interval: time.Hour})
	require.NoError(t, err)
	require.Equal(t, 1, usage.Snapshots)
}

// TestReplica_damagedNameOfABackup damages the file that names the backup of a snapshot: an earlier
// snapshot and the log have the same state, but not an earlier generation.
func TestReplica_damagedNameOfABackup(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	require.Eventually(t, func() bool {
		r.updates(10)
		return r.service.State().Usage.Snapshots > 1
	}, time.Minute, 5*time.Millisecond)
	r.stop()
	refs, err := filepath.Glob(filepath.Join(dir, "log", "0000000001", "*.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(refs[len(refs)-1], []byte("{"), 0o600))
	require.Len(t, verify(t, dir).Damage, 1)
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])

	r = run(t, data, to(dir))
	r.updates(1)
	r.shipped()
	require.Eventually(t, func() bool { return r.service.State().Usage.Snapshots > 1 }, time.Minute, time.Millisecond,
		"old states are still removed")
	r.stop()
	refs, err = filepath.Glob(filepath.Join(dir, "log", "0000000002", "*.json"))
	require.NoError(t, err)
	for _, ref := range refs {
		require.NoError(t, os.WriteFile(ref, []byte("{"), 0o600))
	}
	_, err = restored(t, dir, time.Time{}, data)
	require.ErrorContains(t, err, refs[len(refs)-1])
}

// TestReplica_damagedOwner damages the file that names the owner. The replica is not written any
// more, its states can be restored, and the appliance begins a new one when it is moved away.
func TestReplica_damagedOwner(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(5)
	r.shipped()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "owner.json"), []byte("{"), 0o600))
	require.Eventually(t, func() bool {
		r.updates(1)
		return r.service.State().Failure != ""
	}, time.Minute, 5*time.Millisecond)
	require.Contains(t, r.service.State().Failure, "owner.json is damaged")
	require.Contains(t, r.service.State().Failure, "move the replica away")
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.check(t)[0], 5)
	require.NoError(t, errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)))
	r.shipped()
	s, err = restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])
}

// eachFlip calls read with each damage of one bit of a file, which is whole again at the end.
func eachFlip(t *testing.T, path string, read func(name string)) {
	t.Helper()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer file.Close()
	for at, was := range whole {
		for bit := range 8 {
			_, err := file.WriteAt([]byte{was ^ 1<<bit}, int64(at))
			require.NoError(t, err)
			read(fmt.Sprintf("bit %d of byte %d of %s", bit, at, path))
		}
		_, err := file.WriteAt([]byte{was}, int64(at))
		require.NoError(t, err)
	}
}

// TestReplica_everyFlippedBitIsRefused flips each bit of the small files of a replica: those that
// name the owner, the last sign of life, a backup and its contents.
func TestReplica_everyFlippedBitIsRefused(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(5)
	r.shipped()
	r.stop()
	refs, err := filepath.Glob(filepath.Join(dir, "log", "*", "*.json"))
	require.NoError(t, err)
	manifests, err := filepath.Glob(filepath.Join(dir, "snapshots", "backups", "*.json"))
	require.NoError(t, err)
	reader := replica.Reader{Directory: replica.Directory{Path: dir}}
	for path, read := range map[string]func() error{
		filepath.Join(dir, "owner.json"): func() error {
			_, err := replica.ReadOwner(dir)
			return err
		},
		filepath.Join(dir, "heartbeat.json"): func() error {
			_, err := replica.ReadHeartbeat(dir)
			return err
		},
		refs[0]: func() error {
			found, err := reader.Summary()
			if err == nil && len(found.Damage) > 0 {
				return errors.New(found.Damage[0].Path)
			}
			return err
		},
		manifests[0]: func() error {
			name := strings.TrimSuffix(filepath.Base(manifests[0]), ".json")
			return (&backup.Repository{Dir: filepath.Join(dir, "snapshots")}).Stream(name, io.Discard)
		},
	} {
		eachFlip(t, path, func(name string) {
			require.ErrorContains(t, read(), strings.TrimSuffix(filepath.Base(path), ".json"), name)
		})
		require.NoError(t, read())
	}
}

// ticking is a target that counts the removals of old states: each follows a time for a snapshot.
type ticking struct {
	replica.Target
	ticks *atomic.Int32
}

func (c ticking) Open(ctx context.Context, owner replica.Owner) (replica.Session, error) {
	s, err := c.Target.Open(ctx, owner)
	return tickingSession{s, c.ticks}, err
}

type tickingSession struct {
	replica.Session
	ticks *atomic.Int32
}

func (s tickingSession) Prune(ctx context.Context, retention replica.Retention) (replica.Usage, error) {
	s.ticks.Add(1)
	return s.Session.Prune(ctx, retention)
}

// TestReplica_idleSiteKeepsItsStates lets the time of several snapshots pass without a change.
func TestReplica_idleSiteKeepsItsStates(t *testing.T) {
	data, dir := dirs(t)
	target := ticking{replica.Directory{Path: dir}, new(atomic.Int32)}
	s, err := openSite(data, clockwork.NewRealClock())
	require.NoError(t, err)
	require.NoError(t, errors.Join(s.update(t.Context(), 0, 1), s.db.Close()))
	r := run(t, data, func(o *replica.Options) {
		o.Settings.Target, o.Settings.SnapshotInterval = target, 10*time.Millisecond
	})
	r.shipped()
	idle, ticks := time.Now(), target.ticks.Load()
	require.Eventually(t, func() bool { return target.ticks.Load() > ticks+10 }, time.Minute, time.Millisecond)
	r.stop()
	s, err = restored(t, dir, idle, data)
	require.NoError(t, err)
	require.Equal(t, 1, s.check(t)[0])
}

// TestReplica_damagedListDoesNotStopTheCopy damages the list of the objects of a backup: nothing
// can be removed any more, and the replica still gets all changes.
func TestReplica_damagedListDoesNotStopTheCopy(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(5)
	r.shipped()
	r.stop()
	lists, err := filepath.Glob(filepath.Join(dir, "snapshots", "backups", "*.objects"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(lists[0]))
	r = run(t, data, to(dir))
	r.updates(5)
	r.shipped()
	require.Eventually(t, func() bool { return r.service.Finding().Status == doctor.Amber }, time.Minute,
		time.Millisecond)
	require.Empty(t, r.service.State().Failure)
	require.Contains(t, r.service.Finding().Advice, lists[0])
	require.EqualValues(t, 2, r.service.State().Generation)
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])
}

// TestReplica_authorityOfClients restores the authority of the agents of management clusters, which
// the appliance makes when hosted clusters are first used.
func TestReplica_authorityOfClients(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(1)
	r.shipped()
	require.NoError(t, os.WriteFile(filepath.Join(data, "clients-ca.key"), []byte("key"), 0o600))
	r.shipped()
	r.stop()
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(s.dir, "clients-ca.key"))
	require.NoError(t, err)
	require.Equal(t, "key", string(text))
}

// writeFiles writes files beside the store, larger than a file of frames together.
func writeFiles(t *testing.T, data, name string) {
	t.Helper()
	for n := range 100 {
		require.NoError(t, os.WriteFile(filepath.Join(data, "audit", fmt.Sprintf("%s-%d", name, n)),
			[]byte(strings.Repeat(name, 60_000/len(name))), 0o600))
	}
}

// requireFiles requires that a restore has what writeFiles has written.
func requireFiles(t *testing.T, s *site, name string) {
	t.Helper()
	for n := range 100 {
		got, err := os.ReadFile(filepath.Join(s.dir, "audit", fmt.Sprintf("%s-%d", name, n)))
		require.NoError(t, err)
		require.Equal(t, strings.Repeat(name, 60_000/len(name)), string(got))
	}
}

// TestReplica_filesOfAnIdleSite changes files without a commit between the changes: the log can't
// name its files by the commits, and the newest snapshot lacks the changes.
func TestReplica_filesOfAnIdleSite(t *testing.T) {
	data, dir := dirs(t)
	target := ticking{replica.Directory{Path: dir}, new(atomic.Int32)}
	r := run(t, data, func(o *replica.Options) {
		o.Settings.Target, o.Settings.SnapshotInterval = target, 20*time.Millisecond
	})
	r.updates(5)
	r.shipped()
	ticks := target.ticks.Load() // until the newest snapshot has all commits
	require.Eventually(t, func() bool { return target.ticks.Load() > ticks+3 }, time.Minute, time.Millisecond)
	names := []string{"first", "second", "third"}
	for _, name := range names {
		writeFiles(t, data, name)
		r.shipped()
	}
	r.stop()
	require.Empty(t, verify(t, dir).Damage)
	id, err := replica.ID(data)
	require.NoError(t, err)
	session, err := replica.Directory{Path: dir}.Open(t.Context(), replica.Owner{ID: id})
	require.NoError(t, err)
	usage, err := session.Prune(t.Context(), replica.Retention{Now: time.Now()})
	require.NoError(t, err)
	require.Equal(t, 1, usage.Snapshots)
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	for _, name := range names {
		requireFiles(t, s, name)
	}
}

// stepped is a clock that can be wrong. Its tickers are right.
type stepped struct {
	clockwork.Clock
	ahead atomic.Int64
}

func (c *stepped) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

func (c *stepped) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestReplica_clockIsCorrected sets a clock back that was an hour ahead at the first snapshot.
func TestReplica_clockIsCorrected(t *testing.T) {
	data, dir := dirs(t)
	clock := &stepped{Clock: clockwork.NewRealClock()}
	clock.ahead.Store(int64(time.Hour))
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Clock, o.Settings.SnapshotInterval = clock, 20*time.Millisecond
	})
	require.Eventually(t, func() bool { return r.service.State().Ready }, time.Minute, time.Millisecond)
	clock.ahead.Store(0)
	writeFiles(t, data, "first")
	r.rounds()
	r.stop()
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	requireFiles(t, s, "first")
}

// TestReplica_clockIsSetBack sets a clock back between two states of the files. The newest snapshot
// has an earlier time than the changes before, whose files it replaces.
func TestReplica_clockIsSetBack(t *testing.T) {
	data, dir := dirs(t)
	clock := &stepped{Clock: clockwork.NewRealClock()}
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Clock, o.Settings.SnapshotInterval = clock, 20*time.Millisecond
	})
	step := func(ahead time.Duration) {
		clock.ahead.Store(int64(ahead))
		r.updates(1)
		r.rounds()
	}
	require.Eventually(t, func() bool { return r.service.State().Ready }, time.Minute, time.Millisecond)
	writeFiles(t, data, "first")
	step(time.Hour)
	step(time.Hour + 2*time.Minute)
	writeFiles(t, data, "second")
	step(0)
	step(2 * time.Minute)
	reader := replica.Reader{Directory: replica.Directory{Path: dir}}
	require.Eventually(t, func() bool {
		s, err := reader.Summary()
		require.NoError(t, err)
		return s.Newest.After(time.Now().Add(time.Minute)) && s.Newest.Before(time.Now().Add(time.Hour/2))
	}, time.Minute, time.Millisecond)
	r.stop()
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	requireFiles(t, s, "second")
	require.Equal(t, 4, s.check(t)[0])
}

// awayOnce is a target whose directory is away for one write of an object.
type awayOnce struct {
	replica.Target
	armed *atomic.Bool
}

func (a awayOnce) Open(ctx context.Context, owner replica.Owner) (replica.Session, error) {
	s, err := a.Target.Open(ctx, owner)
	return awayOnceSession{s, a.armed}, err
}

type awayOnceSession struct {
	replica.Session
	armed *atomic.Bool
}

func (s awayOnceSession) Put(ctx context.Context, sum string, stored io.Reader) error {
	if s.armed.CompareAndSwap(true, false) {
		return &replica.AwayError{Place: "replica", Err: fs.ErrNotExist}
	}
	return s.Session.Put(ctx, sum, stored)
}

// TestReplica_awayDuringAContent loses the directory of the replica while a content is written, and
// only then.
func TestReplica_awayDuringAContent(t *testing.T) {
	data, dir := dirs(t)
	armed := new(atomic.Bool)
	r := run(t, data, func(o *replica.Options) {
		o.Settings.Target, o.Settings.SnapshotInterval = awayOnce{replica.Directory{Path: dir}, armed}, time.Hour
	})
	require.Eventually(t, func() bool { return r.service.State().Ready }, time.Minute, time.Millisecond)
	r.updates(fileEvery - 1)
	r.shipped()
	armed.Store(true)
	r.updates(1)
	r.shipped()
	require.False(t, armed.Load())
	r.stop()
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, fileEvery, s.check(t)[0])
}

// TestReplica_fileIsRemoved removes a file after changes of it, of which a restore skips the first.
func TestReplica_fileIsRemoved(t *testing.T) {
	data, dir := dirs(t)
	clock := &stepped{Clock: clockwork.NewRealClock()}
	clock.ahead.Store(int64(-time.Hour))
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Clock, o.Settings.SnapshotInterval = clock, 20*time.Millisecond
	})
	path := filepath.Join(data, "audit", "old")
	r.updates(1)
	r.rounds()
	require.NoError(t, os.WriteFile(path, []byte("first"), 0o600))
	r.rounds()
	clock.ahead.Store(0)
	require.NoError(t, os.WriteFile(path, []byte("first, second"), 0o600))
	r.rounds()
	require.NoError(t, os.Remove(path))
	r.rounds()
	r.updates(1)
	snapshots := r.service.State().Usage.Snapshots
	require.Eventually(t, func() bool { return r.service.State().Usage.Snapshots > snapshots }, time.Minute,
		time.Millisecond)
	r.stop()
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, 2, s.check(t)[0])
	require.NoFileExists(t, filepath.Join(s.dir, "audit", "old"))
}

// TestReplica_restOfAFailedWriteIsReplaced replaces the end of a file of the audit trail by a
// longer one, as after a write to a full disk.
func TestReplica_restOfAFailedWriteIsReplaced(t *testing.T) {
	for name, begin := range map[string]string{"short": "", "long": strings.Repeat("a record\n", 20_000)} {
		t.Run(name, func(t *testing.T) {
			data, dir := dirs(t)
			r := run(t, data, to(dir))
			r.updates(1)
			r.rounds()
			path := filepath.Join(data, "audit", "full")
			for _, end := range []string{"a record", "a record\nthe rest of a failed write",
				"a record\nanother record, which was written afterwards\n"} {
				require.NoError(t, os.WriteFile(path, []byte(begin+end), 0o600))
				r.rounds()
			}
			r.updates(1)
			r.shipped()
			r.stop()
			s, err := restored(t, dir, time.Time{}, data)
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(s.dir, "audit", "full"))
			require.NoError(t, err)
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		})
	}
}

// tearing is a target that tears a frame when a function says so, and then has no space.
type tearing struct {
	replica.Directory
	torn func() bool
}

func (f tearing) Open(ctx context.Context, owner replica.Owner) (replica.Session, error) {
	s, err := f.Directory.Open(ctx, owner)
	return tearingSession{s, f}, err
}

type tearingSession struct {
	replica.Session
	tearing
}

func (s tearingSession) Append(ctx context.Context, frame []byte) error {
	if err := s.Session.Append(ctx, frame); err != nil || !s.torn() {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(s.Path, "log", "*", "*.frames"))
	if err != nil {
		return err
	}
	newest := paths[len(paths)-1]
	info, err := os.Stat(newest)
	if err != nil {
		return err
	}
	return errors.Join(syscall.ENOSPC, os.Truncate(newest, info.Size()-int64(len(frame)/2)))
}

// TestReplica_tornFirstFrameOfAFile fills the disk in the middle of the first frame of a file.
func TestReplica_tornFirstFrameOfAFile(t *testing.T) {
	data, dir := dirs(t)
	var tears atomic.Bool
	torn := func() bool { return tears.CompareAndSwap(true, false) }
	r := run(t, data, func(o *replica.Options) {
		o.Settings.Target, o.Settings.SnapshotInterval = tearing{replica.Directory{Path: dir}, torn}, time.Hour
	})
	r.updates(1)
	r.shipped()
	writeFiles(t, data, "first") // the next frame begins a file
	r.shipped()
	tears.Store(true)
	r.updates(1)
	r.shipped()
	require.False(t, tears.Load())
	require.EqualValues(t, 1, r.service.State().Generation)
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])
	r.stop()
	require.Empty(t, verify(t, dir).Damage)
}

// TestPrune_emptyFileOfFramesCoversNothing loses the power when a file of frames begins, which is
// empty then. The changes before it are newer than the snapshot, so they stay.
func TestPrune_emptyFileOfFramesCoversNothing(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(t.TempDir())) // so that the snapshot has a commit
	r.updates(1)
	r.stop()
	r = run(t, data, to(dir))
	r.shipped()
	r.updates(10)
	r.shipped()
	r.stop()
	log := filepath.Join(dir, "log", "0000000001")
	require.NoError(t, os.WriteFile(filepath.Join(log, "00000000000fffff.frames"), nil, 0o600))
	before, err := filepath.Glob(filepath.Join(log, "*.frames"))
	require.NoError(t, err)
	owner, err := replica.ReadOwner(dir)
	require.NoError(t, err)
	s, err := replica.Directory{Path: dir}.Open(t.Context(), replica.Owner{ID: owner.ID})
	require.NoError(t, err)
	_, err = s.Prune(t.Context(), replica.Retention{Now: time.Now(), Keep: time.Hour, Interval: time.Hour})
	require.NoError(t, err)
	after, err := filepath.Glob(filepath.Join(log, "*.frames"))
	require.NoError(t, err)
	require.Equal(t, before, after)
	found, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, found.check(t)[0])
}
