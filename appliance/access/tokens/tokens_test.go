package tokens_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/tokens"
	"landfall/appliance/fault"
	"landfall/store"
)

// site is a data directory with tokens.
type site struct {
	*tokens.Tokens
	t     testing.TB
	dir   string
	db    *store.DB
	clock *clockwork.FakeClock
	log   bytes.Buffer
}

func newSite(t testing.TB) *site {
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
	s.Tokens, err = tokens.New(tokens.Options{DB: s.db, Clock: s.clock,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	require.NoError(s.t, err)
}

// restart stops and starts the appliance. at is the wall clock at the start.
func (s *site) restart(at time.Time) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	stop()
	require.NoError(s.t, s.Run(ctx))
	require.NoError(s.t, s.db.Close())
	s.clock = clockwork.NewFakeClockAt(at)
	s.start()
}

func (s *site) create(name string, ends time.Time) string {
	s.t.Helper()
	text, _, err := s.Create(s.t.Context(), tokens.NewToken{Name: name, Role: access.Operator, Ends: ends})
	require.NoError(s.t, err)
	return text
}

func (s *site) valid(text string) bool {
	_, ok := s.Check(text)
	return ok
}

func TestCreate(t *testing.T) {
	s := newSite(t)
	ends := s.clock.Now().Add(30 * 24 * time.Hour)
	text, made, err := s.Create(t.Context(), tokens.NewToken{Name: "CI", Role: access.Operator,
		Scope: access.Scope{Clusters: []string{"c1"}}, Ends: ends, By: "ana"})
	require.NoError(t, err)
	require.Regexp(t, `^lf_[0-9A-Za-z]{49}$`, text)
	want := tokens.Token{ID: made.ID, Name: "ci", Role: access.Operator,
		Scope: access.Scope{Clusters: []string{"c1"}}, Ends: ends, By: "ana", CreatedAt: s.clock.Now()}
	require.Equal(t, want, made)
	used := s.clock.Now()
	for range 2 { // in memory and in the store
		identity, ok := s.Check(text)
		require.True(t, ok)
		require.Equal(t, access.Identity{Kind: access.Program, Name: "ci", Role: access.Operator,
			Scope: access.Scope{Clusters: []string{"c1"}}, Token: made.ID}, identity)
		want.LastUse = used
		require.Equal(t, []tokens.Token{want}, s.List())
		s.restart(s.clock.Now())
	}
	require.NoError(t, s.db.Close())
	require.NoError(t, filepath.WalkDir(s.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, string(content), text[3:20], path)
		return err
	}))
	require.Empty(t, s.log.String())
}

func TestCreate_refusals(t *testing.T) {
	s := newSite(t)
	s.create("ci", time.Time{})
	now := s.clock.Now().UTC().Format(time.RFC3339)
	for name, test := range map[string]struct {
		wanted  tokens.NewToken
		kind    fault.Kind
		problem string
	}{
		"the name exists": {tokens.NewToken{Name: "CI", Role: access.Viewer}, fault.Conflict,
			`the token "ci" exists already; choose another name, or revoke that token`},
		"no name": {tokens.NewToken{Role: access.Viewer}, fault.Invalid, "the name is empty; enter a name"},
		"no role": {tokens.NewToken{Name: "bo"}, fault.Invalid,
			"the role is missing; choose viewer, operator or admin"},
		"an end in the past": {tokens.NewToken{Name: "bo", Role: access.Viewer, Ends: time.Unix(0, 0)}, fault.Invalid,
			"the token would end at 1970-01-01T00:00:00Z, but the appliance's clock is at " + now +
				"; choose a later time, or set the clock"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := s.Create(t.Context(), test.wanted)
			require.EqualError(t, err, test.problem)
			require.Equal(t, test.kind, fault.KindOf(err))
			require.Len(t, s.List(), 1)
		})
	}
}

func TestRevoke(t *testing.T) {
	s := newSite(t)
	first, second := s.create("first", time.Time{}), s.create("second", time.Time{})
	require.NoError(t, s.Revoke(t.Context(), "First"))
	require.False(t, s.valid(first))
	require.True(t, s.valid(second))
	err := s.Revoke(t.Context(), "first")
	require.EqualError(t, err, `there is no token "first"`)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	s.restart(s.clock.Now())
	require.False(t, s.valid(first))
	require.NoError(t, s.Revoke(t.Context(), s.List()[0].ID))
	require.Empty(t, s.List())
	s.create("first", time.Time{})
}

func TestCheck_endsByTheClock(t *testing.T) {
	s := newSite(t)
	now := s.clock.Now()
	text, endless := s.create("ci", now.Add(time.Hour)), s.create("endless", time.Time{})
	for _, step := range []struct {
		name  string
		at    time.Time
		runs  time.Duration
		valid bool
	}{
		{"in 1970", time.Unix(0, 0), 20 * time.Minute, true},
		{"a year ahead", now.Add(365 * 24 * time.Hour), 0, false},
		{"the clock was corrected", now.Add(time.Minute), 20 * time.Minute, true},
		{"in 1970, after an hour of running", time.Unix(0, 0), 21 * time.Minute, false},
	} {
		s.restart(step.at)
		s.clock.Advance(step.runs)
		require.Equal(t, step.valid, s.valid(text), step.name)
		require.True(t, s.valid(endless), step.name)
	}
}

func TestRun_storesLastUses(t *testing.T) {
	s := newSite(t)
	text := s.create("ci", time.Time{})
	revision := s.db.Revision()
	for range 1000 {
		require.True(t, s.valid(text))
	}
	require.Equal(t, revision, s.db.Revision(), "requests write nothing")
	used := s.clock.Now()
	s.restart(used.Add(time.Hour))
	require.Equal(t, used, s.List()[0].LastUse)
	revision = s.db.Revision()
	s.restart(used)
	require.Equal(t, revision, s.db.Revision(), "without a use, nothing is written")
}

func TestTokens_concurrentUse(t *testing.T) {
	s := newSite(t)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for j := range 10 {
				name := fmt.Sprintf("t%d-%d", i, j)
				text, made, err := s.Create(context.Background(), tokens.NewToken{Name: name, Role: access.Viewer})
				if err != nil || !s.valid(text) || len(s.List()) == 0 {
					t.Error("a new token is not valid", err)
				}
				if err := s.Revoke(context.Background(), made.ID); err != nil || s.valid(text) {
					t.Error("a revoked token is valid", err)
				}
			}
		})
		group.Go(func() {
			_, _, err := s.Create(context.Background(), tokens.NewToken{Name: "one", Role: access.Viewer})
			if err != nil && fault.KindOf(err) != fault.Conflict {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Len(t, s.List(), 1)
}

func TestValid(t *testing.T) {
	s := newSite(t)
	text := s.create("ci", time.Time{})
	require.True(t, tokens.Valid(text))
	for name, wrong := range map[string]string{
		"empty":              "",
		"only the prefix":    "lf_",
		"cut off":            text[:len(text)-1],
		"with a line break":  text + "\n",
		"another character":  text[:10] + string(other(text[10])) + text[11:],
		"another checksum":   text[:len(text)-1] + string(other(text[len(text)-1])),
		"two swapped":        text[:20] + swapped(text[20:]),
		"another prefix":     "LF_" + text[3:],
		"a foreign alphabet": text[:10] + "-" + text[11:],
		"in lower case":      strings.ToLower(text),
	} {
		require.False(t, tokens.Valid(wrong), name)
		require.False(t, s.valid(wrong), name)
	}
}

func other(char byte) byte {
	if char == 'a' {
		return 'b'
	}
	return 'a'
}

// swapped swaps the first two different neighbours.
func swapped(text string) string {
	for i := range len(text) - 1 {
		if text[i] != text[i+1] {
			return text[:i] + string(text[i+1]) + string(text[i]) + text[i+2:]
		}
	}
	return text
}

func FuzzCheck(f *testing.F) {
	s := newSite(f)
	text := s.create("ci", time.Time{})
	for _, seed := range []string{"", "lf_", text, text[:30], text + text, "lf_" + strings.Repeat("0", 49),
		"lf_" + strings.Repeat("é", 25), "Bearer " + text} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		if valid := s.valid(given); valid != (given == text) {
			t.Errorf("%q is valid: %t", given, valid)
		}
		if tokens.Valid(given) && len(given) != len(text) {
			t.Errorf("%q has the form of a token", given)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	db, err := store.Open(b.Context(), b.TempDir(), store.Options{NoSync: true})
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	held, err := tokens.New(tokens.Options{DB: db, Clock: clockwork.NewRealClock(),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	var text string
	for i := range 1000 {
		text, _, err = held.Create(b.Context(), tokens.NewToken{Name: fmt.Sprint("t", i), Role: access.Viewer,
			Ends: time.Now().Add(time.Hour)})
		require.NoError(b, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := held.Check(text); !ok {
			b.Fatal("the token is not valid")
		}
	}
}
