package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/doctor"
	"landfall/appliance/keyring"
	"landfall/appliance/process/ownertest"
	"landfall/appliance/replica"
)

// dirs returns a data directory that does not exist yet, and an empty directory for a replica.
func dirs(t *testing.T) (data, copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "replica")
	require.NoError(t, os.Mkdir(copied, 0o700))
	return filepath.Join(t.TempDir(), "data"), copied
}

func verify(t *testing.T, dir string) *replica.Summary {
	t.Helper()
	found, err := replica.Reader{Directory: replica.Directory{Path: dir}}.Verify(t.Context())
	require.NoError(t, err)
	return found
}

func TestReplica_orderlyStopLosesNothing(t *testing.T) {
	data, dir := dirs(t)
	for range 3 {
		r := run(t, data, to(dir))
		r.updates(30)
		serial := r.serial
		r.stop()
		s, err := restored(t, dir, time.Time{}, data)
		require.NoError(t, err)
		require.Equal(t, [writers]int{serial}, s.check(t))
	}
	found := verify(t, dir)
	require.Empty(t, found.Damage)
	require.True(t, found.Heartbeat.Stopped)
}

func TestReplica_directoryWithSpecialCharacters(t *testing.T) {
	_, dir := dirs(t)
	data := filepath.Join(t.TempDir(), "site [1")
	left := filepath.Join(data, ".replica-1")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(left, []byte("of a killed process"), 0o600))
	r := run(t, data, to(dir))
	require.NoFileExists(t, left)
	r.updates(1)
	r.shipped()
	r.stop()
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, 1, s.check(t)[0])
}

// TestReplica_everyMoment restores the state after each of many updates, by the time between it and
// the next one.
func TestReplica_everyMoment(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Settings.SnapshotInterval = 50 * time.Millisecond
	})
	r.shipped()
	const count = 60
	var after [count]time.Time
	for i := range count {
		r.updates(1)
		after[i] = time.Now()
	}
	r.stop()
	for _, i := range rand.Perm(count)[:15] {
		s, err := restored(t, dir, after[i], data)
		require.NoError(t, err)
		require.Equal(t, i+1, s.check(t)[0])
	}
	_, err := restored(t, dir, after[0].Add(-time.Hour), data)
	require.ErrorContains(t, err, "the oldest is that of")
}

func TestReplica_unpluggedDirectoryIsResumed(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(10)
	r.shipped()
	generation := r.service.State().Generation
	gone := dir + ".gone"
	require.NoError(t, os.Rename(dir, gone))
	r.updates(10)
	require.Eventually(t, func() bool { return r.service.State().Failure != "" }, time.Minute, time.Millisecond)
	require.Contains(t, r.service.State().Failure, "connect it again")
	require.Equal(t, doctor.Amber, r.service.Finding().Status)
	require.NoDirExists(t, dir, "it must not be made again on the disk below")
	during := time.Now()
	r.updates(10)
	require.NoError(t, os.Rename(gone, dir))
	r.shipped()
	require.Equal(t, generation, r.service.State().Generation)
	require.Equal(t, doctor.Green, r.service.Finding().Status)
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, 30, s.check(t)[0])
	if s, err = restored(t, dir, during, data); err == nil {
		require.Equal(t, 20, s.check(t)[0], "a state during the absence")
	}
	require.NoError(t, err)
	r.stop()
	require.Empty(t, verify(t, dir).Damage)
}

// TestReplica_lostDirectoryBeginsAgain replaces the disk by an empty one.
func TestReplica_lostDirectoryBeginsAgain(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(10)
	r.shipped()
	require.NoError(t, os.Rename(dir, dir+".lost"))
	require.NoError(t, os.Mkdir(dir, 0o700))
	r.updates(10)
	r.shipped()
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, 20, s.check(t)[0])
}

func TestReplica_behindNeedsAPerson(t *testing.T) {
	data, _ := dirs(t)
	s, err := openSite(data, clockwork.NewRealClock())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	clock := clockwork.NewFakeClock()
	service, err := replica.New(t.Context(), s.replicaOf(replica.Directory{Path: "/nowhere/replica"}, clock))
	require.NoError(t, err, "a missing disk does not stop the appliance")
	require.False(t, service.State().Behind)
	clock.Advance(61 * time.Second)
	require.True(t, service.State().Behind)
	require.Equal(t, doctor.Red, service.Finding().Status)
	require.Contains(t, service.Finding().Advice, "/nowhere/replica")
}

func TestReplica_encrypted(t *testing.T) {
	data, dir := dirs(t)
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Settings.Recipient = identity.Recipient().String()
	})
	r.updates(60)
	r.shipped()
	r.stop()
	reader := replica.Reader{Directory: replica.Directory{Path: dir}}
	target := backup.Target{Dir: filepath.Join(t.TempDir(), "data"), Now: time.Now}
	_, err = reader.Restore(t.Context(), time.Time{}, target)
	require.ErrorIs(t, err, backup.ErrEncrypted)
	reader.Identities = []age.Identity{identity}
	_, err = reader.Restore(t.Context(), time.Time{}, target)
	require.NoError(t, err)
	s, err := openSite(target.Dir, clockwork.NewRealClock())
	require.NoError(t, err, "the replica contains the key")
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	require.Equal(t, 60, s.check(t)[0])
	found, err := reader.Verify(t.Context())
	require.NoError(t, err)
	require.Empty(t, found.Damage)
	require.Zero(t, found.Unread)
	require.NotZero(t, verify(t, dir).Unread)
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		require.NotContains(t, string(text), "/items/", path)
		return err
	}))
}

// TestReplica_clearHasNoKey opens a replica without seal.key.
func TestReplica_clearHasNoKey(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(5)
	r.shipped()
	r.stop()
	target := backup.Target{Dir: filepath.Join(t.TempDir(), "data"), Now: time.Now}
	_, err := replica.Reader{Directory: replica.Directory{Path: dir}}.Restore(t.Context(), time.Time{}, target)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(target.Dir, keyring.DefaultKeyFile))
	_, err = openSite(target.Dir, clockwork.NewRealClock())
	require.ErrorContains(t, err, "seal.key")
}

func TestReplica_oldStatesAreRemoved(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Settings.Keep, o.Settings.SnapshotInterval = 200*time.Millisecond, 50*time.Millisecond
	})
	begin := time.Now()
	require.Eventually(t, func() bool {
		r.updates(5)
		return r.service.State().Usage.Oldest.After(begin.Add(300 * time.Millisecond))
	}, time.Minute, 5*time.Millisecond)
	r.stop()
	require.Empty(t, verify(t, dir).Damage)
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])
	_, err = restored(t, dir, begin, data)
	_, ok := errors.AsType[*replica.NoStateError](err)
	require.True(t, ok, "%v", err)
}

func TestReplica_bytesAreLimited(t *testing.T) {
	data, dir := dirs(t)
	const limit = 400 << 10
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Settings.Bytes, o.Settings.SnapshotInterval = limit, 50*time.Millisecond
	})
	require.Eventually(t, func() bool {
		r.updates(20)
		return r.service.State().Usage.Shortened
	}, time.Minute, 5*time.Millisecond)
	require.LessOrEqual(t, r.service.State().Usage.Snapshots, 10)
	require.Contains(t, r.service.Finding().Advice, "replica.bytes")
	r.stop()
	require.Empty(t, verify(t, dir).Damage)
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])
}

// The replica is measured when old states are removed, once an hour. What is written in between is
// added.
func TestReplica_presentSize(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	for name, recipient := range map[string]string{"clear": "", "encrypted": identity.Recipient().String()} {
		t.Run(name, func(t *testing.T) {
			data, dir := dirs(t)
			r := run(t, data, func(o *replica.Options) {
				to(dir)(o)
				o.Settings.SnapshotInterval, o.Settings.Recipient = time.Hour, recipient
			})
			require.Eventually(t, func() bool { return r.service.State().Usage.Snapshots == 1 }, time.Minute,
				time.Millisecond)
			before := r.service.State().Usage.Bytes
			r.updates(2 * fileEvery)
			r.shipped()
			state := r.service.State()
			r.stop()
			found, err := replica.Reader{Directory: replica.Directory{Path: dir}}.Summary()
			require.NoError(t, err)
			require.Greater(t, found.Bytes, before+100<<10)
			require.InDelta(t, found.Bytes, state.Usage.Bytes, 8<<10)
		})
	}
}

// The appliance runs as another user than root, who may promote the replica.
func TestPromote_belongsToTheOwner(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, to(dir))
	r.updates(5)
	r.shipped()
	r.stop()
	owner, next := ownertest.Give(t, dir), filepath.Join(t.TempDir(), "next")
	require.NoError(t, os.Mkdir(next, 0o700))
	ownertest.Give(t, next)
	reader := replica.Reader{Directory: replica.Directory{Path: dir}}
	_, err := reader.Promote(t.Context(), time.Time{}, "on second", backup.Target{Dir: next, Now: time.Now})
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(next, replica.IDName))
	ownertest.Require(t, next, owner)
	ownertest.Require(t, dir, owner)
}

func TestPromote_formerOwnerStops(t *testing.T) {
	data, dir := dirs(t)
	s, err := openSite(data, clockwork.NewRealClock())
	require.NoError(t, err)
	service, err := replica.New(t.Context(), s.replicaOf(replica.Directory{Path: dir}, clockwork.NewRealClock()))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- service.Run(t.Context()) }()
	require.NoError(t, s.update(t.Context(), 0, 1))
	now := time.Now()
	require.Eventually(t, func() bool { return service.State().Shipped.After(now) }, time.Minute, time.Millisecond)
	next := filepath.Join(t.TempDir(), "next")
	reader := replica.Reader{Directory: replica.Directory{Path: dir}}
	_, err = reader.Promote(t.Context(), time.Time{}, "on second", backup.Target{Dir: next, Now: time.Now})
	require.NoError(t, err)
	require.NoError(t, s.update(t.Context(), 0, 2))
	fenced, ok := errors.AsType[*replica.FencedError](<-ended)
	require.True(t, ok, "the running appliance ends")
	require.ErrorContains(t, fenced, "the appliance on second took over from this one")
	require.ErrorContains(t, fenced, "landfall replica claim "+dir)
	require.NoError(t, service.Close())
	_, err = replica.New(t.Context(), s.replicaOf(replica.Directory{Path: dir}, clockwork.NewRealClock()))
	require.ErrorAs(t, err, &fenced, "it does not start again")

	key, err := os.ReadFile(filepath.Join(data, keyring.DefaultKeyFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(next, keyring.DefaultKeyFile), key, 0o600))
	promoted := run(t, next, to(dir))
	require.Equal(t, 1, promoted.serial)
	promoted.updates(5)
	promoted.shipped()
	promoted.stop()

	id, err := replica.ID(data)
	require.NoError(t, err)
	require.NoError(t, replica.Directory{Path: dir}.Claim(t.Context(),
		replica.Owner{ID: id, Name: "on first", Since: now}))
	service, err = replica.New(t.Context(), s.replicaOf(replica.Directory{Path: dir}, clockwork.NewRealClock()))
	require.NoError(t, err, "a person decided for it")
	require.NoError(t, errors.Join(service.Close(), s.db.Close()))
	require.Empty(t, verify(t, dir).Damage)
}

// TestReplica_twoProcessesOfOneDirectory starts a copy of a data directory: the older process
// stops.
func TestReplica_twoProcessesOfOneDirectory(t *testing.T) {
	data, dir := dirs(t)
	s, err := openSite(data, clockwork.NewRealClock())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	options := s.replicaOf(replica.Directory{Path: dir}, clockwork.NewRealClock())
	first, err := replica.New(t.Context(), options)
	require.NoError(t, err)
	second, err := replica.New(t.Context(), options)
	require.NoError(t, err)
	fenced := new(replica.FencedError)
	require.ErrorAs(t, first.Run(t.Context()), &fenced)
	require.NoError(t, errors.Join(first.Close(), second.Close()))
}

// TestReplica_randomDamage flips a bit, cuts or removes a file of a replica. A restore then says
// that it is damaged, or has the exact state; verify names the damage.
func TestReplica_randomDamage(t *testing.T) {
	data, dir := dirs(t)
	r := run(t, data, func(o *replica.Options) {
		to(dir)(o)
		o.Settings.SnapshotInterval = 100 * time.Millisecond
	})
	for range 10 {
		r.updates(8)
		r.shipped()
	}
	r.stop()
	paths := needed(t, dir)
	random := rand.New(rand.NewPCG(*seed, 1))
	said, whole := 0, 0
	for n := range 120 {
		path := paths[random.IntN(len(paths))]
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		damaged := bytes.Clone(before)
		what := []string{"bit", "cut", "removal"}[n%3]
		switch {
		case what == "removal":
			require.NoError(t, os.Remove(path))
		case len(before) == 0:
			continue
		case what == "cut":
			damaged = damaged[:random.IntN(len(damaged))]
		default:
			damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
		}
		if what != "removal" {
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
		}
		name := fmt.Sprintf("%s of %s", what, strings.TrimPrefix(path, dir))
		s, err := restored(t, dir, time.Time{}, data)
		if err != nil {
			said++
		} else {
			whole++
			require.Equal(t, r.serial, s.check(t)[0], name)
		}
		found, err := replica.Reader{Directory: replica.Directory{Path: dir}}.Verify(t.Context())
		// Nothing else names some of these files, or needs the backup of an interrupted snapshot.
		unknown := strings.HasSuffix(path, ".json") && (what == "removal" || strings.Contains(path, "/snapshots/"))
		if err == nil && !unknown && filepath.Base(path) != "lock" {
			require.NotEmpty(t, found.Damage, name)
		}
		require.NoError(t, os.WriteFile(path, before, 0o600))
	}
	require.NotZero(t, said)
	require.NotZero(t, whole)
	require.Empty(t, verify(t, dir).Damage)
}

// needed returns the files of a replica, without the objects that no list and no frame names: the
// stop interrupted their snapshot.
func needed(t *testing.T, dir string) (paths []string) {
	t.Helper()
	var names []byte // the contents of lists and frames
	files := map[string]bool{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "owner.json" {
			return err
		}
		object := strings.Contains(path, "/objects/")
		files[path] = object
		if object {
			return nil
		}
		content, err := os.ReadFile(path)
		names = append(names, content...)
		return err
	}))
	for path, object := range files {
		if !object || bytes.Contains(names, []byte(filepath.Base(path))) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// failing is a target whose writes fail as decided by a function.
type failing struct {
	replica.Target
	fail func() error
}

func (f failing) Open(ctx context.Context, owner replica.Owner) (replica.Session, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	s, err := f.Target.Open(ctx, owner)
	return failingSession{s, f.fail}, err
}

type failingSession struct {
	replica.Session
	fail func() error
}

func (s failingSession) Resume(ctx context.Context) (string, error) {
	if err := s.fail(); err != nil {
		return "", err
	}
	return s.Session.Resume(ctx)
}

func (s failingSession) Append(ctx context.Context, frame []byte) error {
	if err := s.fail(); err != nil {
		return err
	}
	if err := s.Session.Append(ctx, frame); err != nil {
		return err
	}
	return s.fail() // the frame was written, and the answer is lost
}

func (s failingSession) Put(ctx context.Context, sum string, stored io.Reader) error {
	if err := s.fail(); err != nil {
		return err
	}
	return s.Session.Put(ctx, sum, stored)
}

// TestReplica_randomFailures fails a third of the writes, before or after they happen.
func TestReplica_randomFailures(t *testing.T) {
	data, dir := dirs(t)
	causes := []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO}
	r := run(t, data, func(o *replica.Options) {
		o.Retry = time.Millisecond
		o.Settings.Target = failing{replica.Directory{Path: dir}, func() error {
			if n := rand.IntN(6); n < 1 {
				return causes[rand.IntN(len(causes))]
			}
			return nil
		}}
	})
	for range 20 {
		r.updates(5)
		r.shipped()
		s, err := restored(t, dir, time.Time{}, data)
		require.NoError(t, err)
		require.Equal(t, r.serial, s.check(t)[0])
	}
	r.stop()
	require.Empty(t, verify(t, dir).Damage)
}

// TestReplica_hangingDiskDoesNotHoldTheStop stops an appliance whose disk of the replica hangs in
// the first snapshot.
func TestReplica_hangingDiskDoesNotHoldTheStop(t *testing.T) {
	data, dir := dirs(t)
	s, err := openSite(data, clockwork.NewRealClock())
	require.NoError(t, err)
	hangs, release := make(chan struct{}), make(chan struct{})
	hang := sync.OnceFunc(func() { close(hangs) })
	clock := clockwork.NewFakeClock()
	service, err := replica.New(t.Context(), s.replicaOf(failing{replica.Directory{Path: dir}, func() error {
		if replica.IsReplica(dir) {
			hang()
			<-release
		}
		return nil
	}}, clock))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	<-hangs
	cancel()
	require.Eventually(t, func() bool {
		clock.Advance(time.Second)
		return len(ended) == 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, errors.Join(<-ended, service.Close(), s.db.Close()))
	close(release)
}

// TestReplica_hangingDiskDoesNotHoldTheStart starts an appliance whose disk of the replica hangs,
// and responds later.
func TestReplica_hangingDiskDoesNotHoldTheStart(t *testing.T) {
	for name, later := range map[string]error{
		"follows":         nil,
		"has a new owner": &replica.FencedError{Place: "replica", Owner: replica.Owner{ID: "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			data, dir := dirs(t)
			s, err := openSite(data, clockwork.NewRealClock())
			require.NoError(t, err)
			release := make(chan struct{})
			clock := clockwork.NewFakeClock()
			opens := new(atomic.Int32)
			target := failing{replica.Directory{Path: dir}, func() error {
				<-release
				return later
			}}
			started := make(chan *replica.Service, 1)
			go func() {
				service, err := replica.New(t.Context(), s.replicaOf(counted{target, opens}, clock))
				if err != nil {
					t.Error(err)
				}
				started <- service
			}()
			advance := func(until func() bool) {
				t.Helper()
				require.Eventually(t, func() bool {
					clock.Advance(time.Second)
					return until()
				}, time.Minute, time.Millisecond)
			}
			advance(func() bool { return len(started) == 1 })
			service := <-started
			require.Contains(t, service.State().Failure, "does not respond")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- service.Run(ctx) }()
			close(release)
			if later == nil {
				advance(func() bool { return service.State().Ready })
				require.Equal(t, int32(1), opens.Load(), "the late session is used")
				cancel()
				advance(func() bool { return len(ended) == 1 })
				require.NoError(t, <-ended)
			} else {
				advance(func() bool { return len(ended) == 1 })
				require.ErrorAs(t, <-ended, new(*replica.FencedError))
			}
			cancel()
			require.NoError(t, errors.Join(service.Close(), s.db.Close()))
		})
	}
}

// counted counts the openings of a target.
type counted struct {
	replica.Target
	opens *atomic.Int32
}

func (c counted) Open(ctx context.Context, owner replica.Owner) (replica.Session, error) {
	c.opens.Add(1)
	return c.Target.Open(ctx, owner)
}

// TestReplica_stopAtTheBeginning stops an appliance before its replica was written at all.
func TestReplica_stopAtTheBeginning(t *testing.T) {
	data, dir := dirs(t)
	s, err := openSite(data, clockwork.NewRealClock())
	require.NoError(t, err)
	service, err := replica.New(t.Context(), s.replicaOf(replica.Directory{Path: dir}, clockwork.NewRealClock()))
	require.NoError(t, err)
	require.NoError(t, s.update(t.Context(), 0, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, errors.Join(service.Run(ctx), service.Close(), s.db.Close()))
	got, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, 1, got.check(t)[0])
}

// A directory hangs while an appliance begins a generation, which then stops, or no longer leads
// its fleet. The next one begins a generation, before the directory continues with the first one.
func TestDirectory_openingThatReturnsLate(t *testing.T) {
	directory := replica.Directory{Path: t.TempDir()}
	present, err := directory.Open(t.Context(), replica.Owner{ID: "a"})
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = directory.Open(ended, replica.Owner{ID: "a"})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, present.Beat(t.Context(), replica.Heartbeat{}), "it still owns the replica")
	logs, err := os.ReadDir(filepath.Join(directory.Path, "log"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
}
