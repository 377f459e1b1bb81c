package oidctest

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dexidp/dex/server"
	"github.com/dexidp/dex/storage"
	"github.com/dexidp/dex/storage/memory"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/oidc"
	"landfall/appliance/fault"
)

const redirect = "https://landfall.example.com:8090/login/oidc"

// dex is a dex server with one connector.
type dex struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]
}

func startDex(t *testing.T, connector, config string) *dex {
	t.Helper()
	d := &dex{}
	d.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*d.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(d.Close)
	d.install(t, connector, config)
	return d
}

// install replaces the server by a new one with an empty storage and new keys.
func (d *dex) install(t *testing.T, connector, config string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	data := memory.New(log)
	require.NoError(t, data.CreateClient(t.Context(), storage.Client{ID: "landfall", Secret: "a secret",
		RedirectURIs: []string{redirect}, TrustedPeers: []string{"builder"}, Name: "Landfall"}))
	require.NoError(t, data.CreateClient(t.Context(), storage.Client{ID: "builder", Secret: "another secret",
		RedirectURIs: []string{"http://127.0.0.1/callback"}, Name: "a program"}))
	require.NoError(t, data.CreateConnector(t.Context(), storage.Connector{ID: "site", Type: connector, Name: "Site",
		Config: []byte(config)}))
	made, err := server.NewServer(t.Context(), server.Config{Issuer: d.URL + "/dex", Storage: data, Logger: log,
		SkipApprovalScreen: true})
	require.NoError(t, err)
	var handler http.Handler = made
	d.handler.Store(&handler)
}

// browser follows dex's redirects with cookies, up to the first URL outside dex.
func (d *dex) browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := *d.Client()
	browser.Jar = jar
	browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), d.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return &browser
}

// visit returns the query with which dex sent the browser back, or the page that dex shows.
func visit(t *testing.T, browser *http.Client, page string) (back url.Values, shown string, at *url.URL) {
	t.Helper()
	response, err := browser.Get(page)
	require.NoError(t, err)
	return result(t, response)
}

func result(t *testing.T, response *http.Response) (back url.Values, shown string, at *url.URL) {
	t.Helper()
	defer response.Body.Close()
	if target, err := response.Location(); err == nil {
		return target.Query(), "", target
	}
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return nil, string(text), response.Request.URL
}

func (d *dex) provider(t *testing.T) *oidc.Provider {
	t.Helper()
	dir := t.TempDir()
	ca, secret := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: d.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(secret, []byte("a secret\n"), 0o600))
	provider, err := oidc.New(oidc.Options{
		Issuer: d.URL + "/dex", ClientID: "landfall", ClientSecretFile: secret, CABundle: ca,
		Scopes: []string{"profile", "email", "groups"}, NameClaim: "email", GroupsClaim: "groups",
		Rules: external.Rules{Operators: []string{"authors"}}, Clock: clockwork.NewRealClock(),
	})
	require.NoError(t, err)
	t.Cleanup(provider.Close)
	return provider
}

// The connector mockCallback knows one person, who is in the group "authors".
func TestDex_personWithGroups(t *testing.T) {
	d := startDex(t, "mockCallback", "{}")
	provider := d.provider(t)
	logIn := func() {
		begun, err := provider.Begin(t.Context(), redirect)
		require.NoError(t, err)
		query, shown, at := visit(t, d.browser(t), begun.URL)
		require.Empty(t, shown)
		require.True(t, strings.HasPrefix(at.String(), redirect+"?"), at)
		person, err := provider.Finish(t.Context(), begun.Cookie, query)
		require.NoError(t, err)
		require.Equal(t, "kilgore@kilgore.trout", person.Name)
		require.Equal(t, []string{"authors"}, person.Groups)
		require.Equal(t, access.Operator, person.Role)
		require.Equal(t, d.URL+"/dex", person.Issuer)
		require.NotEmpty(t, person.Subject)

		_, err = provider.Finish(t.Context(), begun.Cookie, query)
		require.Error(t, err, "a second time")
	}
	logIn()
	d.install(t, "mockCallback", "{}")
	logIn() // with the new keys
}

func TestDex_codeIsBoundToItsLogin(t *testing.T) {
	d := startDex(t, "mockCallback", "{}")
	provider := d.provider(t)
	mine, err := provider.Begin(t.Context(), redirect)
	require.NoError(t, err)
	other, err := provider.Begin(t.Context(), redirect)
	require.NoError(t, err)
	query, _, _ := visit(t, d.browser(t), mine.URL)
	stolen, _, _ := visit(t, d.browser(t), other.URL)
	query.Set("code", stolen.Get("code"))
	_, err = provider.Finish(t.Context(), mine.Cookie, query)
	require.ErrorContains(t, err, "code is no longer valid", "dex checks PKCE")
}

var formTarget = regexp.MustCompile(`<form method="post" action="([^"]+)"`)

// The connector mockPassword has a form, and reports no groups.
func TestDex_passwordFormAndNoGroups(t *testing.T) {
	d := startDex(t, "mockPassword", `{"username": "kilgore", "password": "mother night"}`)
	provider := d.provider(t)
	begun, err := provider.Begin(t.Context(), redirect)
	require.NoError(t, err)
	browser := d.browser(t)
	_, shown, at := visit(t, browser, begun.URL)
	send := func(password string) (url.Values, string) {
		t.Helper()
		form := formTarget.FindStringSubmatch(shown)
		require.NotNil(t, form, shown)
		target, err := at.Parse(strings.ReplaceAll(form[1], "&amp;", "&"))
		require.NoError(t, err)
		response, err := browser.PostForm(target.String(), url.Values{"login": {"kilgore"}, "password": {password}})
		require.NoError(t, err)
		back, page, _ := result(t, response)
		return back, page
	}
	back, page := send("cat's cradle")
	require.Nil(t, back)
	require.Contains(t, page, "login-error")
	back, _ = send("mother night")
	person, err := provider.Finish(t.Context(), begun.Cookie, back)
	require.Equal(t, fault.Forbidden, fault.KindOf(err))
	require.ErrorContains(t, err, "kilgore@kilgore.trout has no role at this appliance")
	require.Equal(t, access.None, person.Role)
}

// A program gets its ID token as a client of its own, which the appliance's client trusts.
func TestDex_tokenOfAProgram(t *testing.T) {
	d := startDex(t, "mockCallback", "{}")
	provider := d.provider(t)
	token := func(scope string) string {
		t.Helper()
		query := url.Values{"client_id": {"builder"}, "redirect_uri": {"http://127.0.0.1/callback"},
			"response_type": {"code"}, "scope": {scope}, "state": {"x"}}
		back, _, _ := visit(t, d.browser(t), d.URL+"/dex/auth?"+query.Encode())
		return d.exchange(t.Context(), t, back.Get("code"))
	}
	_, err := provider.VerifyBearer(t.Context(), token("openid email groups"))
	require.ErrorContains(t, err, `expected audience "landfall" got ["builder"]`)
	person, err := provider.VerifyBearer(t.Context(), token("openid email groups audience:server:client_id:landfall"))
	require.NoError(t, err)
	require.Equal(t, access.Operator, person.Role)
}

// exchange exchanges a code of the client "builder" for an ID token.
func (d *dex) exchange(ctx context.Context, t *testing.T, code string) string {
	t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code},
		"redirect_uri": {"http://127.0.0.1/callback"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL+"/dex/token",
		strings.NewReader(form.Encode()))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("builder", url.QueryEscape("another secret"))
	response, err := d.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	var tokens struct {
		IDToken string `json:"id_token"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&tokens))
	require.NotEmpty(t, tokens.IDToken)
	return tokens.IDToken
}
