package replica_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/replica"
)

var (
	kills = flag.Int("kills", 30, "number of random kills of an appliance with a replica")
	seed  = flag.Uint64("seed", 1, "seed of the random kills")
)

// life is one run of a process. The replica has all its states from the time from to the time
// shipped; begun is the time at which the process opened the replica.
type life struct{ begun, from, shipped time.Time }

// TestReplica_randomKills kills an appliance at random moments, and takes the directory of the
// replica away and brings it back at others. After each kill it restores the newest state, and
// those of random times, and compares them with what the appliance had acknowledged.
func TestReplica_randomKills(t *testing.T) {
	const killsOfSite = 10
	for n := 0; n < *kills; n += killsOfSite {
		t.Run(fmt.Sprintf("site %d", n/killsOfSite), func(t *testing.T) {
			t.Parallel() // most of the time passes in waiting for the disk
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "replica"), 0o700))
			w := &walk{t: t, random: rand.New(rand.NewPCG(*seed, uint64(n))), dir: dir}
			for range min(killsOfSite, *kills-n) {
				w.live()
				w.checkNewest()
				w.checkRandomTimes(2)
			}
			found, err := replica.Reader{Directory: replica.Directory{Path: w.replica()}}.Verify(t.Context())
			require.NoError(t, err)
			require.Empty(t, found.Damage)
		})
	}
}

type walk struct {
	t       *testing.T
	random  *rand.Rand
	dir     string
	moments []moment
	lives   []life
	second  *second // nil: the replica is written into its directory
}

func (w *walk) replica() string { return filepath.Join(w.dir, "replica") }

// live runs the process and kills it.
func (w *walk) live() {
	cmd := exec.CommandContext(w.t.Context(), os.Args[0], w.dir)
	cmd.Env = append(os.Environ(), roleVariable+"=writer")
	if w.second != nil {
		cmd.Env = append(cmd.Env, secondVariable+"="+w.second.server.URL, filesVariable+"="+w.second.files)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	length := time.Duration(50+w.random.IntN(250)) * time.Millisecond
	away := w.random.IntN(3) == 0
	begun, killed := false, make(chan struct{})
	all := readMoments(w.t, bufio.NewScanner(out), func() {
		if begun {
			return
		}
		begun = true
		go func() {
			defer close(killed)
			if away {
				<-time.After(length / 3)
				gone := w.replica() + ".away"
				err := os.Rename(w.replica(), gone)
				<-time.After(length / 3)
				err = errors.Join(err, os.Rename(gone, w.replica()))
				if err != nil {
					w.t.Error(err)
				}
				length /= 3
			}
			<-time.After(length)
			if err := cmd.Process.Kill(); err != nil {
				w.t.Error(err)
			}
		}()
	})
	require.True(w.t, begun, "the process has begun")
	<-killed
	require.Error(w.t, cmd.Wait(), "it was killed")
	w.moments = append(w.moments, all...)
	one := life{}
	for _, m := range all {
		if m.kind != "shipped" {
			continue
		}
		if one.begun.IsZero() {
			one.begun = m.at
		}
		if one.from.IsZero() && m.at.After(one.begun) {
			one.from = m.at
		}
		if m.at.After(one.shipped) {
			one.shipped = m.at
		}
	}
	if !one.from.IsZero() {
		w.lives = append(w.lives, one)
	}
}

// limits returns the oldest and the newest update of each writer that a state of a time may have.
func (w *walk) limits(at time.Time) (least, most [writers]int) {
	known := time.Time{}
	for _, one := range w.lives {
		switch {
		case at.After(one.shipped):
			known = one.shipped
		case at.After(one.from):
			known = at
		}
	}
	for _, m := range w.moments {
		if m.kind == "begun" && !m.at.After(at) {
			most[m.writer] = max(most[m.writer], m.serial)
		}
		if m.kind == "done" && !m.at.After(known) {
			least[m.writer] = max(least[m.writer], m.serial)
		}
	}
	return least, most
}

func (w *walk) checkAt(at, limit time.Time) {
	s, err := restored(w.t, w.replica(), at, filepath.Join(w.dir, "data"))
	if _, ok := errors.AsType[*replica.NoStateError](err); ok {
		least, _ := w.limits(limit)
		require.Zero(w.t, least, "the replica has no state, but said that it had these updates")
		return
	}
	if len(w.lives) == 0 && errors.Is(err, fs.ErrNotExist) {
		return
	}
	require.NoError(w.t, err, at)
	serials := s.check(w.t)
	least, most := w.limits(limit)
	for i, serial := range serials {
		require.LessOrEqual(w.t, least[i], serial, "writer %d at %s", i, at)
		require.LessOrEqual(w.t, serial, most[i], "writer %d at %s", i, at)
	}
}

func (w *walk) checkNewest() { w.checkAt(time.Time{}, time.Now()) }

func (w *walk) checkRandomTimes(count int) {
	for range count {
		first, last := w.moments[0].at, w.moments[len(w.moments)-1].at
		span := max(0, last.Sub(first)) // a time up to which changes were shipped can be before the first line
		at := first.Add(time.Duration(w.random.Int64N(int64(span) + 1)))
		w.checkAt(at, at)
	}
}
