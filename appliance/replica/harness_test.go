package replica_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/keyring"
	"landfall/appliance/replica"
	"landfall/store"
)

// Some tests kill a process. The test binary then starts itself with a role in this variable.
const roleVariable = "LANDFALL_REPLICA_TEST_ROLE"

// These variables name the URL of a second appliance for the killed process, and the directory with
// its credential and its authority.
const (
	secondVariable = "LANDFALL_REPLICA_TEST_SECOND"
	filesVariable  = "LANDFALL_REPLICA_TEST_FILES"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		os.Exit(m.Run())
	}
	if err := write(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type item struct {
	Serial int    `json:"serial"`
	Text   string `json:"text"`
}

var (
	items    = store.NewBucket[item]("items", 1)
	counters = store.NewBucket[item]("counters", 1)
	contents = store.NewFiles("contents")
	now      = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

const (
	writers   = 3
	keys      = 40
	fileEvery = 25
)

// state is what a writer has written.
type state map[string]int

// stateAfter returns the state of a writer after its updates up to serial.
func stateAfter(serial int) state {
	s := state{}
	for n := max(1, serial-2*keys); n <= serial; n++ {
		s[fmt.Sprint(n%keys)] = n
		if n%7 == 0 {
			delete(s, fmt.Sprint(n*3%keys))
		}
	}
	return s
}

// content is the content of the file of a writer after an update that wrote it.
func content(writer, serial int) string {
	return strings.Repeat(fmt.Sprintf("content of %d after %d. ", writer, serial), 3000)
}

// site is an open data directory.
type site struct {
	dir  string
	db   *store.DB
	keys *keyring.Keyring
}

func openSite(dir string, clock clockwork.Clock) (*site, error) {
	s := &site{dir: dir, keys: keyring.New(dir, keyring.Options{})}
	if err := os.MkdirAll(filepath.Join(dir, "audit"), 0o700); err != nil {
		return nil, err
	}
	var err error
	s.db, err = store.Open(context.Background(), dir, store.Options{Keys: s.keys.Open, NoSync: true, Clock: clock})
	return s, err
}

// update makes the next update of a writer.
func (s *site) update(ctx context.Context, writer, serial int) error {
	line := fmt.Sprintf("%d\n", serial)
	path := filepath.Join(s.dir, "audit", fmt.Sprint(writer))
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	var staged *store.Staged
	if serial%fileEvery == 0 {
		if staged, err = s.db.Stage(ctx, strings.NewReader(content(writer, serial))); err != nil {
			return err
		}
	}
	return s.db.Update(ctx, func(tx *store.Tx) error {
		key := func(n int) string { return fmt.Sprintf("%d/%d", writer, n%keys) }
		if err := items.Put(tx, key(serial), &item{serial, strings.Repeat("x", 300)}); err != nil {
			return err
		}
		if serial%7 == 0 {
			if err := items.Delete(tx, key(serial*3)); err != nil {
				return err
			}
		}
		if staged != nil {
			if err := contents.Put(tx, fmt.Sprint(writer), staged, now); err != nil {
				return err
			}
		}
		return counters.Put(tx, fmt.Sprint(writer), &item{Serial: serial})
	})
}

// serials returns the newest update of each writer.
func (s *site) serials() (all [writers]int, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		for w := range writers {
			counter, err := counters.Get(tx, fmt.Sprint(w))
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			all[w] = counter.Serial
		}
		return nil
	})
	return all, err
}

// check requires that the site has exactly the state after the updates in serials.
func (s *site) check(t *testing.T) (serials [writers]int) {
	t.Helper()
	require.Empty(t, s.db.Damage())
	serials, err := s.serials()
	require.NoError(t, err)
	for w, serial := range serials {
		got := state{}
		require.NoError(t, s.db.View(func(tx *store.Tx) error {
			return items.Each(tx, fmt.Sprint(w)+"/", func(key string, i *item) error {
				got[strings.TrimPrefix(key, fmt.Sprint(w)+"/")] = i.Serial
				return nil
			})
		}))
		require.Equal(t, stateAfter(serial), got, "writer %d after %d", w, serial)
		if written := serial / fileEvery * fileEvery; written > 0 {
			require.Equal(t, content(w, written), s.file(t, w))
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "audit", fmt.Sprint(w)))
		if serial > 0 {
			require.NoError(t, err)
			require.GreaterOrEqual(t, strings.Count(string(text), "\n"), serial, "lines of writer %d", w)
		}
	}
	return serials
}

// replicaOf returns the options of a replica that is fast enough for tests.
func (s *site) replicaOf(target replica.Target, clock clockwork.Clock) replica.Options {
	return replica.Options{DB: s.db, Dir: s.dir, Name: "https://first.example.com", Program: "test", Keys: s.keys,
		Settings: replica.Settings{Target: target, Keep: time.Hour, SnapshotInterval: 300 * time.Millisecond},
		Clock:    clock, Logger: slog.New(slog.DiscardHandler), Interval: 20 * time.Millisecond,
		Retry: 20 * time.Millisecond}
}

// restored restores a replica as of a time and opens the result. seal.key comes from the first
// machine.
func restored(t *testing.T, dir string, at time.Time, from string) (*site, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	_, err := replica.Reader{Directory: replica.Directory{Path: dir}}.Restore(t.Context(), at,
		backup.Target{Dir: to, Now: time.Now})
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(from, keyring.DefaultKeyFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, keyring.DefaultKeyFile), key, 0o600))
	s, err := openSite(to, clockwork.NewRealClock())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	return s, nil
}

// write runs the updates of a site with a replica until it is killed. It prints each update before
// and after it, and the times up to which the replica has all changes.
func write(dir string) error {
	ctx := context.Background()
	clock := clockwork.NewRealClock()
	s, err := openSite(filepath.Join(dir, "data"), clock)
	if err != nil {
		return err
	}
	var target replica.Target = replica.Directory{Path: filepath.Join(dir, "replica")}
	if url := os.Getenv(secondVariable); url != "" {
		files := os.Getenv(filesVariable)
		target = replica.Remote{URL: url, TokenFile: filepath.Join(files, "token"),
			CAFile: filepath.Join(files, "ca.crt")}
	}
	service, err := replica.New(ctx, s.replicaOf(target, clock))
	if err != nil {
		return err
	}
	serials, err := s.serials()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	var out sync.Mutex
	say := func(kind string, writer, serial int, at time.Time) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf("%s %d %d %d\n", kind, writer, serial, at.UnixNano())
	}
	failed := make(chan error, writers+1)
	running.Go(func() { failed <- service.Run(ctx) })
	for w := range writers {
		running.Go(func() {
			for serial := serials[w] + 1; ; serial++ {
				say("begun", w, serial, time.Now())
				if err := s.update(ctx, w, serial); err != nil {
					failed <- err
					return
				}
				say("done", w, serial, time.Now())
				if state := service.State(); state.Ready {
					say("shipped", 0, 0, state.Shipped)
				}
				<-clock.After(time.Millisecond)
			}
		})
	}
	err = <-failed
	running.Wait()
	return err
}

// moment is a line of write.
type moment struct {
	kind           string
	writer, serial int
	at             time.Time
}

func readMoments(t *testing.T, from *bufio.Scanner, each func()) (all []moment) {
	t.Helper()
	for from.Scan() {
		var m moment
		var nano int64
		_, err := fmt.Sscanf(from.Text(), "%s %d %d %d", &m.kind, &m.writer, &m.serial, &nano)
		if err != nil {
			continue // the last line of a killed process is incomplete
		}
		m.at = time.Unix(0, nano)
		all = append(all, m)
		each()
	}
	return all
}

// file returns the content of the file of a writer.
func (s *site) file(t *testing.T, writer int) string {
	t.Helper()
	file, _, err := contents.Open(s.db, fmt.Sprint(writer))
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, errors.Join(err, file.Close()))
	return string(text)
}

// running is a site with a replica, in this process.
type running struct {
	*site
	t       *testing.T
	service *replica.Service
	stop    func()
	serial  int
}

// run opens a site and keeps its replica in a target until the test or stop ends it.
func run(t *testing.T, dir string, change func(*replica.Options)) *running {
	t.Helper()
	s, err := openSite(dir, clockwork.NewRealClock())
	require.NoError(t, err)
	options := s.replicaOf(replica.Directory{}, clockwork.NewRealClock())
	change(&options)
	service, err := replica.New(t.Context(), options)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	serials, err := s.serials()
	require.NoError(t, err)
	r := &running{site: s, t: t, service: service, serial: serials[0]}
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, errors.Join(<-ended, service.Close(), s.db.Close()))
	})
	t.Cleanup(r.stop)
	return r
}

// to selects a directory for the replica.
func to(dir string) func(*replica.Options) {
	return func(o *replica.Options) { o.Settings.Target = replica.Directory{Path: dir} }
}

// updates makes updates of the first writer.
func (r *running) updates(count int) {
	r.t.Helper()
	for range count {
		r.serial++
		require.NoError(r.t, r.update(r.t.Context(), 0, r.serial))
	}
}

// shipped waits until the replica has all changes.
func (r *running) shipped() {
	r.t.Helper()
	now := time.Now()
	require.Eventually(r.t, func() bool { return r.service.State().Shipped.After(now) }, time.Minute, time.Millisecond,
		"%+v", r.service.State())
}

// rounds waits until the replica has all changes, for a clock that is wrong.
func (r *running) rounds() {
	r.t.Helper()
	for range 2 { // the first one may have begun before
		before := r.service.State().Shipped
		require.Eventually(r.t, func() bool { return !r.service.State().Shipped.Equal(before) }, time.Minute,
			time.Millisecond)
	}
}
