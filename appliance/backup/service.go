package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/keyring"
	"landfall/store"
)

// Schedule says where and when an appliance backs itself up.
type Schedule struct {
	// Dir is an existing directory. It may be on a medium that is not always there. "": no backups.
	Dir       string
	Interval  time.Duration
	Keep      int    // number of backups that stay; 0: all
	Recipient string // public key of age; "": the backups are not encrypted
}

const (
	lookInterval = time.Minute // between two looks for the directory
	// fullPause is the time between two attempts to write to a full medium. Each one writes all
	// that there is room for.
	fullPause = 15 * time.Minute
)

// Service writes scheduled backups.
type Service struct {
	source *Source
	Options

	missing time.Time // the first of the last looks for the directory that all failed; zero if it is there
	full    time.Time // the last attempt, if the medium was full

	mu      sync.Mutex
	last    time.Time // of the last backup
	failure error     // of the last attempt
	kept    error     // why old backups could not be removed at the last attempt
}

// Options configures NewService.
type Options struct {
	DB       *store.DB
	Dir      string // the data directory
	Program  string // version of the program
	Keys     *keyring.Keyring
	Schedule Schedule
	// Hold stops what must wait for a person, at the first start of a restored data directory.
	Hold   func(context.Context) error
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// NewService returns the backups of an appliance. If its data directory was restored, NewService
// first calls Hold.
func NewService(ctx context.Context, options Options) (*Service, error) {
	s := &Service{Options: options, source: &Source{
		DB: options.DB, Dir: options.Dir, Program: options.Program, Now: options.Clock.Now,
		SealedWith: string(options.Keys.With()), DataKey: options.Keys.Content,
		ExportKeys: options.Keys.Export,
	}}
	if _, err := s.recipients(); err != nil {
		return nil, err
	}
	return s, AfterRestore(options.Dir, func(restored Marker) error {
		options.Logger.WarnContext(ctx, "The data directory was restored from a backup. AMS is compared with it; what "+
			"differs waits for a person.", "backup", restored.Backup, "restored", restored.Restored)
		return options.Hold(ctx)
	})
}

func (s *Service) recipients() ([]age.Recipient, error) {
	if s.Schedule.Recipient == "" {
		return nil, nil
	}
	recipient, err := age.ParseX25519Recipient(s.Schedule.Recipient)
	if err != nil {
		return nil, fmt.Errorf("backup.recipient %q is no public key of age; expected one that begins with age1",
			s.Schedule.Recipient)
	}
	return []age.Recipient{recipient}, nil
}

// Write writes a backup as a stream; see [Source.Write].
func (s *Service) Write(ctx context.Context, to io.Writer, withKey bool) error {
	return s.source.Write(ctx, to, withKey)
}

// Run writes scheduled backups until the context ends. A backup that is due waits until the
// directory exists.
func (s *Service) Run(ctx context.Context) error {
	if s.Schedule.Dir == "" {
		return nil
	}
	ticker := s.Clock.NewTicker(lookInterval)
	defer ticker.Stop()
	logged := ""
	for {
		text := ""
		if err := s.backUp(ctx); err != nil {
			text = err.Error()
		}
		if text != "" && text != logged && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "The scheduled backup failed; it is repeated.", "directory", s.Schedule.Dir,
				"error", text)
		}
		logged = text
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.Chan():
		}
	}
}

// backUp writes a backup if one is due.
func (s *Service) backUp(ctx context.Context) (err error) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = err
	}()
	if info, err := os.Stat(s.Schedule.Dir); err != nil || !info.IsDir() {
		return s.waitForMedium()
	}
	s.missing = time.Time{}
	recipients, err := s.recipients()
	if err != nil {
		return err
	}
	repository := &Repository{Dir: s.Schedule.Dir, Recipients: recipients}
	now := s.Clock.Now()
	last, err := repository.newest(now)
	if err != nil {
		return err
	}
	isDue := last.IsZero() || now.Sub(last) >= s.Schedule.Interval
	isPaused := now.Sub(s.full) < fullPause
	if s.kept != nil || isDue && !isPaused { // there may be no space for a backup otherwise
		s.prune(ctx, repository)
	}
	switch {
	case !isDue:
		s.note(last)
		return nil
	case isPaused:
		return s.failed()
	}
	received, err := s.receive(ctx, repository)
	s.full = time.Time{}
	if medium, ok := errors.AsType[*MediumError](err); ok && medium.Full() {
		s.full = now
	}
	if err != nil {
		return err
	}
	s.note(received.Time)
	s.Logger.InfoContext(ctx, "The appliance was backed up, and the backup was read back.", "directory", s.Schedule.Dir,
		"backup", received.Name, "new_bytes", received.Added)
	s.prune(ctx, repository)
	return nil
}

// waitForMedium returns an error if the directory has been missing for an interval. Before, its
// medium may just not be there.
func (s *Service) waitForMedium() error {
	now := s.Clock.Now()
	if s.missing.IsZero() {
		s.missing = now
	}
	if now.Sub(s.missing) < s.Schedule.Interval {
		return nil
	}
	return fmt.Errorf("the directory %s has been missing since %s, so no backup was written; insert or mount its "+
		"medium, or correct backup.directory", s.Schedule.Dir, s.missing.UTC().Format(time.RFC3339))
}

// prune removes old backups. A failure is shown until a removal succeeds. It may pass soon: another
// process may have had the lock.
func (s *Service) prune(ctx context.Context, repository *Repository) {
	_, err := repository.Prune(s.Schedule.Keep, s.Clock.Now())
	if err != nil {
		err = fmt.Errorf("remove old backups: %w", err)
	}
	if err != nil && (s.kept == nil || s.kept.Error() != err.Error()) {
		s.Logger.WarnContext(ctx, "Old backups could not be removed; it is tried again each minute.", "directory",
			s.Schedule.Dir, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = err
}

func (s *Service) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *Service) note(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = at
}

func (s *Service) receive(ctx context.Context, repository *Repository) (*Received, error) {
	return Pipe(func(to *io.PipeWriter) error { return s.source.Write(ctx, to, len(repository.Recipients) > 0) },
		repository.Receive)
}
