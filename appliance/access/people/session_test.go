package people_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
)

func TestSession_identity(t *testing.T) {
	s := newSite(t)
	s.setUp()
	_, err := s.Create(t.Context(), people.NewAccount{Name: "ana", Password: password, Role: access.Operator,
		Scope: access.Scope{InfraEnvs: []string{"e1"}}})
	require.NoError(t, err)
	secret := s.logIn("ana")
	identity, ok := s.Session(secret, true)
	require.True(t, ok)
	require.Equal(t, access.Identity{Kind: access.Person, Name: "ana", Role: access.Operator,
		Scope: access.Scope{InfraEnvs: []string{"e1"}}, Session: s.Sessions("ana")[0].ID}, identity)
	for _, wrong := range []string{"", secret + "x", secret[1:], s.Sessions("ana")[0].ID} {
		require.False(t, s.loggedIn(wrong))
	}
}

func TestSession_endsByTime(t *testing.T) {
	s := newSite(t)
	s.setUp()
	resting := s.logIn("admin")
	s.clock.Advance(people.DefaultIdle - time.Second)
	require.True(t, s.loggedIn(resting))
	s.clock.Advance(people.DefaultIdle)
	require.False(t, s.loggedIn(resting), "after rest")
	require.Empty(t, s.Sessions(""))

	busy := s.logIn("admin")
	for range int(people.DefaultTotal/time.Hour) - 1 {
		s.clock.Advance(time.Hour)
		require.True(t, s.loggedIn(busy))
	}
	s.clock.Advance(time.Hour)
	require.False(t, s.loggedIn(busy), "in all")
}

func TestSession_onlyUsesProlong(t *testing.T) {
	s := newSite(t)
	s.setUp()
	secret := s.logIn("admin")
	s.clock.Advance(people.DefaultIdle - time.Second)
	_, open := s.Session(secret, false)
	require.True(t, open)
	s.clock.Advance(time.Second)
	_, open = s.Session(secret, false)
	require.False(t, open)
}

func TestSession_afterAStop(t *testing.T) {
	for name, test := range map[string]struct {
		stop time.Duration // by the wall clock
		ends bool
	}{
		"an hour":              {time.Hour, false},
		"a night":              {13 * time.Hour, true},
		"in 1970":              {-50 * 365 * 24 * time.Hour, false},
		"a year ahead":         {365 * 24 * time.Hour, true},
		"some time in between": {-time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.setUp()
			secret := s.logIn("admin")
			s.restart(s.clock.Now().Add(test.stop))
			require.Equal(t, !test.ends, s.loggedIn(secret))
			require.True(t, s.loggedIn(s.logIn("admin")), "a login is possible")
			// No session lasts forever because of a wrong clock.
			s.clock.Advance(people.DefaultIdle)
			require.False(t, s.loggedIn(secret))
		})
	}
}

// At a site whose clock starts in 1970 each time, the time while the appliance runs still counts.
func TestSession_endsWithoutAClock(t *testing.T) {
	s := newSite(t)
	s.setUp()
	boot := time.Unix(60, 0)
	s.restart(boot)
	secret := s.logIn("admin")
	for range people.DefaultTotal/(4*time.Hour) - 1 {
		s.clock.Advance(4 * time.Hour)
		require.True(t, s.loggedIn(secret))
		s.stop()
		s.restart(boot)
	}
	s.clock.Advance(4 * time.Hour)
	require.False(t, s.loggedIn(secret))
}

func TestSessions_list(t *testing.T) {
	s := newSite(t)
	s.setUp()
	s.create("ana", access.Viewer)
	account, err := s.LogIn(t.Context(), "admin", password)
	require.NoError(t, err)
	started := s.clock.Now()
	secret, made, err := s.StartSession(t.Context(), account,
		people.Client{Address: "192.0.2.7", UserAgent: "Fire\x1b[2Jfox\n\xff 1"})
	require.NoError(t, err)
	s.clock.Advance(time.Hour)
	s.logIn("ana")
	s.clock.Advance(time.Hour)
	require.True(t, s.loggedIn(secret))
	s.clock.Advance(time.Minute)
	want := people.Session{ID: made.ID, Account: "admin", Address: "192.0.2.7", UserAgent: "Fire[2Jfox 1",
		StartedAt: started, LastUse: started.Add(2 * time.Hour), EndsAt: started.Add(2*time.Hour + people.DefaultIdle)}
	require.Equal(t, []people.Session{want}, s.Sessions("Admin"))
	require.Len(t, s.Sessions(""), 2)
	require.Equal(t, want, s.Sessions("")[0], "the last used first")
	require.Empty(t, s.Sessions("nobody"))

	require.NoError(t, s.EndSession(t.Context(), made.ID))
	require.False(t, s.loggedIn(secret))
	err = s.EndSession(t.Context(), made.ID)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	s.restart(s.clock.Now())
	require.False(t, s.loggedIn(secret))
}

func TestSessions_limitPerAccount(t *testing.T) {
	s := newSite(t)
	s.setUp()
	first := s.logIn("admin")
	s.clock.Advance(time.Minute)
	var others []string
	for range 64 {
		others = append(others, s.logIn("admin"))
	}
	require.False(t, s.loggedIn(first), "the one that was not used for the longest time ends")
	for _, secret := range others {
		require.True(t, s.loggedIn(secret))
	}
	s.restart(s.clock.Now())
	require.Len(t, s.Sessions("admin"), 64)
}

func TestRun_storesLastUses(t *testing.T) {
	s := newSite(t)
	s.setUp()
	used, rests := s.logIn("admin"), s.logIn("admin")
	revision := s.db.Revision()
	s.clock.Advance(11 * time.Hour)
	for range 1000 {
		require.True(t, s.loggedIn(used))
	}
	require.Equal(t, revision, s.db.Revision(), "requests write nothing")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	stop()
	require.NoError(t, <-done)
	s.restart(s.clock.Now().Add(2 * time.Hour))
	require.True(t, s.loggedIn(used))
	require.False(t, s.loggedIn(rests))
}

func TestSession_concurrentUse(t *testing.T) {
	s := newSite(t)
	s.setUp()
	s.create("ana", access.Viewer)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				account, err := s.LogIn(context.Background(), "ana", password)
				if err != nil {
					continue // the password is being set
				}
				secret, session, err := s.StartSession(context.Background(), account, people.Client{})
				if err != nil {
					continue
				}
				s.Session(secret, true)
				s.Sessions("")
				_ = s.EndSession(context.Background(), session.ID)
				if s.loggedIn(secret) {
					t.Error("an ended session is open")
				}
			}
		})
		group.Go(func() {
			for range 5 {
				if err := s.SetPassword(context.Background(), "ana", password); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Empty(t, s.Sessions("ana"))
}
