package access_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	identity "landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/access/tokens"
	"landfall/web/access"
	"landfall/web/operation"
)

// beat is the interval of the lines in the endless response of the tests. The credentials are
// checked more often.
const beat = 10 * time.Second

// endless is an operation with an endless response. Like the Kubernetes API, it removes the token
// from the request.
func (s *service) endless() operation.Operation {
	return operation.Operation{Method: http.MethodGet, Path: access.BasePath + "/endless",
		Access: operation.For(identity.Viewer).OfOwn(), Endless: func(*http.Request) bool { return true },
		Handler: func(c echo.Context) error {
			c.Request().Header.Del("Authorization")
			ticker := s.clock.NewTicker(beat)
			defer ticker.Stop()
			for {
				if _, err := io.WriteString(c.Response(), "beat\n"); err != nil {
					return err
				}
				c.Response().Flush()
				select {
				case <-ticker.Chan():
				case <-c.Request().Context().Done():
					return nil
				}
			}
		}}
}

// open opens the endless response, with a token or the cookie of the browser.
func (b *browser) open(token string) *bufio.Reader {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet,
		"https://"+host+access.BasePath+"/endless", nil)
	require.NoError(b.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := b.Do(request)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, response.Body.Close()) })
	require.Equal(b.t, http.StatusOK, response.StatusCode)
	lines := bufio.NewReader(response.Body)
	requireBeat(b.t, lines)
	return lines
}

func requireBeat(t *testing.T, lines *bufio.Reader) {
	t.Helper()
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "beat\n", line)
}

// pass lets the time pass in steps of a second, so that every check and beat is due at its time.
func (s *service) pass(d time.Duration) {
	for range d / time.Second {
		s.clock.Advance(time.Second)
	}
}

func TestEndless_endsWithItsCredentials(t *testing.T) {
	viewer, disabled := identity.Viewer, true
	secret := "another " + password
	for name, end := range map[string]func(t *testing.T, s *service, b *browser) error{
		"logout": func(t *testing.T, _ *service, b *browser) error {
			require.Equal(t, http.StatusNoContent, b.send(http.MethodPost, "/logout", nil).status)
			return nil
		},
		"ended by an administrator": func(t *testing.T, s *service, _ *browser) error {
			return s.People.EndSession(t.Context(), s.People.Sessions("bob")[0].ID)
		},
		"no use": func(_ *testing.T, s *service, _ *browser) error {
			s.clock.Advance(people.DefaultIdle)
			return nil
		},
		"total time": func(t *testing.T, s *service, b *browser) error {
			for range people.DefaultTotal/time.Hour - 1 {
				s.clock.Advance(time.Hour)
				require.Equal(t, "bob", b.whoami())
			}
			s.clock.Advance(time.Hour)
			return nil
		},
		"account disabled": func(t *testing.T, s *service, _ *browser) error {
			_, err := s.People.Update(t.Context(), "bob", people.Change{Disabled: &disabled})
			return err
		},
		"another role": func(t *testing.T, s *service, _ *browser) error {
			_, err := s.People.Update(t.Context(), "bob", people.Change{Role: &viewer})
			return err
		},
		"another scope": func(t *testing.T, s *service, _ *browser) error {
			_, err := s.People.Update(t.Context(), "bob",
				people.Change{Scope: &identity.Scope{Clusters: []string{"c1"}}})
			return err
		},
		"another password": func(t *testing.T, s *service, _ *browser) error {
			return s.People.SetPassword(t.Context(), "bob", secret)
		},
		"account deleted": func(t *testing.T, s *service, _ *browser) error {
			return s.People.Delete(t.Context(), "bob")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, nil)
			_, err := s.People.Create(t.Context(), people.NewAccount{Name: "bob", Password: password,
				Role: identity.Operator})
			require.NoError(t, err)
			b := s.browser()
			b.send(http.MethodPost, "/login", object{"name": "bob", "password": password})
			requireEnd(t, s, b.open(""), func() error { return end(t, s, b) })
			require.Empty(t, b.whoami())
		})
	}
	for name, end := range map[string]func(t *testing.T, s *service) error{
		"token revoked": func(t *testing.T, s *service) error { return s.Tokens.Revoke(t.Context(), "watcher") },
		"token expired": func(_ *testing.T, s *service) error { s.clock.Advance(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, nil)
			token, _, err := s.Tokens.Create(t.Context(), tokens.NewToken{Name: "watcher", Role: identity.Viewer,
				Ends: s.clock.Now().Add(time.Hour)})
			require.NoError(t, err)
			requireEnd(t, s, s.browser().open(token), func() error { return end(t, s) })
		})
	}
}

// requireEnd checks that an endless response goes on until its credentials end, and ends soon after
// that.
func requireEnd(t *testing.T, s *service, lines *bufio.Reader, end func() error) {
	t.Helper()
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 2)) // the check and the beat
	for range 3 {                                                 // an early end may come after the first beat
		s.pass(beat)
		requireBeat(t, lines)
	}
	require.NoError(t, end())
	s.pass(2 * time.Second)
	_, err := io.ReadAll(lines) // does not return while the response goes on
	require.NoError(t, err)
}

func TestSession_unattendedPageEnds(t *testing.T) {
	s := newService(t, nil)
	b := s.browser()
	b.send(http.MethodPost, "/login", object{"name": "ada", "password": password})
	background := func() int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://"+host+access.BasePath+"/whoami", nil)
		require.NoError(t, err)
		request.Header.Set("X-Landfall-Background", "1")
		response, err := b.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	s.clock.Advance(people.DefaultIdle / 2)
	require.Equal(t, "ada", b.whoami(), "a person's request prolongs the session")
	for range 11 {
		s.clock.Advance(people.DefaultIdle / 12)
		require.Equal(t, http.StatusOK, background())
		b.open("")
	}
	s.clock.Advance(people.DefaultIdle / 12)
	require.Equal(t, http.StatusUnauthorized, background(), "polls and streams do not")
	require.Contains(t, string(b.send(http.MethodGet, "/users", nil).body),
		"the session had ended, so nothing was done; log in and try again", "the page shows it after the login, too")
	require.Empty(t, b.whoami())
}
