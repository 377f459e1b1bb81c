package access_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/descope/virtualwebauthn"
	"github.com/stretchr/testify/require"

	identity "landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/passkey/passkeytest"
	"landfall/appliance/access/people"
	"landfall/web/access"
)

type object map[string]any

func TestLogin_cookieOfABrowser(t *testing.T) {
	s := newService(t, nil)
	b := s.browser()
	require.Empty(t, b.whoami())
	got := b.send(http.MethodPost, "/login", object{"name": "ada", "password": password})
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	cookie := got.header.Get("Set-Cookie")
	for _, attribute := range []string{"__Host-landfall=", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"} {
		require.Contains(t, cookie, attribute)
	}
	require.NotContains(t, string(got.body), "token")
	require.Equal(t, "ada", b.whoami())
	require.Equal(t, http.StatusNoContent, b.send(http.MethodPost, "/logout", nil).status)
	require.Empty(t, b.whoami())
}

func TestLogin_growingWaits(t *testing.T) {
	s := newService(t, nil)
	b := s.browser()
	wrong := object{"name": "bob", "password": "wrong"}
	statuses := map[int]int{}
	for range 30 {
		statuses[b.send(http.MethodPost, "/login", wrong).status]++
	}
	require.Len(t, statuses, 2)
	require.Less(t, statuses[http.StatusUnauthorized], 10)
	got := b.send(http.MethodPost, "/login", wrong)
	require.Equal(t, http.StatusTooManyRequests, got.status)
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, b.send(http.MethodPost, "/login", object{"name": "ada",
		"password": password}).status,
		"the failures of one account do not lock another one out")
}

func TestLogin_spellingsOfANameShareTheWaits(t *testing.T) {
	s := newService(t, nil)
	b := s.browser()
	for _, name := range []string{"ada", " ada", "ada\t", "ADA", "\uff41da"} {
		require.Equal(t, http.StatusUnauthorized, b.send(http.MethodPost, "/login", object{"name": name,
			"password": "wrong"}).status)
	}
	for _, name := range []string{"ada", "  ada", "a\uff44a", "a\u00adda", "ada\x00"} {
		require.Equal(t, http.StatusTooManyRequests, b.send(http.MethodPost, "/login", object{"name": name,
			"password": "wrong"}).status, "%q", name)
	}
}

func TestLogin_passkeyAfterThePassword(t *testing.T) {
	s := newService(t, nil)
	b := s.browser()
	login := object{"name": "ada", "password": password}
	require.Equal(t, http.StatusOK, b.send(http.MethodPost, "/login", login).status)
	party := virtualwebauthn.RelyingParty{Name: "Landfall", ID: host, Origin: "https://" + host}
	device := virtualwebauthn.NewAuthenticator()
	key, err := passkeytest.NewCredential()
	require.NoError(t, err)
	var begun struct{ Options, Passkey json.RawMessage }
	require.NoError(t, json.Unmarshal(b.send(http.MethodPost, "/passkeys/begin", nil).body, &begun))
	created, err := virtualwebauthn.ParseAttestationOptions(string(begun.Options))
	require.NoError(t, err)
	got := b.send(http.MethodPost, "/passkeys", object{"label": "my key", "answer": json.RawMessage(
		virtualwebauthn.CreateAttestationResponse(party, device, key, *created))})
	require.Equal(t, http.StatusCreated, got.status, "%s", got.body)
	var made access.Passkey
	require.NoError(t, json.Unmarshal(got.body, &made))
	require.Equal(t, "my key", made.Label)

	other := s.browser()
	got = other.send(http.MethodPost, "/login", login)
	require.Equal(t, http.StatusOK, got.status)
	require.NoError(t, json.Unmarshal(got.body, &begun))
	require.NotEmpty(t, begun.Passkey)
	require.Empty(t, other.whoami(), "the password alone is not enough")
	require.Equal(t, http.StatusForbidden, other.send(http.MethodPost, "/login", object{"name": "ada",
		"password": password, "kind": "token"}).status)
	asked, err := virtualwebauthn.ParseAssertionOptions(string(begun.Passkey))
	require.NoError(t, err)
	foreign, err := passkeytest.NewCredential()
	require.NoError(t, err)
	foreign.ID = key.ID
	answer := func(with virtualwebauthn.Credential) json.RawMessage {
		return json.RawMessage(virtualwebauthn.CreateAssertionResponse(party, device, with, *asked))
	}
	require.Equal(t, http.StatusUnauthorized, other.send(http.MethodPost, "/login/passkey", object{"name": "ada",
		"answer": answer(foreign)}).status)
	require.Empty(t, other.whoami())

	require.NoError(t, json.Unmarshal(other.send(http.MethodPost, "/login", login).body, &begun))
	asked, err = virtualwebauthn.ParseAssertionOptions(string(begun.Passkey))
	require.NoError(t, err)
	key.Counter++
	got = other.send(http.MethodPost, "/login/passkey", object{"name": "ada", "answer": answer(key)})
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	require.Equal(t, "ada", other.whoami())
	require.Equal(t, http.StatusNoContent, other.send(http.MethodDelete, "/passkeys/"+made.ID, nil).status)
	require.Equal(t, http.StatusOK, s.browser().send(http.MethodPost, "/login", login).status)
}

// directory is a directory with one person. It records the passwords that it gets.
type directory struct{ got []string }

func (d *directory) LogIn(_ context.Context, name, given string) (external.Person, error) {
	d.got = append(d.got, given)
	if name != "dan" || given != "dan's password" {
		return external.Person{}, people.ErrCredentials
	}
	return external.Person{Issuer: "ldaps://directory", Subject: "uid=dan", Name: "dan", Role: identity.Viewer}, nil
}

func TestLogin_directory(t *testing.T) {
	asked := &directory{}
	s := newService(t, func(s *access.Service) { s.Directory = asked })
	b := s.browser()
	require.Equal(t, http.StatusUnauthorized, b.send(http.MethodPost, "/login", object{"name": "ada",
		"password": "wrong"}).status)
	require.Empty(t, asked.got, "passwords of local accounts stay here")
	require.Equal(t, http.StatusUnauthorized, b.send(http.MethodPost, "/login", object{"name": "dan",
		"password": "wrong"}).status)
	require.Equal(t, http.StatusOK, b.send(http.MethodPost, "/login", object{"name": "dan",
		"password": "dan's password"}).status)
	require.Equal(t, "dan", b.whoami())
	require.Equal(t, http.StatusForbidden, b.send(http.MethodGet, "/users", nil).status)
}

func TestUsers_ownersAndAdministrators(t *testing.T) {
	s := newService(t, nil)
	admin, viewer := s.browser(), s.browser()
	require.Equal(t, http.StatusOK, admin.send(http.MethodPost, "/login", object{"name": "ada",
		"password": password}).status)
	got := admin.send(http.MethodPost, "/users", object{"name": "vera", "password": "vera's password",
		"role": "viewer"})
	require.Equal(t, http.StatusCreated, got.status, "%s", got.body)
	require.NotContains(t, string(got.body), "generation")
	require.Equal(t, http.StatusBadRequest, admin.send(http.MethodPost, "/users", object{"name": "x",
		"password": "x's password", "role": "root"}).status)
	require.Equal(t, http.StatusOK, viewer.send(http.MethodPost, "/login", object{"name": "vera",
		"password": "vera's password"}).status)
	for path, want := range map[string]string{"/users/ada/password": "your own account",
		"/users/vera/password": "the present password is wrong"} {
		got := viewer.send(http.MethodPut, path, object{"old": "guess", "new": "another password"})
		require.Equal(t, http.StatusForbidden, got.status)
		require.Contains(t, string(got.body), want)
	}
	var sessions []access.Login
	require.NoError(t, json.Unmarshal(viewer.send(http.MethodGet, "/sessions", nil).body, &sessions))
	require.Len(t, sessions, 1, "only the own one")
	require.NoError(t, json.Unmarshal(admin.send(http.MethodGet, "/sessions", nil).body, &sessions))
	require.Len(t, sessions, 2)
	require.Equal(t, http.StatusOK, admin.send(http.MethodPatch, "/users/vera", object{"role": "operator"}).status)
	require.Empty(t, viewer.whoami(), "a change of the role ends the sessions")
	require.Equal(t, http.StatusNoContent, admin.send(http.MethodDelete, "/users/vera", nil).status)
	require.True(t, strings.Contains(string(admin.send(http.MethodDelete, "/users/ada", nil).body),
		"last administrator"))
}

// The ID of an object is not known before the object exists. An account keeps one that was deleted.
func TestScope_namesExistingObjects(t *testing.T) {
	const east, west = "7b1c5a0e-0000-4000-8000-000000000004", "7b1c5a0e-0000-4000-8000-000000000005"
	clusters := objects{east: true}
	s := newService(t, func(s *access.Service) { s.Objects = clusters })
	admin := s.browser()
	require.Equal(t, http.StatusOK, admin.send(http.MethodPost, "/login", object{"name": "ada",
		"password": password}).status)
	send := func(method, path string, body object, status int, want string) {
		t.Helper()
		got := admin.send(method, path, body)
		require.Equal(t, status, got.status, "%s", got.body)
		require.Contains(t, string(got.body), want)
	}
	token := object{"name": "ci", "role": "viewer", "clusters": []string{east, west}}
	send(http.MethodPost, "/tokens", token, http.StatusBadRequest, "there is no cluster "+west)
	token["clusters"] = []string{east}
	send(http.MethodPost, "/tokens", token, http.StatusCreated, east)
	user := object{"name": "vera", "role": "viewer", "password": "vera's password", "infra_envs": []string{west}}
	send(http.MethodPost, "/users", user, http.StatusBadRequest, "landfall infra-env list -o wide shows the IDs")
	user["infra_envs"], user["clusters"] = nil, []string{strings.ToUpper(east)}
	send(http.MethodPost, "/users", user, http.StatusCreated, east)
	delete(clusters, east)
	clusters[west] = true
	send(http.MethodPatch, "/users/vera", object{"clusters": []string{east, west}}, http.StatusOK, west)
	send(http.MethodPatch, "/users/ada", object{"clusters": []string{east}}, http.StatusBadRequest, "no cluster "+east)
}
