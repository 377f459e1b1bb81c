package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	identity "landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/oidc"
	"landfall/appliance/access/people"
	"landfall/appliance/audittrail"
	"landfall/web/access"
)

// provider is an OpenID Connect provider that logs in olga, a member of the group operators.
type provider struct {
	*httptest.Server
	clock interface{ Now() time.Time }
	nonce string // of the last login
	key   *ecdsa.PrivateKey
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	described := &oidctest.Server{Algorithms: []string{upstream.ES256},
		PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: upstream.ES256}}}
	p := &provider{key: key}
	mux := http.NewServeMux()
	mux.Handle("/", described)
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		p.nonce = r.URL.Query().Get("nonce")
		back := url.Values{"code": {"c"}, "state": {r.URL.Query().Get("state")}}
		http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"a","token_type":"Bearer","id_token":%q}`, p.idToken("7", "olga"))
	})
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	described.SetIssuer(p.URL)
	return p
}

// idToken returns an ID token of a member of the group operators.
func (p *provider) idToken(subject, name string) string {
	now := p.clock.Now()
	return oidctest.SignIDToken(p.key, "k", upstream.ES256, fmt.Sprintf(`{"iss":%q,"aud":"landfall","sub":%q,`+
		`"preferred_username":%q,"groups":["operators"],"nonce":%q,"iat":%d,"exp":%d}`,
		p.URL, subject, name, p.nonce, now.Unix(), now.Add(time.Minute).Unix()))
}

// client returns the appliance's side of the provider.
func (p *provider) client(t *testing.T, clock clockwork.Clock) *oidc.Provider {
	t.Helper()
	p.clock = clock
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: p.Certificate().Raw}), 0o600))
	client, err := oidc.New(oidc.Options{Issuer: p.URL, ClientID: "landfall", CABundle: ca, Clock: clock,
		NameClaim: "preferred_username", GroupsClaim: "groups",
		Rules: external.Rules{Operators: []string{"operators"}}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// TestBearer_isNobodyElse sends ID tokens with each request. People choose their names at the
// provider.
func TestBearer_isNobodyElse(t *testing.T) {
	p := newProvider(t)
	s := newService(t, func(s *access.Service) { s.OIDC = p.client(t, clockwork.NewRealClock()) })
	ctx := t.Context()
	_, err := s.People.LogInExternal(ctx, people.External{Issuer: p.URL, Subject: "7"},
		people.NewAccount{Name: "olga", Role: identity.Operator})
	require.NoError(t, err)
	call := func(token, method, path string, body any) answered {
		return s.browser().send(method, path, body, "Authorization", "Bearer "+token)
	}
	name := func(token string) string {
		var who access.Whoami
		got := call(token, http.MethodGet, "/whoami", nil)
		if got.status == http.StatusOK {
			require.NoError(t, json.Unmarshal(got.body, &who))
		}
		return who.Name
	}
	for claimed, token := range map[string]string{
		"the local administrator":       p.idToken("8", "ada"),
		"another spelling of the name":  p.idToken("8", " ADA"),
		"the account of another person": p.idToken("8", "olga"),
	} {
		require.Empty(t, name(token), claimed)
		require.Equal(t, http.StatusUnauthorized, call(token, http.MethodGet, "/passkeys", nil).status, claimed)
	}
	require.Equal(t, "olga", name(p.idToken("7", "ada")), "the account's name, not the claimed one")
	require.Equal(t, "paul", name(p.idToken("9", "paul")), "a person without an account")

	// An account gets the name later, and the token that was accepted before is refused.
	_, err = s.People.Create(ctx, people.NewAccount{Name: "paul", Password: password, Role: identity.Viewer})
	require.NoError(t, err)
	require.Empty(t, name(p.idToken("9", "paul")))

	own := p.idToken("7", "olga")
	require.Equal(t, http.StatusConflict, call(own, http.MethodGet, "/passkeys", nil).status)
	require.Equal(t, http.StatusForbidden, call(own, http.MethodPut, "/users/olga/password",
		access.PasswordChange{Old: password, New: password}).status)
	disabled := true
	_, err = s.People.Update(ctx, "olga", people.Change{Disabled: &disabled})
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, call(own, http.MethodGet, "/whoami", nil).status)
}

// TestBearer_saysWhyItIsRefused sends ID tokens that are refused. The answer, the log and the audit
// trail say why, without the token.
func TestBearer_saysWhyItIsRefused(t *testing.T) {
	p := newProvider(t)
	clock := clockwork.NewFakeClockAt(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	s := newService(t, func(s *access.Service) { s.OIDC = p.client(t, clock) })
	signed := func(audience, issuer string, end time.Time) string {
		return oidctest.SignIDToken(p.key, "k", upstream.ES256, fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"7",`+
			`"preferred_username":"olga","groups":["operators"],"iat":%d,"exp":%d}`, issuer, audience,
			end.Add(-time.Minute).Unix(), end.Unix()))
	}
	soon := clock.Now().Add(time.Minute)
	for _, c := range []struct{ name, token, reason string }{
		{"audience", signed("builder", p.URL, soon), "expected audience"},
		{"issuer", signed("landfall", "https://other.example.com", soon), "the token is not an ID token of " + p.URL},
		{"expired", signed("landfall", p.URL, soon.Add(-time.Hour)), "the token expired at 2026-01-01T11:01:00Z"},
		{"signature", signed("landfall", p.URL, soon) + "A", "the token is not valid for this appliance"},
		{"name", p.idToken("8", "ada"), "another person's account has this name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.browser().send(http.MethodPost, "/tokens", nil, "Authorization", "Bearer "+c.token)
			require.Equal(t, http.StatusUnauthorized, got.status)
			require.Contains(t, string(got.body), "the ID token in the header Authorization was refused")
			page, err := s.trail.List(t.Context(), audittrail.Filter{})
			require.NoError(t, err)
			trail, err := json.Marshal(page)
			require.NoError(t, err)
			for place, text := range map[string]string{"answer": string(got.body), "log": s.log.String()} {
				require.Contains(t, text, c.reason, place)
				require.NotContains(t, text, c.token, place)
			}
			require.Contains(t, string(trail), "was refused: ")
			require.NotContains(t, string(trail), c.token)
		})
	}
	for range 100 {
		s.browser().send(http.MethodGet, "/tokens", nil, "Authorization", "Bearer "+signed("builder", p.URL, soon))
	}
	require.LessOrEqual(t, strings.Count(s.log.String(), "An ID token was refused"), 10)

	got := s.browser().send(http.MethodGet, "/tokens", nil, "Authorization", "Bearer lf_unknown")
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Contains(t, string(got.body), "is unknown, has expired or was revoked")
}

// Nobody knows whether the token is valid.
func TestBearer_unreachableProvider(t *testing.T) {
	p := newProvider(t)
	s := newService(t, func(s *access.Service) { s.OIDC = p.client(t, clockwork.NewRealClock()) })
	token := p.idToken("7", "olga")
	p.Close()
	got := s.browser().send(http.MethodGet, "/passkeys", nil, "Authorization", "Bearer "+token)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, string(got.body), "the identity provider "+p.URL+" cannot be used at the moment")
}

// A browser that begins the login opens the path itself, so the reason is a page.
func TestLogin_unreachableProvider(t *testing.T) {
	p := newProvider(t)
	s := newService(t, func(s *access.Service) { s.OIDC = p.client(t, clockwork.NewRealClock()) })
	p.Close()
	requests := 0
	for accept, kind := range map[string]string{"text/html,*/*;q=0.8": "text/html",
		"application/json": "application/json"} {
		requests++
		got := s.browser().send(http.MethodGet, "/login/oidc", nil, "Accept", accept)
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Contains(t, got.header.Get("Content-Type"), kind)
		const reason = "the identity provider "
		require.Contains(t, string(got.body), reason+p.URL+" cannot be used at the moment")
		require.Equal(t, requests, strings.Count(s.log.String(), reason), "the log says why the login failed")
	}
}

// logIn begins a login, and returns the URL with the answer of the provider.
func (p *provider) logIn(t *testing.T, b *browser) string {
	t.Helper()
	begun := b.send(http.MethodGet, "/login/oidc", nil)
	require.Equal(t, http.StatusFound, begun.status, "%s", begun.body)
	require.Contains(t, begun.header.Get("Set-Cookie"), "SameSite=Lax")
	client := p.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	asked, err := client.Get(begun.header.Get("Location"))
	require.NoError(t, err)
	require.NoError(t, asked.Body.Close())
	return asked.Header.Get("Location")
}

// The second tab replaces the cookie of the first.
func TestLogin_twoTabs(t *testing.T) {
	p := newProvider(t)
	s := newService(t, nil)
	s.OIDC = p.client(t, s.clock)
	b := s.browser()
	first, second := p.logIn(t, b), p.logIn(t, b)
	refused := b.send(http.MethodGet, first, nil)
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Contains(t, string(refused.body), "begin again")
	require.Equal(t, http.StatusOK, b.send(http.MethodGet, second, nil).status, "the other tab goes on")
	require.Equal(t, "olga", b.whoami())
}

func TestLogin_openIDConnect(t *testing.T) {
	p := newProvider(t)
	s := newService(t, nil)
	s.OIDC = p.client(t, s.clock)

	b := s.browser()
	back := p.logIn(t, b)
	require.Contains(t, back, "https://"+host+access.BasePath+"/login/oidc/callback?")

	require.Equal(t, http.StatusBadRequest, s.browser().send(http.MethodGet, back, nil).status,
		"another browser, which began no login")
	got := b.send(http.MethodGet, back, nil)
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	require.Equal(t, "olga", b.whoami())
	var who access.Whoami
	require.NoError(t, json.Unmarshal(b.send(http.MethodGet, "/whoami", nil).body, &who))
	require.Equal(t, "operator", who.Role.String())
	require.NotEqual(t, http.StatusOK, b.send(http.MethodGet, back, nil).status, "an answer is valid once")

	page, err := s.trail.List(t.Context(), audittrail.Filter{Operation: "finishOIDCLogin"})
	require.NoError(t, err)
	var kinds []audittrail.Kind
	for _, item := range page.Items {
		kinds = append(kinds, item.Kind)
	}
	require.Equal(t, []audittrail.Kind{audittrail.Refused, audittrail.Event, audittrail.Refused}, kinds)
	require.Equal(t, "olga", page.Items[1].Actor.Name)
	require.Equal(t, "operator", page.Items[1].Actor.Role)
}
