package people_test

import (
	"log/slog"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/people"
	"landfall/store"
)

// newPeople returns people with the usual cost of hashes, and the secret of a session of "admin".
func newPeople(b *testing.B) (_ *people.People, secret string) {
	dir := b.TempDir()
	db, err := store.Open(b.Context(), dir, store.Options{NoSync: true})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	p, err := people.New(people.Options{DB: db, Clock: clockwork.NewRealClock(), Dir: dir,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	account, err := p.ResetAdministrator(b.Context(), "admin", password)
	require.NoError(b, err)
	secret, _, err = p.StartSession(b.Context(), account, people.Client{})
	require.NoError(b, err)
	return p, secret
}

func BenchmarkSession(b *testing.B) {
	p, secret := newPeople(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := p.Session(secret, true); !ok {
			b.Fatal("the session has ended")
		}
	}
}

// Both take the same time, so that the time does not show which accounts exist.
func BenchmarkLogIn(b *testing.B) {
	p, _ := newPeople(b)
	for name, account := range map[string]string{"known": "admin", "unknown": "nobody"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := p.LogIn(b.Context(), account, "wrong horse"); err == nil {
					b.Fatal("a wrong password was accepted")
				}
			}
		})
	}
}
