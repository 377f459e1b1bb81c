package audittrail

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// appliance is the data directory of a trail.
type appliance struct {
	dir     string
	options Options
	clock   *clockwork.FakeClock
}

func newAppliance(t testing.TB) *appliance {
	t.Helper()
	a := &appliance{dir: t.TempDir(), clock: clockwork.NewFakeClock()}
	key, err := sitekey.LoadOrCreate(a.dir)
	require.NoError(t, err)
	a.options = Options{Dir: filepath.Join(a.dir, DirName), Key: key, Clock: a.clock}
	return a
}

// run opens the trail, calls fn and closes the trail.
func (a *appliance) run(t testing.TB, fn func(*Trail)) {
	t.Helper()
	db, err := store.Open(t.Context(), a.dir, store.Options{NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	options := a.options
	options.DB = db
	trail, err := Open(options)
	require.NoError(t, err)
	defer func() { require.NoError(t, trail.Close()) }()
	fn(trail)
}

// files returns the paths of the trail's files.
func (a *appliance) files(t testing.TB) []string {
	t.Helper()
	paths, err := segmentPaths(a.options.Dir)
	require.NoError(t, err)
	return paths
}

// ana is a context of a person.
func ana(t testing.TB) context.Context {
	return access.With(t.Context(), access.Identity{Kind: access.Person, Name: "ana", Role: access.Administrator,
		Session: "s1", Address: "192.0.2.7"})
}

// change records a change of a cluster with its status.
func change(t testing.TB, trail *Trail, operation, cluster string, status int) {
	t.Helper()
	end, err := trail.Begin(ana(t), Entry{Operation: operation, Method: "PATCH", Path: "/v2/clusters/" + cluster,
		Objects: map[string]string{"cluster_id": cluster}, Request: "r1"})
	require.NoError(t, err)
	end(status, nil)
}

func changes(t testing.TB, trail *Trail, count int) {
	t.Helper()
	for i := range count {
		change(t, trail, "update", fmt.Sprintf("c%d", i), 200)
	}
}

func intact(t testing.TB, trail *Trail) *Report {
	t.Helper()
	report, err := trail.Verify(t.Context(), Expect{})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	return report
}

func list(t testing.TB, trail *Trail, filter Filter) []Item {
	t.Helper()
	page, err := trail.List(t.Context(), filter)
	require.NoError(t, err)
	return page.Items
}

func TestTrail_recordsWhoDidWhat(t *testing.T) {
	newAppliance(t).run(t, func(trail *Trail) {
		end, err := trail.Begin(ana(t), Entry{Operation: "getCredentials", Method: "GET", Path: "/credentials?key=x",
			Objects: map[string]string{"cluster_id": "c1", "host_id": ""}, Request: "r1", Secret: true})
		require.NoError(t, err)
		item := list(t, trail, Filter{Limit: 1})[0]
		require.Equal(t, Running, item.Outcome)
		require.Equal(t, Actor{Kind: access.Person, Name: "ana", Role: "admin", Session: "s1", Address: "192.0.2.7"},
			item.Actor)
		require.Equal(t, Entry{Operation: "getCredentials", Method: "GET", Path: "/credentials", Request: "r1",
			Objects: map[string]string{"cluster_id": "c1"}, Secret: true}, item.Entry)
		end(200, nil)
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "login", Status: 204}))
		item = list(t, trail, Filter{Operation: "getCredentials"})[0]
		require.Equal(t, 200, item.Status)
		require.Empty(t, item.Outcome)
		require.NotNil(t, item.Ended)
	})
}

// A record is on the disk before the operation runs; only the end of the operation may be missing.
func TestTrail_operationWithoutEndIsUnknown(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) {
		_, err := trail.Begin(ana(t), Entry{Operation: "install"})
		require.NoError(t, err)
	})
	a.run(t, func(trail *Trail) {
		require.Equal(t, Unknown, list(t, trail, Filter{Operation: "install"})[0].Outcome)
		intact(t, trail)
	})
}

func TestStart_writesBeginWhileHandlerRuns(t *testing.T) {
	a := newAppliance(t)
	disk := a.slow()
	a.run(t, func(trail *Trail) {
		<-disk.begun
		written, end, err := trail.Start(ana(t), Entry{Operation: "install"})
		require.NoError(t, err)
		<-disk.begun // the disk writes the begin
		close(disk.sync)
		require.NoError(t, written())
		require.NoError(t, written(), "each update of the handler asks")
		require.Equal(t, Running, list(t, trail, Filter{Operation: "install"})[0].Outcome)
		end(202, map[string]string{"cluster_id": "c1"})
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		item := list(t, trail, Filter{Cluster: "c1"})[0]
		require.Equal(t, 202, item.Status)
		require.Empty(t, item.Outcome)
	})
}

// While a change waits for its begin, no other change is saved, so it does not wait for long. The
// later ones wait before they begin.
func TestStart_hungDiskHoldsUpOthersOnce(t *testing.T) {
	a := newAppliance(t)
	disk := a.slow()
	a.options.patience = time.Millisecond
	a.run(t, func(trail *Trail) {
		<-disk.begun
		written, end, err := trail.Start(ana(t), Entry{Operation: "first"})
		require.NoError(t, err)
		<-disk.begun
		err = written()
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, "did not answer in time, so nothing was changed; try again")
		end(503, nil)
		started := make(chan error, 1)
		go func() {
			_, _, err := trail.Start(ana(t), Entry{Operation: "second"})
			started <- err
		}()
		require.Eventually(t, func() bool {
			trail.mu.Lock()
			defer trail.mu.Unlock()
			return len(trail.queue) == 1
		}, time.Minute, time.Millisecond)
		require.Empty(t, started)
		close(disk.sync)
		require.NoError(t, <-started)
		require.Eventually(t, func() bool {
			a.clock.Advance(shareDelay)
			return list(t, trail, Filter{Operation: "first"})[0].Status == 503
		}, time.Minute, time.Millisecond, "the operation failed")
	})
}

func TestStart_fullDisk(t *testing.T) {
	a := newAppliance(t)
	full := a.faulty()
	a.run(t, func(trail *Trail) {
		full.Store(partialWrite)
		written, end, err := trail.Start(ana(t), Entry{Operation: "first"})
		require.NoError(t, err)
		require.Equal(t, fault.NoSpace, fault.KindOf(written()))
		end(507, nil)
		_, _, err = trail.Start(ana(t), Entry{Operation: "second"})
		require.Equal(t, fault.NoSpace, fault.KindOf(err), "the next change does not begin")
		full.Store(0)
		written, end, err = trail.Start(ana(t), Entry{Operation: "third"})
		require.NoError(t, err)
		require.NoError(t, written())
		end(200, nil)
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		require.Empty(t, list(t, trail, Filter{Operation: "first"}))
		require.Empty(t, list(t, trail, Filter{Operation: "second"}))
		require.Equal(t, 200, list(t, trail, Filter{Operation: "third"})[0].Status)
		intact(t, trail)
	})
}

// The ID of a created object is known at the end of the operation only.
func TestList_findsCreatedObject(t *testing.T) {
	newAppliance(t).run(t, func(trail *Trail) {
		end, err := trail.Begin(ana(t), Entry{Operation: "register"})
		require.NoError(t, err)
		end(201, map[string]string{"cluster_id": "c7"})
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		items := list(t, trail, Filter{Cluster: "c7"})
		require.Len(t, items, 1)
		require.Equal(t, map[string]string{"cluster_id": "c7"}, items[0].Objects)
	})
}

func TestTrail_orderDoesNotDependOnClock(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) {
		change(t, trail, "first", "c1", 200)
		a.clock.Advance(-50 * 365 * 24 * time.Hour)
		change(t, trail, "second", "c1", 200)
		items := list(t, trail, Filter{Cluster: "c1"})
		require.Equal(t, []string{"second", "first"}, []string{items[0].Operation, items[1].Operation})
		require.True(t, items[0].Time.Before(items[1].Time))
		require.Greater(t, items[0].Sequence, items[1].Sequence)
		intact(t, trail)
	})
}

func TestTrail_continuesAcrossStarts(t *testing.T) {
	a := newAppliance(t)
	for range 3 {
		a.run(t, func(trail *Trail) { changes(t, trail, 2) })
	}
	a.run(t, func(trail *Trail) {
		require.Equal(t, 3*(2*2+2)+1, intact(t, trail).Records)
		require.Len(t, a.files(t), 4)
	})
}

// A member of a fleet has the database of the machine that made the fleet. Its backup is restored as
// that of a single machine.
func TestTrail_formerMemberIsNotTheFounder(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) { changes(t, trail, 5) })
	a.options.Dir, a.options.Member = filepath.Join(a.dir, "audit-of-b"), "b"
	a.run(t, func(trail *Trail) { changes(t, trail, 1) })
	a.options.Member = ""
	a.run(t, func(trail *Trail) {
		intact(t, trail)
		for _, item := range list(t, trail, Filter{}) {
			require.NotEqual(t, Shortened, item.Kind, item.Text)
		}
	})
}

func TestTrail_closedTrailRejectsRecords(t *testing.T) {
	a := newAppliance(t)
	var closed *Trail
	a.run(t, func(trail *Trail) { closed = trail })
	_, err := closed.Begin(ana(t), Entry{})
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = closed.Start(ana(t), Entry{})
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, closed.Record(ana(t), Entry{}), ErrClosed)
	require.NoError(t, closed.Close())
}

func TestTrail_textsAreLimited(t *testing.T) {
	newAppliance(t).run(t, func(trail *Trail) {
		objects := map[string]string{}
		for i := range 100 {
			objects[fmt.Sprintf("%03d", i)] = strings.Repeat("\x00\xff", 10_000)
		}
		long := strings.Repeat("long \x01 text \xff", 10_000)
		require.NoError(t, trail.Record(ana(t), Entry{Operation: long, Method: long, Path: long, Request: long,
			Text: long, Objects: objects}))
		intact(t, trail)
		info, err := os.Stat(trail.tail.path)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(64<<10))
	})
}

// Each write contains all records that arrived during the previous one.
func TestTrail_groupsConcurrentRecords(t *testing.T) {
	a := newAppliance(t)
	disk := a.slow()
	a.run(t, func(trail *Trail) {
		<-disk.begun
		const clients = 32
		var all sync.WaitGroup
		all.Go(func() { change(t, trail, "update", "c1", 200) })
		<-disk.begun // the first record is being written
		for range clients - 1 {
			all.Go(func() { change(t, trail, "update", "c1", 200) })
		}
		require.Eventually(t, func() bool {
			trail.mu.Lock()
			defer trail.mu.Unlock()
			return len(trail.queue) == clients-1
		}, time.Minute, time.Millisecond)
		close(disk.sync) // the disk becomes fast
		all.Wait()
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		require.Len(t, list(t, trail, Filter{Operation: "update"}), clients)
		intact(t, trail)
	})
	require.Less(t, disk.syncs.Load(), int64(32))
}

// One client that changes something again and again waits for one sync per change.
func TestTrail_endSharesTheSyncOfTheNextBegin(t *testing.T) {
	a := newAppliance(t)
	disk := a.slow()
	close(disk.sync)
	a.run(t, func(trail *Trail) {
		started := disk.syncs.Load()
		changes(t, trail, 10)
		require.Equal(t, started+10, disk.syncs.Load())
		before := trail.Head().Sequence
		a.clock.Advance(shareDelay) // no other change follows
		require.Eventually(t, func() bool { return trail.Head().Sequence == before+1 }, time.Minute,
			time.Millisecond)
	})
}

// slowFile is a file on a disk that syncs on command.
type slowFile struct {
	file
	begun chan struct{} // a sync has begun
	sync  chan struct{} // a sync may end
	syncs atomic.Int64
}

// slow has the trail written to a disk that syncs on command, but for the record of the start.
func (a *appliance) slow() *slowFile {
	disk := &slowFile{sync: make(chan struct{}, 1), begun: make(chan struct{}, 1000)}
	a.options.create = func(path string) (file, error) {
		var err error
		disk.file, err = createFile(path)
		return disk, err
	}
	disk.sync <- struct{}{}
	return disk
}

func (f *slowFile) Sync() error {
	f.begun <- struct{}{}
	<-f.sync
	f.syncs.Add(1)
	return f.file.Sync()
}

// faultyFile is a file on a disk that can be full.
type faultyFile struct {
	file
	full *atomic.Int32
}

// faulty has the trail written to a disk that can be full.
func (a *appliance) faulty() (full *atomic.Int32) {
	full = new(atomic.Int32)
	a.options.create = func(path string) (file, error) {
		real, err := createFile(path)
		return &faultyFile{real, full}, err
	}
	return full
}

// The faults of a faultyFile.
const (
	partialWrite = iota + 1
	failedSync
)

func (f *faultyFile) Write(text []byte) (int, error) {
	if f.full.Load() != partialWrite {
		return f.file.Write(text)
	}
	n, err := f.file.Write(text[:len(text)/2])
	if err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f *faultyFile) Sync() error {
	if f.full.Load() == failedSync {
		return syscall.EIO
	}
	return f.file.Sync()
}

func TestTrail_fullDiskRefusesChanges(t *testing.T) {
	for fails, kind := range map[int32]fault.Kind{partialWrite: fault.NoSpace, failedSync: fault.Unavailable} {
		a := newAppliance(t)
		full := a.faulty()
		a.run(t, func(trail *Trail) {
			end, err := trail.Begin(ana(t), Entry{Operation: "before"})
			require.NoError(t, err)
			full.Store(fails)
			_, err = trail.Begin(ana(t), Entry{Operation: "during"})
			require.Equal(t, kind, fault.KindOf(err))
			require.ErrorContains(t, err, "nothing may be changed")
			end(200, nil) // the operation before has ended; its record waits for the disk
			require.Equal(t, "before", list(t, trail, Filter{Operation: "before"})[0].Operation, "reads continue")
			intact(t, trail)
			full.Store(0)
			change(t, trail, "after", "c1", 200)
			require.Empty(t, list(t, trail, Filter{Operation: "during"}))
			require.Equal(t, 200, list(t, trail, Filter{Operation: "before"})[0].Status)
			intact(t, trail)
		})
		a.run(t, func(trail *Trail) { intact(t, trail) })
	}
}

func TestTrail_pastEventsWaitForAFullDisk(t *testing.T) {
	a := newAppliance(t)
	full := a.faulty()
	a.run(t, func(trail *Trail) {
		full.Store(partialWrite)
		login := Entry{Operation: "login", Status: 200}
		require.NoError(t, trail.RecordPast(ana(t), login))
		for range maxQueue - 1 {
			require.True(t, trail.add(&entry{record: Record{Kind: Event, Entry: Entry{Operation: "other"}}}))
		}
		require.ErrorContains(t, trail.RecordPast(ana(t), login), "no space is left", "the queue is full")
		full.Store(0)
		require.NoError(t, trail.RecordPast(ana(t), login))
		require.Len(t, list(t, trail, Filter{Operation: "login"}), 2)
		intact(t, trail)
	})
}

func TestTrail_failedWriteIsTriedAgain(t *testing.T) {
	a := newAppliance(t)
	full := a.faulty()
	a.run(t, func(trail *Trail) {
		end, err := trail.Begin(ana(t), Entry{Operation: "before"})
		require.NoError(t, err)
		full.Store(partialWrite)
		end(200, nil)
		require.Error(t, trail.Record(ana(t), Entry{}))
		full.Store(0)
		require.Eventually(t, func() bool {
			a.clock.Advance(tick)
			return list(t, trail, Filter{Operation: "before"})[0].Status == 200
		}, time.Minute, time.Millisecond)
	})
}

func TestTrail_unwritableDirectoryFailsStart(t *testing.T) {
	a := newAppliance(t)
	a.options.create = func(string) (file, error) { return nil, syscall.ENOSPC }
	db, err := store.Open(t.Context(), a.dir, store.Options{NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	a.options.DB = db
	_, err = Open(a.options)
	require.Equal(t, fault.NoSpace, fault.KindOf(err))
}

// A machine that loses its power in the middle of a write leaves a part of the write.
func TestTrail_incompleteWriteDoesNotCount(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) { changes(t, trail, 3) })
	path := a.files(t)[0]
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(content, []byte("\n"))
	unfinished := append(bytes.Clone(lines[1][:len(lines[1])-signatureLength-1]), "}\n"...)
	for _, rest := range [][]byte{{'x'}, lines[1][:50], unfinished, append(bytes.Clone(unfinished), "{\"se"...)} {
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(content), rest...), 0o600))
		a.run(t, func(trail *Trail) {
			report := intact(t, trail)
			require.Equal(t, uint64(report.Records), report.Last.Sequence)
		})
	}
}

func TestTrail_removesOldestFiles(t *testing.T) {
	a := newAppliance(t)
	a.options.Bytes = 4 * minFile
	a.run(t, func(trail *Trail) {
		changes(t, trail, 1200)
		report := intact(t, trail)
		require.Greater(t, report.First, uint64(1))
		require.Contains(t, report.Notes[0], "were removed")
		total := int64(0)
		for _, path := range a.files(t) {
			info, err := os.Stat(path)
			require.NoError(t, err)
			total += info.Size()
		}
		require.LessOrEqual(t, total, a.options.Bytes)
	})
	a.run(t, func(trail *Trail) { intact(t, trail) })
	require.NoError(t, os.Remove(a.files(t)[0]))
	a.run(t, func(trail *Trail) {
		report, err := trail.Verify(t.Context(), Expect{})
		require.NoError(t, err)
		require.Contains(t, report.Problems[len(report.Problems)-1], "are missing")
	})
}

// damage replaces a file by bytes that can't be read as lines, as after damage of the disk.
func damage(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, make([]byte, 2*maxLine), 0o600))
}

func TestTrail_damagedOldFileDoesNotBlockChanges(t *testing.T) {
	a := newAppliance(t)
	a.options.Bytes = 4 * minFile
	a.run(t, func(trail *Trail) { changes(t, trail, 10) })
	a.run(t, func(trail *Trail) {
		damage(t, a.files(t)[0])
		changes(t, trail, 200)
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		report := intact(t, trail)
		require.Greater(t, report.First, uint64(1))
		require.Contains(t, report.Notes[0], "were removed")
	})
}

func TestTrail_damagedNewestFileIsReported(t *testing.T) {
	for _, count := range []int{1, 3} {
		a := newAppliance(t)
		for range count {
			a.run(t, func(trail *Trail) { changes(t, trail, 3) })
		}
		damaged := a.files(t)[count-1]
		damage(t, damaged)
		a.run(t, func(trail *Trail) {
			require.Greater(t, trail.Head().Sequence, uint64(count*8), "no number is used again")
			records, err := os.ReadFile(a.files(t)[count])
			require.NoError(t, err)
			require.Contains(t, string(records), `"shortened"`)
			require.Contains(t, string(records), "the file "+damaged+" can't be read")
		})
		a.run(t, func(trail *Trail) {
			change(t, trail, "later", "c1", 200)
			require.Len(t, list(t, trail, Filter{Operation: "later"}), 1)
			report, err := trail.Verify(t.Context(), Expect{})
			require.NoError(t, err)
			require.Contains(t, strings.Join(report.Problems, "\n"), "are missing")
		})
	}
}

func TestDamages_notEachError(t *testing.T) {
	require.True(t, damages(&os.PathError{Op: "read", Path: "1.jsonl", Err: syscall.EIO}))
	require.False(t, damages(&os.PathError{Op: "open", Path: "1.jsonl", Err: syscall.EACCES}))
}

func TestSegments_errorThatMayPassRemovesNoFiles(t *testing.T) {
	a := newAppliance(t)
	for range 3 {
		a.run(t, func(trail *Trail) { changes(t, trail, 3) })
	}
	files := a.files(t)
	s := &segments{dir: a.options.Dir}
	surplus, last, err := s.surplus()
	require.NoError(t, err)
	require.Equal(t, files[:2], surplus)

	require.NoError(t, os.Rename(files[1], files[1]+".away"))
	require.NoError(t, os.Mkdir(files[1], 0o700)) // its error EISDIR is like EMFILE no damage of a medium
	_, _, err = s.surplus()
	require.ErrorIs(t, err, syscall.EISDIR)

	require.NoError(t, os.Remove(files[1]))
	damage(t, files[1])
	surplus, before, err := s.surplus()
	require.NoError(t, err)
	require.Equal(t, files[:2], surplus)
	require.Equal(t, last, before, "the next file names it")
}

func TestSegments_fileSizeHasLimits(t *testing.T) {
	for bytes, want := range map[int64]int64{1 << 20: 64 << 10, 256 << 20: 16 << 20, 1 << 40: 32 << 20} {
		require.Equal(t, want, (&segments{bytes: bytes}).fileSize(), "%d", bytes)
	}
}

func TestTrail_countsRepeatedRefusals(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) {
		for range 10_000 {
			trail.Refuse(ana(t), Entry{Operation: "login", Status: 401})
		}
		trail.Refuse(ana(t), Entry{Operation: "login", Status: 429})
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		require.Len(t, list(t, trail, Filter{Operation: "login"}), 2)
		require.Eventually(t, func() bool {
			a.clock.Advance(refusalWindow)
			return len(list(t, trail, Filter{Operation: "login"})) == 3
		}, time.Minute, time.Millisecond)
		require.Equal(t, 9999, list(t, trail, Filter{Operation: "login"})[0].Repeated)
	})
}

// A flood from many addresses must not push the other records out of the trail.
func TestTrail_floodOfRefusalsIsOneRecord(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) {
		for i := range 10_000 {
			ctx := access.With(t.Context(), access.Identity{Address: fmt.Sprintf("2001:db8::%x", i)})
			trail.Refuse(ctx, Entry{Operation: "login", Status: 401})
		}
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		require.Len(t, list(t, trail, Filter{}), 1+maxRefusals+1+1)
	})
	a.run(t, func(trail *Trail) {
		var counted int
		for _, item := range list(t, trail, Filter{}) {
			if item.Kind == Refused {
				counted += 1 + item.Repeated - min(item.Repeated, 1)
			}
		}
		require.Equal(t, 10_000, counted)
	})
}

func TestList_filtersAndPages(t *testing.T) {
	a := newAppliance(t)
	start := a.clock.Now()
	a.run(t, func(trail *Trail) {
		for i := range 30 {
			change(t, trail, []string{"update", "delete"}[i%2], fmt.Sprintf("c%d", i%3), 200+i)
			a.clock.Advance(time.Minute)
		}
	})
	a.run(t, func(trail *Trail) {
		bert := access.With(t.Context(), access.Identity{Kind: access.Program, Name: "bert"})
		require.NoError(t, trail.Record(bert, Entry{Operation: "logout"}))
		cases := map[string]struct {
			filter Filter
			count  int
		}{
			"everything":     {Filter{}, 30 + 1 + 1 + 1 + 1},
			"by operation":   {Filter{Operation: "delete"}, 15},
			"by cluster":     {Filter{Cluster: "c2"}, 10},
			"by both":        {Filter{Operation: "delete", Cluster: "c2"}, 5},
			"by person":      {Filter{Person: "bert"}, 1},
			"unknown person": {Filter{Person: "ber"}, 0},
			"since":          {Filter{Since: start.Add(20 * time.Minute), Person: "ana"}, 10},
			"until":          {Filter{Until: start.Add(20 * time.Minute), Person: "ana"}, 20},
		}
		for name, c := range cases {
			require.Len(t, list(t, trail, c.filter), c.count, name)
		}
		var paged []Item
		filter := Filter{Person: "ana", Limit: 7}
		for {
			page, err := trail.List(t.Context(), filter)
			require.NoError(t, err)
			paged = append(paged, page.Items...)
			if filter.Before = page.Next; page.Next == 0 {
				break
			}
		}
		require.Equal(t, list(t, trail, Filter{Person: "ana"}), paged)
		for i, item := range paged {
			require.Equal(t, 229-i, item.Status)
		}
	})
}

func TestEachLineBackward_returnsAllLines(t *testing.T) {
	for _, length := range []int{0, 1, 100, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200_000} {
		var text bytes.Buffer
		var want []string
		for i := range 5 {
			line := strings.Repeat(string(rune('a'+i)), length)
			want = append(want, line)
			text.WriteString(line + "\n")
		}
		text.WriteString("incomplete")
		var got []string
		err := eachLineBackward(bytes.NewReader(text.Bytes()), int64(text.Len()), func(line []byte, end int64) error {
			got = append([]string{string(line)}, got...)
			require.Equal(t, byte('\n'), text.Bytes()[end-1])
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func BenchmarkTrail_begin(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			newAppliance(b).run(b, func(trail *Trail) {
				b.SetParallelism(clients)
				b.ReportAllocs()
				b.RunParallel(func(each *testing.PB) {
					for each.Next() {
						change(b, trail, "update", "a1b2c3d4-0000-0000-0000-000000000000", 200)
					}
				})
			})
		})
	}
}
