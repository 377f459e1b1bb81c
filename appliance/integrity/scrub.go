package integrity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/durable"
	"landfall/appliance/engine/record"
	"landfall/store"
)

const (
	// ScrubFile is the file with the last scrub, in the data directory.
	ScrubFile = "scrub.json"
	// scrubLook is the time between two looks whether a scrub is due, and whether a scrub that
	// waits for installations may go on.
	scrubLook = 5 * time.Minute
	// scrubRest is the pause before each content of a file, so that a scrub leaves the disk to
	// others.
	scrubRest = 50 * time.Millisecond
)

// Scrub is the result of the last complete reading of all data.
type Scrub struct {
	Ended    time.Time     `json:"ended"`
	Took     time.Duration `json:"took"`
	Rows     uint64        `json:"rows"`
	Files    int           `json:"files"`
	Problems int           `json:"problems"`
}

// Scrubber reads all data of a running appliance from time to time, so that damage of what nobody
// reads is noticed while a backup without it still exists. It waits while hosts install, but at
// most an interval: an installation may wait for a person who never comes.
type Scrubber struct {
	DB       *store.DB
	Dir      string        // the data directory
	Interval time.Duration // between two scrubs; 0: none
	Clock    clockwork.Clock
	Logger   *slog.Logger

	paused func(time.Duration) error // replaces pauses in tests; nil: the clock
}

// Run scrubs until the context ends. The time of the last scrub is kept over restarts.
func (s *Scrubber) Run(ctx context.Context) error {
	if s.Interval <= 0 {
		return nil
	}
	ticker := s.Clock.NewTicker(scrubLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.Chan():
		}
		if err := s.scrub(ctx); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "The stored data could not be read completely. The reading is repeated.", "error",
				err)
		}
	}
}

// scrub reads everything if that is due and nothing is installed.
func (s *Scrubber) scrub(ctx context.Context) error {
	last, err := s.Last()
	if err != nil {
		return err
	}
	now := s.Clock.Now()
	if last.Ended.IsZero() { // the start has read the database
		return s.save(Scrub{Ended: now.UTC()})
	}
	if last.Ended.After(now) || last.Ended.Equal(lost) { // the clock was wrong, or the file is damaged
		last.Ended = now.Add(-s.Interval).UTC()
		if err := s.save(last); err != nil {
			return err
		}
	}
	if now.Sub(last.Ended) < s.Interval {
		return nil
	}
	latest := last.Ended.Add(2 * s.Interval)
	if wait, err := s.mustWait(latest); err != nil || wait {
		return err
	}
	report, err := s.DB.CheckSlowly(ctx, func(ctx context.Context) error { return s.rest(ctx, latest) })
	if err != nil {
		return err
	}
	s.note(report)
	result := Scrub{Ended: s.Clock.Now().UTC(), Took: s.Clock.Since(now), Rows: report.Rows, Files: report.Files,
		Problems: len(report.Problems)}
	s.Logger.InfoContext(ctx, "All stored data was read.", "rows", result.Rows, "files", result.Files, "problems",
		result.Problems, "took", result.Took)
	return s.save(result)
}

// note notes the problems that are not known yet, so that they are shown like other damage. A
// member replaces its database because of them, so it leaves out a problem that may pass.
func (s *Scrubber) note(report *store.Report) {
	known := s.DB.Damage()
	for _, problem := range report.Problems {
		if problem.MayPass() {
			s.Logger.Warn("A content could not be read. The next reading of all data tries again.", "key",
				problem.Where, "reason", problem.Reason)
			continue
		}
		if !slices.ContainsFunc(known, func(d store.Damage) bool { return d.Key == problem.Where }) {
			s.DB.NoteDamage(problem.Where, problem.Reason)
		}
	}
}

// rest returns when the scrub may go on.
func (s *Scrubber) rest(ctx context.Context, latest time.Time) error {
	wait := scrubRest
	for {
		if err := s.pause(ctx, wait); err != nil {
			return err
		}
		if mustWait, err := s.mustWait(latest); err != nil || !mustWait {
			return err
		}
		wait = scrubLook
	}
}

func (s *Scrubber) pause(ctx context.Context, wait time.Duration) error {
	if s.paused != nil {
		return s.paused(wait)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.Clock.After(wait):
		return nil
	}
}

// mustWait reports whether something is being installed. From the latest time on, nothing waits for
// that.
func (s *Scrubber) mustWait(latest time.Time) (bool, error) {
	if !s.Clock.Now().Before(latest) {
		return false, nil
	}
	return s.installing()
}

// installing reports whether a host or a cluster is being installed.
func (s *Scrubber) installing() (busy bool, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		if err := record.Clusters.Each(tx, "", func(_ string, c *record.Cluster) error {
			switch status(c.API.Status) {
			case models.ClusterStatusPreparingForInstallation, models.ClusterStatusInstalling,
				models.ClusterStatusInstallingPendingUserAction, models.ClusterStatusFinalizing:
				busy = true
				return store.ErrStop
			}
			return nil
		}); err != nil || busy {
			return err
		}
		return record.Hosts.Each(tx, "", func(_ string, h *record.Host) error {
			switch status(h.API.Status) {
			case models.HostStatusPreparingForInstallation, models.HostStatusInstalling,
				models.HostStatusInstallingInProgress:
				busy = true
				return store.ErrStop
			}
			return nil
		})
	})
	return busy, err
}

func status(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// lost is the time of a scrub whose time is not known.
var lost = time.Unix(0, 0)

// Last returns the last scrub, or the zero value.
func (s *Scrubber) Last() (last Scrub, err error) {
	path := filepath.Join(s.Dir, ScrubFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Scrub{}, nil
	}
	if err != nil {
		return Scrub{}, err
	}
	if err := json.Unmarshal(text, &last); err != nil {
		s.Logger.Warn("The time of the last reading of all data is lost; the data is read again.", "path", path,
			"error", err)
		return Scrub{Ended: lost}, nil
	}
	return last, nil
}

func (s *Scrubber) save(last Scrub) error {
	text, err := json.Marshal(last)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(s.Dir, ScrubFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("note the last reading of all data: %w", err)
	}
	return nil
}
