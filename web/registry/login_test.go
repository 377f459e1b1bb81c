package registry_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/limit"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
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

// Nobody knows whether a token of a provider that can't be reached is valid, and nobody knows
// whether a password is right that could not be compared.
func TestLogin_unavailable(t *testing.T) {
	away := fault.New(fault.Unavailable, "the identity provider is away")
	for name, c := range map[string]struct {
		failure error
		status  int
		text    string
	}{
		"provider away": {away, http.StatusServiceUnavailable, "the identity provider is away"},
		"token unknown": {fault.New(fault.Unauthenticated, "unknown"), http.StatusUnauthorized, "the token is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			got := callBase(access.WithFailure(t.Context(), c.failure), nil, "Bearer token")
			require.Equal(t, c.status, got.Code)
			require.Contains(t, got.Body.String(), c.text)
		})
	}
	for status, failure := range map[int]error{http.StatusServiceUnavailable: away,
		http.StatusInternalServerError: errors.New("the accounts can't be read"),
		http.StatusUnauthorized:        people.ErrCredentials} {
		got := callBase(t.Context(), func(context.Context, string, string, string) (access.Identity, error) {
			return access.Identity{}, failure
		}, "Basic YW5hOnNlY3JldA==")
		require.Equal(t, status, got.Code, "%v", failure)
	}
}

// callBase sends a request for /v2/ with credentials.
func callBase(ctx context.Context, logIn func(context.Context, string, string, string) (access.Identity, error),
	credentials string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v2/", nil)
	request.Header.Set("Authorization", credentials)
	answer := httptest.NewRecorder()
	for _, o := range webregistry.Operations(webregistry.Options{Login: logIn,
		Logger: slog.New(slog.DiscardHandler)}) {
		if o.Path == request.URL.Path {
			_ = o.Handler(echo.New().NewContext(request, answer)) // it answers with its errors
		}
	}
	return answer
}
