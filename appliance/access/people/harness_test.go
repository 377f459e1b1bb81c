package people_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/store"
)

const password = "correct horse"

// site is a data directory with people.
type site struct {
	*people.People
	t     *testing.T
	dir   string
	db    *store.DB
	clock *clockwork.FakeClock
	log   bytes.Buffer
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir(), clock: clockwork.NewFakeClockAt(time.Now().UTC().Truncate(time.Second))}
	s.start()
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	return s
}

func (s *site) start() {
	s.t.Helper()
	var err error
	s.db, err = store.Open(s.t.Context(), s.dir, store.Options{})
	require.NoError(s.t, err)
	s.People, err = people.New(people.Options{DB: s.db, Clock: s.clock, Dir: s.dir,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)), HashCost: people.HashCost{MemoryKiB: 8, Passes: 1}})
	require.NoError(s.t, err)
}

// stop stops the loop of the sessions, as at the end of the appliance. The loop saves them.
func (s *site) stop() {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	stop()
	require.NoError(s.t, s.Run(ctx))
}

// restart kills and starts the appliance. at is the wall clock at the start.
func (s *site) restart(at time.Time) {
	s.t.Helper()
	require.NoError(s.t, s.db.Close())
	s.clock = clockwork.NewFakeClockAt(at)
	s.start()
}

// setUp makes the administrator "admin".
func (s *site) setUp() people.Account {
	s.t.Helper()
	code, err := s.SetupCode()
	require.NoError(s.t, err)
	account, err := s.SetUp(s.t.Context(), code, "admin", password)
	require.NoError(s.t, err)
	return account
}

func (s *site) create(name string, role access.Role) people.Account {
	s.t.Helper()
	account, err := s.Create(s.t.Context(), people.NewAccount{Name: name, Password: password, Role: role})
	require.NoError(s.t, err)
	return account
}

// logIn logs in and returns the secret of a session.
func (s *site) logIn(name string) string {
	s.t.Helper()
	account, err := s.LogIn(s.t.Context(), name, password)
	require.NoError(s.t, err)
	secret, _, err := s.StartSession(s.t.Context(), account, people.Client{Address: "192.0.2.7", UserAgent: "test"})
	require.NoError(s.t, err)
	return secret
}

// loggedIn reports whether a session is open.
func (s *site) loggedIn(secret string) bool {
	_, ok := s.Session(secret, true)
	return ok
}
