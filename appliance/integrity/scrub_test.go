package integrity_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/record"
	"landfall/appliance/integrity"
	"landfall/appliance/keyring"
	"landfall/store"
)

const (
	week = 7 * 24 * time.Hour
	look = 5 * time.Minute       // the interval of the scrubber's looks
	rest = 50 * time.Millisecond // its pause before each file
)

// scrubbed is a data directory with a scrubber.
type scrubbed struct {
	t     *testing.T
	dir   string
	db    *store.DB
	clock *clockwork.FakeClock
	run   *integrity.Scrubber

	pauses []time.Duration
	paused func() // called in each pause
}

func newScrubbed(t *testing.T) *scrubbed {
	t.Helper()
	s := &scrubbed{t: t, dir: t.TempDir(), clock: clockwork.NewFakeClock()}
	keys := keyring.New(s.dir, keyring.Options{})
	var err error
	s.db, err = store.Open(t.Context(), s.dir, store.Options{Keys: keys.Open, NoSync: true, Clock: s.clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	for n := range 3 {
		staged, err := s.db.Stage(t.Context(), strings.NewReader(strings.Repeat(fmt.Sprint(n), 100_000)))
		require.NoError(t, err)
		require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
			return record.InstallerFiles.Put(tx, fmt.Sprintf("cluster/%d", n), staged, s.clock.Now())
		}))
	}
	s.run = &integrity.Scrubber{DB: s.db, Dir: s.dir, Interval: week, Clock: s.clock,
		Logger: slog.New(slog.DiscardHandler)}
	s.run.SetPause(func(wait time.Duration) error {
		s.pauses = append(s.pauses, wait)
		if s.paused != nil {
			s.paused()
		}
		return nil
	})
	return s
}

// look moves the clock, and looks whether a scrub is due.
func (s *scrubbed) look(after time.Duration) {
	s.t.Helper()
	s.clock.Advance(after)
	require.NoError(s.t, s.run.Once(s.t.Context()))
}

func (s *scrubbed) last() integrity.Scrub {
	s.t.Helper()
	last, err := s.run.Last()
	require.NoError(s.t, err)
	return last
}

func (s *scrubbed) damageFile() string {
	s.t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.dir, "blobs", "*", "*"))
	require.NoError(s.t, err)
	if len(paths) == 0 {
		paths, err = filepath.Glob(filepath.Join(s.dir, "blobs", "*"))
		require.NoError(s.t, err)
	}
	require.NotEmpty(s.t, paths)
	content, err := os.ReadFile(paths[0])
	require.NoError(s.t, err)
	content[len(content)/2] ^= 1
	require.NoError(s.t, os.WriteFile(paths[0], content, 0o600))
	return paths[0]
}

func (s *scrubbed) setStatus(status string) {
	s.t.Helper()
	require.NoError(s.t, s.db.Update(s.t.Context(), func(tx *store.Tx) error {
		cluster := new(record.Cluster)
		cluster.API.Status = &status
		return record.Clusters.Put(tx, "cluster", cluster)
	}))
}

func TestScrub_findsDamageThatNobodyReads(t *testing.T) {
	s := newScrubbed(t)
	s.look(0) // the start has read everything
	s.damageFile()
	first := s.last().Ended
	require.Equal(t, s.clock.Now().UTC(), first)
	s.look(week - time.Second)
	require.Equal(t, first, s.last().Ended, "it is not due")
	require.Empty(t, s.db.Damage())
	s.look(time.Second)
	require.Equal(t, 3, s.last().Files)
	require.Equal(t, 1, s.last().Problems)
	require.Equal(t, []time.Duration{rest, rest, rest}, s.pauses, "a pause before each file")
	damage := s.db.Damage()
	require.Len(t, damage, 1)
	require.Contains(t, damage[0].Key, "cluster/")
	require.Contains(t, damage[0].Reason, "its content can't be read")
	require.Contains(t, integrity.New(s.db, nil, slog.New(slog.DiscardHandler)).Finding().Result, damage[0].Key)

	s.look(week) // what is known is noted once
	require.Equal(t, damage, s.db.Damage())
}

func TestScrub_doesNotNoteWhatMayPass(t *testing.T) {
	s := newScrubbed(t)
	s.look(0)
	path := s.damageFile()
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(path, path)) // the error is ELOOP, like EMFILE not one of the content
	s.look(week)
	require.Equal(t, 1, s.last().Problems)
	require.Empty(t, s.db.Damage())
	require.NoError(t, os.Remove(path))
	s.look(week)
	require.Len(t, s.db.Damage(), 1)
	require.Contains(t, s.db.Damage()[0].Reason, "is missing")
}

func TestScrub_waitsForInstallations(t *testing.T) {
	s := newScrubbed(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, integrity.ScrubFile), []byte("damaged"), 0o600))
	s.damageFile()
	for _, status := range []string{models.ClusterStatusPreparingForInstallation, models.ClusterStatusInstalling,
		models.ClusterStatusInstallingPendingUserAction, models.ClusterStatusFinalizing} {
		s.setStatus(status)
		s.look(look)
		require.Empty(t, s.pauses, "it began in the status %s", status)
	}
	s.setStatus(models.ClusterStatusInstalled)
	s.paused = func() { // an installation begins before the first file, and ends after two looks
		switch len(s.pauses) {
		case 1:
			s.setStatus(models.ClusterStatusInstalling)
		case 3:
			s.setStatus(models.ClusterStatusInstalled)
		}
	}
	s.look(look)
	require.Equal(t, []time.Duration{rest, look, look, rest, rest}, s.pauses)
	require.Len(t, s.db.Damage(), 1)
}

// Nobody acts in an installation that waits for a person.
func TestScrub_waitsAnIntervalAtMost(t *testing.T) {
	s := newScrubbed(t)
	s.look(0)
	first := s.last().Ended
	s.setStatus(models.ClusterStatusInstallingPendingUserAction)
	s.look(week)
	s.look(week - time.Second)
	require.Equal(t, first, s.last().Ended)
	s.look(time.Second)
	require.Equal(t, s.clock.Now().UTC(), s.last().Ended)
	require.Equal(t, []time.Duration{rest, rest, rest}, s.pauses)

	// The time of the last scrub is lost.
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, integrity.ScrubFile), []byte("damaged"), 0o600))
	s.look(look)
	s.look(week - look)
	require.Len(t, s.pauses, 3)
	s.look(look)
	require.Len(t, s.pauses, 6)
}

func TestScrub_endsWithItsContext(t *testing.T) {
	s := newScrubbed(t)
	s.run.Interval = 0
	require.NoError(t, s.run.Run(t.Context()), "without an interval")
	require.Zero(t, s.last())
	s.run.Interval = week
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.run.Run(ctx))
}
