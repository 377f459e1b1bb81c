package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/backup"
	"landfall/appliance/keyring"
	"landfall/store"
	"landfall/store/wal"
)

const (
	shipInterval  = 500 * time.Millisecond
	retryInterval = 5 * time.Second
	// patience is the time that the start and an orderly stop wait for a replica that does not
	// respond.
	patience = 10 * time.Second
	// behindAfter is the lag from which a person is needed.
	behindAfter = time.Minute
)

// Settings says where the replica is and what stays in it.
type Settings struct {
	Target           Target // nil: none
	Keep             time.Duration
	Bytes            int64 // 0: no limit
	SnapshotInterval time.Duration
	Recipient        string // public key of age; "": the replica is not encrypted
}

// Options configures New.
type Options struct {
	Settings Settings
	DB       *store.DB
	Dir      string // the data directory
	Name     string // URL of the appliance, for people
	Program  string // version of the program
	Keys     *keyring.Keyring
	Clock    clockwork.Clock
	Logger   *slog.Logger
	// Interval is the time between two frames, Retry the time after which a replica that failed is
	// opened again. 0: half a second, five seconds.
	Interval, Retry time.Duration
}

// State is the state of a replica.
type State struct {
	Place      string `json:"place"`
	Generation uint64 `json:"generation"`
	// Ready reports that the first snapshot of the generation is complete.
	Ready bool `json:"ready"`
	// Shipped is a time up to which the replica has all changes.
	Shipped time.Time `json:"shipped"`
	Lag     float64   `json:"lag_seconds"`
	// Behind reports that the lag needs a person.
	Behind  bool   `json:"behind"`
	Failure string `json:"failure,omitempty"`
	// PruneFailure says why old states could not be removed.
	PruneFailure string `json:"prune_failure,omitempty"`
	Written      int64  `json:"written_bytes"` // frames since the start
	Usage        Usage  `json:"usage"`
}

// Service keeps the replica of an appliance. A nil Service has none.
type Service struct {
	Options
	source     *backup.Source
	recipients []age.Recipient
	owner      Owner

	// opening gets the session of a Target.Open that has not returned; nil: none. New uses it, and
	// then Run.
	opening chan opening

	mu      sync.Mutex
	state   State
	failure error
	opened  *generation // by New, for Run; nil if that failed
	current *generation // that Close completes
	hangs   bool        // the place of the replica does not respond, and current is in use
}

// opening is the result of Target.Open.
type opening struct {
	session Session
	err     error
}

// New returns the replica of an appliance, or nil if the settings have none. Its error is
// *FencedError if another appliance owns the replica. A replica that can't be reached, or does not
// respond for patience, is no error: Run then opens it.
func New(ctx context.Context, options Options) (*Service, error) {
	if options.Settings.Target == nil {
		return nil, nil
	}
	s := &Service{Options: options, source: &backup.Source{
		DB: options.DB, Dir: options.Dir, Program: options.Program, Now: options.Clock.Now,
		SealedWith: string(options.Keys.With()), DataKey: options.Keys.Content, ExportKeys: options.Keys.Export,
	}}
	if options.Settings.Recipient != "" {
		recipient, err := age.ParseX25519Recipient(options.Settings.Recipient)
		if err != nil {
			return nil, fmt.Errorf("replica.recipient %q is no public key of age; expected one that begins with age1",
				options.Settings.Recipient)
		}
		s.recipients = []age.Recipient{recipient}
	}
	left, err := fs.Glob(os.DirFS(options.Dir), spoolPattern) // of a killed process
	if err != nil {
		return nil, err
	}
	for _, name := range left {
		if err := os.Remove(filepath.Join(options.Dir, name)); err != nil {
			return nil, err
		}
	}
	id, err := ID(options.Dir)
	if err != nil {
		return nil, err
	}
	now := options.Clock.Now().UTC()
	s.owner = Owner{ID: id, Name: options.Name, Since: now.Truncate(time.Second)}
	s.state = State{Place: options.Settings.Target.String(), Shipped: now}
	s.Interval, s.Retry = cmp.Or(s.Interval, shipInterval), cmp.Or(s.Retry, retryInterval)
	if s.opened, err = s.open(ctx); err != nil {
		if _, fenced := errors.AsType[*FencedError](err); fenced {
			return nil, err
		}
		s.fail(ctx, err)
	}
	return s, nil
}

// Run keeps the replica until the context ends. Its error is *FencedError if another appliance took
// over; this one must not serve any more.
func (s *Service) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	first := s.opened
	s.current, s.opened = first, nil // Close completes it, even if the context has ended already
	s.mu.Unlock()
	for ctx.Err() == nil {
		g := first
		first = nil
		err := s.await(ctx, func() error { return s.keep(ctx, g) })
		if ctx.Err() != nil {
			break
		}
		if _, fenced := errors.AsType[*FencedError](err); fenced {
			s.fail(ctx, err)
			return err
		}
		s.fail(ctx, err)
		select {
		case <-ctx.Done():
		case <-s.Clock.After(s.Retry):
		}
	}
	return nil
}

// await waits for fn. After the end of the context, it does not wait long for a disk that hangs.
func (s *Service) await(ctx context.Context, fn func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- fn() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-s.Clock.After(patience):
		s.mu.Lock()
		s.hangs = true
		s.mu.Unlock()
		return &AwayError{s.Settings.Target.String(), errors.New("it does not respond")}
	}
}

// open begins a generation. It does not wait long for a disk that hangs: the next call waits for
// the same Target.Open. Nobody can end that one, and its session needs no end.
func (s *Service) open(ctx context.Context) (*generation, error) {
	if s.opening == nil {
		ended := make(chan opening, 1)
		s.opening = ended
		go func() {
			session, err := s.Settings.Target.Open(ctx, s.owner)
			ended <- opening{session, err}
		}()
	}
	limit := s.Clock.NewTimer(patience)
	defer limit.Stop()
	var opened opening
	select {
	case opened = <-s.opening:
		s.opening = nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-limit.Chan():
		return nil, &AwayError{s.Settings.Target.String(), errors.New("it does not respond")}
	}
	if opened.err != nil {
		return nil, opened.err
	}
	session := opened.session
	g, err := s.begin(session)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Generation, s.state.Ready = session.Generation(), false
	return g, nil
}

// keep ships a generation, until it fails or the context ends. It begins one if g is nil.
func (s *Service) keep(ctx context.Context, g *generation) (err error) {
	if g == nil {
		if g, err = s.open(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.current = g
	s.mu.Unlock()
	for {
		group, within := errgroup.WithContext(ctx)
		group.Go(func() error { return g.snapshots(within) })
		group.Go(func() error { return g.ship(within) })
		group.Go(func() error { return g.beats(within) })
		err = group.Wait()
		if ctx.Err() != nil {
			break
		}
		if err = s.resume(ctx, g, err); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return err // Close completes it
	}
	s.mu.Lock()
	s.current = nil
	s.mu.Unlock()
	return errors.Join(err, g.close())
}

// resume continues a generation that failed, as soon as the place of the replica is there again. It
// returns an error if a new generation must follow.
func (s *Service) resume(ctx context.Context, g *generation, failure error) error {
	for {
		_, fenced := errors.AsType[*FencedError](failure)
		if fenced || errors.Is(failure, wal.ErrBehind) || errors.Is(failure, ErrNotContinued) ||
			errors.Is(failure, errLostObject) {
			return failure
		}
		s.fail(ctx, failure)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Clock.After(s.Retry):
		}
		if g.follower.Behind() {
			return wal.ErrBehind
		}
		if failure = g.resume(ctx); failure == nil {
			return nil
		}
	}
}

// Close writes the last changes, after an orderly stop of all else.
func (s *Service) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	g, opened, hangs := s.current, s.opened, s.hangs
	s.current, s.opened = nil, nil
	s.mu.Unlock()
	switch {
	case opened != nil:
		return opened.close() // Run was not called
	case g == nil:
		return nil
	case hangs:
		return g.close()
	}
	ended, end := context.WithCancel(context.Background())
	end() // await then has its patience
	err := s.await(ended, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(g.completeFirst(ctx), g.round(ctx)); err != nil {
			return err
		}
		return g.beat(ctx, true)
	})
	if err != nil {
		s.Logger.Warn("The last changes did not reach the replica.", "place", s.Settings.Target.String(), "error", err)
	}
	return g.close()
}

// fail notes a failure, and logs it once.
func (s *Service) fail(ctx context.Context, err error) {
	err = backup.ExplainMedium("replica", s.Settings.Target.String(), err)
	s.mu.Lock()
	same := s.failure != nil && err != nil && s.failure.Error() == err.Error()
	s.failure, s.state.Ready = err, false
	s.mu.Unlock()
	if !same && err != nil {
		s.Logger.WarnContext(ctx, "The replica is not up to date; the appliance tries again.", "place",
			s.Settings.Target.String(), "error", err)
	}
}

// noteShipped notes that the replica has all changes up to a time. It ends a failure.
func (s *Service) noteShipped(at time.Time) {
	s.mu.Lock()
	ready, failed := s.state.Ready, s.failure != nil
	s.failure, s.state.Ready, s.state.Shipped = nil, true, at.UTC()
	generation := s.state.Generation
	s.mu.Unlock()
	if !ready {
		s.Logger.Info("The replica follows the changes.", "place", s.Settings.Target.String(), "generation", generation,
			"after_failure", failed)
	}
}

func (s *Service) noteWritten(bytes int64) {
	s.noteAdded(bytes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Written += bytes
}

// noteAdded adds to the size of the replica, of which the last removal of old states has counted
// all files.
func (s *Service) noteAdded(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Usage.Bytes += bytes
}

// notePruned notes the size of the replica after a removal of old states, or its failure.
func (s *Service) notePruned(ctx context.Context, usage Usage, err error) {
	s.mu.Lock()
	before := s.state.PruneFailure
	if s.state.PruneFailure = ""; err == nil {
		s.state.Usage = usage
	} else {
		s.state.PruneFailure = err.Error()
	}
	now := s.state.PruneFailure
	s.mu.Unlock()
	if now != "" && now != before {
		s.Logger.WarnContext(ctx, "Old states stay in the replica; the appliance tries again.", "place",
			s.Settings.Target.String(), "error", err)
	}
}

// State returns the state of the replica, or nil if there is none.
func (s *Service) State() *State {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	lag := max(s.Clock.Since(state.Shipped), 0)
	state.Lag, state.Behind = lag.Seconds(), lag > behindAfter
	if s.failure != nil {
		state.Failure = s.failure.Error()
	}
	return &state
}
