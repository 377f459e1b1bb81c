package people_test

import (
	"log/slog"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/people"
	"landfall/store"
)

func BenchmarkPeople(b *testing.B) {
	dir := b.TempDir()
	db, err := store.Open(b.Context(), dir, store.Options{NoSync: true})
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	p, err := people.New(people.Options{DB: db, Clock: clockwork.NewRealClock(), Dir: dir,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	code, err := p.SetupCode()
	require.NoError(b, err)
	account, err := p.SetUp(b.Context(), code, "admin", password)
	require.NoError(b, err)
	secret, _, err := p.StartSession(b.Context(), account, people.Client{})
	require.NoError(b, err)
	b.Run("Session", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := p.Session(secret); !ok {
				b.Fatal("the session has ended")
			}
		}
	})
	for name, login := range map[string]string{"LogIn/known": "admin", "LogIn/unknown": "nobody"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = p.LogIn(b.Context(), login, "wrong horse")
			}
		})
	}
}
