package registry_test

import (
	"context"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/limit"
	"landfall/appliance/access/people"
	webregistry "landfall/web/registry"
)

// onePerson implements webregistry.People with one account.
type onePerson struct {
	account  people.Account
	password string
	logins   int // number of passwords that were verified
}

func (p *onePerson) LogIn(_ context.Context, name, given string) (people.Account, error) {
	p.logins++
	if name != p.account.Name || given != p.password {
		return people.Account{}, people.ErrCredentials
	}
	return p.account, nil
}

func (p *onePerson) Account(string) (people.Account, error) { return p.account, nil }

type noTokens struct{}

func (noTokens) Check(string) (access.Identity, bool) { return access.Identity{}, false }

// TestLogins_remembered verifies a password once, until the account changes.
func TestLogins_remembered(t *testing.T) {
	for name, change := range map[string]func(*onePerson, *clockwork.FakeClock){
		"password changed": func(p *onePerson, _ *clockwork.FakeClock) {
			p.password = "another"
			p.account.Generation++
		},
		"another account with the name": func(p *onePerson, _ *clockwork.FakeClock) {
			p.password = "another"
			p.account.ID = "2"
		},
		"some minutes later": func(p *onePerson, clock *clockwork.FakeClock) {
			p.password = "another"
			clock.Advance(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clockwork.NewFakeClock()
			p := &onePerson{account: people.Account{ID: "1", Name: "ana", Role: access.Operator}, password: "secret"}
			logins := webregistry.NewLogins(webregistry.LoginOptions{PullPassword: "pull", People: p,
				Tokens: noTokens{}, Limiter: limit.New(clock), Clock: clock})
			for range 3 {
				identity, err := logins.Check(t.Context(), "192.0.2.1", "ana", "secret")
				require.NoError(t, err)
				require.Equal(t, access.Operator, identity.Role)
			}
			require.Equal(t, 1, p.logins)
			change(p, clock)
			_, err := logins.Check(t.Context(), "192.0.2.1", "ana", "secret")
			require.ErrorIs(t, err, people.ErrCredentials)
		})
	}
}
