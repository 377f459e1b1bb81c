package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
	"landfall/store/wal/waltest"
)

// Some tests need a separate process: to kill it, to limit its disk space or permissions, or to
// lock the directory. The test binary then starts itself with a role in this variable.
const roleVariable = "LANDFALL_STORE_TEST_ROLE"

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{"writer": writer, "holder": holder, "starved": starved,
		"starved leader": starvedLeader, "unprivileged": unprivileged, "limited": limited}
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child returns a command that runs the test binary in a role on a data directory.
func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

const childWriters = 4

// writer runs updates in an endless loop. Each update writes two rows, an index key and a deadline.
// writer prints "<writer> <serial>" for each acknowledged update.
func writer(dir string) error {
	db, err := store.Open(context.Background(), dir, store.Options{})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	var out sync.Mutex
	for w := range childWriters {
		next := 0
		if err := db.View(func(tx *store.Tx) error {
			return left.Keys(tx, fmt.Sprintf("%d/", w), func(string) error { next++; return nil })
		}); err != nil {
			return err
		}
		running.Go(func() {
			for serial := next; ; serial++ {
				key := fmt.Sprintf("%d/%06d", w, serial)
				err := db.Update(context.Background(), func(tx *store.Tx) error {
					return errors.Join(left.Put(tx, key, &document{serial, strings.Repeat("l", 500)}),
						halves.Add(tx, key),
						right.Put(tx, key, &document{serial, strings.Repeat("r", 3000)}),
						timers.Set(tx, key, now.Add(time.Duration(serial))))
				})
				out.Lock()
				if err == nil {
					_, err = fmt.Println(w, serial)
				}
				out.Unlock()
				if err != nil {
					panic(err)
				}
			}
		})
	}
	running.Wait()
	return nil
}

var (
	left   = store.NewBucket[document]("left", 1)
	right  = store.NewBucket[document]("right", 1)
	halves = store.NewIndex("halves")
	timers = store.NewDeadlines("timers")
)

func TestKill_acknowledgedUpdatesSurvive(t *testing.T) {
	dir := t.TempDir()
	acknowledged := [childWriters]int{}
	for round := range 24 {
		cmd := child(t, "writer", dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		killAt := rand.N(60 * time.Millisecond)
		var timer *time.Timer
		for lines.Scan() {
			if timer == nil { // started at the first acknowledgement
				timer = time.AfterFunc(killAt, func() {
					if err := cmd.Process.Kill(); err != nil {
						t.Error(err)
					}
				})
			}
			var w, serial int
			if n, err := fmt.Sscanln(lines.Text(), &w, &serial); n == 2 && err == nil {
				acknowledged[w] = max(acknowledged[w], serial+1)
			}
		}
		require.NoError(t, lines.Err())
		require.ErrorContains(t, cmd.Wait(), "signal: killed", "round %d", round)

		db, err := store.Open(t.Context(), dir, store.Options{})
		require.NoError(t, err, "round %d", round)
		rows := 0
		view(t, db, func(tx *store.Tx) error {
			due, err := timers.Due(tx, later, 0)
			require.NoError(t, err)
			for w, least := range acknowledged {
				count := 0
				require.NoError(t, left.Each(tx, fmt.Sprintf("%d/", w), func(key string, d *document) error {
					require.Equal(t, count, d.Serial, "no gap")
					require.True(t, right.Exists(tx, key))
					require.True(t, halves.Exists(tx, key))
					count++
					return nil
				}))
				require.GreaterOrEqual(t, count, least, "writer %d in round %d", w, round)
				rows += count
			}
			require.Len(t, due, rows)
			require.NoError(t, right.Keys(tx, "", func(key string) error {
				require.True(t, left.Exists(tx, key))
				return nil
			}))
			return nil
		})
		require.EqualValues(t, 2*rows, db.Revision())
		require.NoError(t, db.Close())
	}
	require.Positive(t, acknowledged[0])
}

// holder opens the database, prints a line and closes the database when its standard input ends.
func holder(dir string) error {
	db, err := store.Open(context.Background(), dir, store.Options{})
	if err != nil {
		return err
	}
	fmt.Println("holding")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return db.Close()
}

func TestOpen_secondProcessIsRejected(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, "holder", dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	_, err = store.Open(t.Context(), dir, store.Options{})
	var held *store.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, cmd.Process.Pid, held.PID)
	require.WithinDuration(t, time.Now(), held.Since, time.Minute)
	require.ErrorContains(t, err, fmt.Sprintf("is held by process %d since ", cmd.Process.Pid))
	require.ErrorContains(t, err, dir)

	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	open(t, dir)
}

// starved writes until a limit on file sizes stops it. It then checks the state, raises the limit
// and continues.
func starved(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	db, err := store.Open(context.Background(), dir, store.Options{})
	if err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(dir, "landfall.db"))
	if err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	tight := before
	tight.Cur = uint64(info.Size()) + 100<<10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &tight); err != nil {
		return err
	}
	rows, attempts := 0, 0
	fill := func() error {
		var running sync.WaitGroup
		errs := make([]error, 8)
		for w := range errs {
			running.Go(func() {
				errs[w] = db.Update(context.Background(), func(tx *store.Tx) error {
					return documents.Put(tx, fmt.Sprintf("%06d/%d", attempts, w),
						&document{0, strings.Repeat("x", 20000)})
				})
			})
		}
		running.Wait()
		attempts++
		for _, err := range errs {
			if err == nil {
				rows++
			}
		}
		return errors.Join(errs...)
	}
	check := func() error {
		return db.View(func(tx *store.Tx) error {
			count := 0
			if err := documents.Each(tx, "", func(string, *document) error { count++; return nil }); err != nil {
				return err
			}
			// Revisions of failed updates are not used again.
			if count != rows || tx.Revision() < uint64(rows) || tx.Revision() != db.Revision() {
				return fmt.Errorf("%d rows, %d acknowledged, revision %d, published %d", count, rows, tx.Revision(),
					db.Revision())
			}
			return nil
		})
	}
	for range 1000 {
		err = fill()
		if err != nil {
			break
		}
	}
	var full *store.WriteError
	if !errors.As(err, &full) || !full.NoSpace() || full.Unknown || !strings.Contains(err.Error(),
		"free space on its file system") {
		return fmt.Errorf("want *WriteError for a full disk, got %v", err)
	}
	if err := check(); err != nil {
		return fmt.Errorf("read after the disk was full: %w", err)
	}
	if _, err := db.Stage(context.Background(), bytes.NewReader(make([]byte, tight.Cur+1))); !errors.As(err, &full) {
		return fmt.Errorf("want *WriteError for Stage on a full disk, got %v", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	for range 5 {
		if err := fill(); err != nil {
			return fmt.Errorf("write after space was freed: %w", err)
		}
	}
	if err := errors.Join(check(), db.Close()); err != nil {
		return err
	}
	if db, err = store.Open(context.Background(), dir, store.Options{}); err != nil {
		return err
	}
	return errors.Join(check(), db.Close())
}

func TestFullDisk_updatesFailUntilThereIsSpace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, child(t, "starved", dir).Run())
	left, err := os.ReadDir(filepath.Join(dir, "blobs", "stage"))
	require.NoError(t, err)
	require.Empty(t, left, "a failed Stage leaves no files")
}

// starvedLeader appends records to a shared log until a limit on file sizes stops its own log file.
// It then raises the limit, and applies what the shared log has.
func starvedLeader(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	log := new(waltest.Log)
	db, err := store.Open(context.Background(), dir, store.Options{Shared: log})
	if err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	tight := before
	tight.Cur = 300 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &tight); err != nil {
		return err
	}
	acknowledged := 0
	write := func() error {
		return db.Update(context.Background(), func(tx *store.Tx) error {
			return documents.Put(tx, fmt.Sprintf("%06d", acknowledged), &document{0, strings.Repeat("x", 20000)})
		})
	}
	for err = write(); err == nil; err = write() {
		acknowledged++
	}
	var full *store.WriteError
	if !errors.As(err, &full) || !full.NoSpace() || !full.Unknown {
		return fmt.Errorf("want an unknown outcome because of a full disk, got %v", err)
	}
	<-db.Broken()
	if err := write(); !errors.Is(err, store.ErrBroken) {
		return fmt.Errorf("want ErrBroken, got %v", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	if db, err = store.Open(context.Background(), dir, store.Options{Follow: true}); err != nil {
		return err
	}
	if err := db.Apply(context.Background(), log.After(db.Sequence())); err != nil {
		return err
	}
	count := 0
	if err := db.View(func(tx *store.Tx) error {
		return documents.Each(tx, "", func(string, *document) error { count++; return nil })
	}); err != nil {
		return err
	}
	if count != acknowledged+1 || count != log.Len() || acknowledged == 0 {
		return fmt.Errorf("%d rows, %d acknowledged, %d records", count, acknowledged, log.Len())
	}
	return db.Close()
}

func TestFullDisk_leaderGetsItsRecordFromTheSharedLog(t *testing.T) {
	require.NoError(t, child(t, "starved leader", t.TempDir()).Run())
}

// unprivileged opens the database as a user without permissions and prints the error.
func unprivileged(dir string) error {
	if os.Getuid() == 0 {
		if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			return err
		}
	}
	_, err := store.Open(context.Background(), dir, store.Options{})
	var bad *store.DirError
	if !errors.As(err, &bad) {
		return fmt.Errorf("want *DirError, got %v", err)
	}
	fmt.Print(err)
	return nil
}

func TestOpen_unwritableDirectoryIsNamed(t *testing.T) {
	base := t.TempDir()
	for ; base != "/"; base = filepath.Dir(base) { // allow the other user to enter the directory
		if filepath.Dir(base) == os.TempDir() || base == os.TempDir() {
			break
		}
	}
	require.NoError(t, os.Chmod(base, 0o755))
	for name, mode := range map[string]os.FileMode{"read-only": 0o555, "closed": 0o000} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(base, name)
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, mode))
			out, err := child(t, "unprivileged", dir).Output()
			require.NoError(t, err)
			require.Contains(t, string(out), "the data directory "+dir+" may not be read and written by user ")
			require.NotContains(t, string(out), "\n")
		})
	}
}

// limited opens the database with less address space than its mapping needs, and prints the error.
func limited(dir string) error {
	usage, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(usage), &pages); err != nil {
		return err
	}
	limit := pages*uint64(os.Getpagesize()) + 1<<30
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	_, err = store.Open(context.Background(), dir, store.Options{})
	fmt.Print(err)
	return nil
}

func TestOpen_limitOfAddressSpaceIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	out, err := child(t, "limited", dir).Output()
	require.NoError(t, err)
	require.Equal(t, "the database in "+dir+" can't be mapped (cannot allocate memory): raise the limit of this "+
		"process's address space to 16 GiB or more (ulimit -v, or LimitAS= of systemd); the data is not damaged",
		string(out))
}
