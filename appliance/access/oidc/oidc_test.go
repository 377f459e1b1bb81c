package oidc_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/loginstate"
	"landfall/appliance/access/oidc"
	"landfall/appliance/fault"
)

// finish runs a whole login.
func finish(t *testing.T, p *testProvider, subject *oidc.Provider) (external.Person, error) {
	t.Helper()
	begun, err := subject.Begin(t.Context(), redirect)
	if err != nil {
		return external.Person{}, err
	}
	return subject.Finish(t.Context(), begun.Cookie, p.logIn(t, begun.URL))
}

func TestLogin_personWithRole(t *testing.T) {
	p := newTestProvider(t)
	subject := p.new(t)
	begun, err := subject.Begin(t.Context(), redirect)
	require.NoError(t, err)
	require.Equal(t, 15*time.Minute, begun.Lifetime)
	require.Contains(t, begun.URL, "scope=openid+profile+groups")
	query := p.logIn(t, begun.URL)
	person, err := subject.Finish(t.Context(), begun.Cookie, query)
	require.NoError(t, err)
	require.Equal(t, external.Person{Issuer: p.URL, Subject: "42", Name: "ana", Groups: []string{"crew", "staff"},
		Role: access.Operator}, person)
	require.Equal(t, 0, p.requests["/info"], "the ID token has everything")

	_, err = subject.Finish(t.Context(), begun.Cookie, query)
	require.ErrorIs(t, err, loginstate.ErrSpent)
}

func TestLogin_boundToTheBrowser(t *testing.T) {
	p := newTestProvider(t)
	subject := p.new(t)
	mine, err := subject.Begin(t.Context(), redirect)
	require.NoError(t, err)
	other, err := subject.Begin(t.Context(), redirect)
	require.NoError(t, err)
	query := p.logIn(t, mine.URL)
	for name, cookie := range map[string]string{"another browser's": other.Cookie, "none": "", "made up": "AAAA"} {
		_, err := subject.Finish(t.Context(), cookie, query)
		require.ErrorIs(t, err, loginstate.ErrForeign, name)
	}
	for name, values := range map[string]url.Values{
		"no state": {"code": query["code"]}, "another state": {"code": query["code"], "state": {"x"}},
	} {
		_, err := subject.Finish(t.Context(), mine.Cookie, values)
		require.ErrorIs(t, err, loginstate.ErrForeign, name)
	}
	_, err = p.new(t).Finish(t.Context(), mine.Cookie, query)
	require.ErrorIs(t, err, loginstate.ErrForeign, "after a restart")
	require.Zero(t, p.requests["/token"], "the code went nowhere")

	p.clock.Advance(15 * time.Minute)
	_, err = subject.Finish(t.Context(), mine.Cookie, query)
	require.ErrorIs(t, err, loginstate.ErrExpired)
}

func TestLogin_codeOfAnotherLogin(t *testing.T) {
	p := newTestProvider(t)
	subject := p.new(t)
	mine, err := subject.Begin(t.Context(), redirect)
	require.NoError(t, err)
	other, err := subject.Begin(t.Context(), redirect)
	require.NoError(t, err)
	query := p.logIn(t, mine.URL)
	query["code"] = p.logIn(t, other.URL)["code"]
	_, err = subject.Finish(t.Context(), mine.Cookie, query)
	require.EqualError(t, err, "the identity provider's code is no longer valid; begin the login again", "PKCE")
}

func TestLogin_answersThatEndIt(t *testing.T) {
	for name, test := range map[string]struct {
		query url.Values
		want  string
	}{
		"not permitted": {url.Values{"error": {"access_denied"}, "error_description": {"Not today.\n"}},
			"the identity provider did not permit the login (access_denied: Not today); ask its administrator"},
		"long reason": {url.Values{"error": {strings.Repeat("a", 10_000)}}, "…); ask its administrator"},
		"no code":     {url.Values{}, "sent no code"},
		"another issuer": {url.Values{"iss": {"https://evil.example.com"}, "code": {"x"}},
			"answered by another identity provider"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestProvider(t)
			subject := p.new(t)
			begun, err := subject.Begin(t.Context(), redirect)
			require.NoError(t, err)
			query := p.logIn(t, begun.URL)
			query.Del("code")
			maps.Copy(query, test.query)
			_, err = subject.Finish(t.Context(), begun.Cookie, query)
			require.ErrorContains(t, err, test.want)
			require.Less(t, len(err.Error()), 400)
			require.Zero(t, p.requests["/token"])
		})
	}
}

func TestLogin_namedIssuerIsRequired(t *testing.T) {
	p := newTestProvider(t)
	p.description = func(d map[string]any) { d["authorization_response_iss_parameter_supported"] = true }
	subject := p.new(t)
	begun, err := subject.Begin(t.Context(), redirect)
	require.NoError(t, err)
	query := p.logIn(t, begun.URL)
	_, err = subject.Finish(t.Context(), begun.Cookie, query)
	require.ErrorContains(t, err, "answered by another identity provider")
	query.Set("iss", p.URL)
	_, err = subject.Finish(t.Context(), begun.Cookie, query)
	require.NoError(t, err)
}

// Each case changes the token of an otherwise correct provider.
func TestLogin_wrongTokens(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, p *testProvider)
		want   string
	}{
		"wrong issuer": {set("iss", "https://evil.example.com"), "issued by a different provider"},
		"wrong audience": {set("aud", "grafana"),
			`the token is not valid for this appliance: expected audience "landfall" got ["grafana"]`},
		"no audience":        {set("aud", nil), "expected audience"},
		"for another client": {set("azp", "grafana"), `the ID token was issued for the client "grafana"`},
		"wrong nonce":        {set("nonce", "x"), "its nonce is wrong"},
		"no nonce":           {set("nonce", nil), "its nonce is wrong"},
		"no subject":         {set("sub", nil), "lacks its subject"},
		"no end":             {set("exp", nil), "lacks its subject, its end"},
		"ends before it begins": {func(_ *testing.T, p *testProvider) {
			p.claims = func(c map[string]any) { c["exp"] = c["iat"].(int64) - 1 }
		}, "ends before it begins"},
		"not signed": {func(_ *testing.T, p *testProvider) { p.sign = unsigned }, "malformed jwt"},
		"the public key as shared secret": {func(t *testing.T, p *testProvider) { p.sign = p.publicAsSecret(t) },
			"malformed jwt"},
		"another key of the same name": {func(t *testing.T, p *testProvider) {
			published, id := p.keys, p.key.id
			p.rotate(t)
			p.keys, p.key.id = published, id
		}, "the token's signature is not by a key of the identity provider"},
		"not a token": {func(_ *testing.T, p *testProvider) { p.sign = func(map[string]any) string { return "x" } },
			"malformed"},
		"no name":         {set("preferred_username", nil), "its claim preferred_username is unusable"},
		"invisible name":  {set("preferred_username", "ana\u202e"), "its claim preferred_username is unusable"},
		"groups a number": {set("groups", 1), "its claim groups is not a list of groups"},
		"no groups": {set("groups", nil),
			"ana has no role at this appliance: none of the groups of ana is in oidc.roles"},
		"other groups": {set("groups", []string{"guests"}), "(groups: guests)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestProvider(t)
			p.description = func(d map[string]any) { delete(d, "userinfo_endpoint") }
			test.change(t, p)
			person, err := finish(t, p, p.new(t))
			require.ErrorContains(t, err, test.want)
			require.NotZero(t, fault.KindOf(err), "an error for people")
			require.Equal(t, access.None, person.Role)
		})
	}
}

// set sets a claim, or deletes it.
func set(name string, value any) func(*testing.T, *testProvider) {
	return func(_ *testing.T, p *testProvider) {
		p.claims = func(c map[string]any) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
}

func TestLogin_clocksDiffer(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, test := range map[string]struct {
		ahead time.Duration // of the appliance's clock
		want  string
	}{
		"same":               {0, ""},
		"four minutes ahead": {4 * time.Minute, ""},
		"four minutes late":  {-4 * time.Minute, ""},
		"ten minutes late":   {-10 * time.Minute, "differ by 10 minutes"},
		"a day ahead":        {24 * time.Hour, "differ by 24 hours"},
		"a year ahead":       {year, "differ by 365 days"},
		"a year late":        {-year, "differ by 365 days"},
		"in 1970":            {epoch.Sub(start), "(1970-01-01T00:00:00Z here"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestProvider(t)
			options := p.options(t)
			options.Clock = clockwork.NewFakeClockAt(p.clock.Now().Add(test.ahead))
			subject, err := oidc.New(options)
			require.NoError(t, err)
			defer subject.Close()
			person, err := finish(t, p, subject)
			if test.want == "" {
				require.NoError(t, err)
				require.Equal(t, access.Operator, person.Role)
				return
			}
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.ErrorContains(t, err, "the clocks of the appliance and of the identity provider differ by")
			require.ErrorContains(t, err, "correct the clock that is wrong, or log in with a local account meanwhile")
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestLogin_groupsOfUserInfo(t *testing.T) {
	for name, test := range map[string]struct {
		info map[string]any
		want string
	}{
		"the person's": {map[string]any{"sub": "42", "groups": []string{"crew"}, "preferred_username": "root"}, ""},
		"another person's": {map[string]any{"sub": "43", "groups": []string{"crew"}},
			"its user info is about another person"},
		"nobody's": {map[string]any{"groups": []string{"crew"}}, "its user info is about another person"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestProvider(t)
			set("groups", nil)(t, p)
			p.info = test.info
			person, err := finish(t, p, p.new(t))
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "ana", person.Name, "the ID token has priority")
			require.Equal(t, access.Operator, person.Role)
		})
	}
}

func TestClaims_whereGroupsAre(t *testing.T) {
	for name, test := range map[string]struct {
		claim string
		value map[string]any
	}{
		"nested": {"realm_access.roles",
			map[string]any{"realm_access": map[string]any{"roles": []string{"crew"}}}},
		"a name with a dot": {"https://example.com/groups",
			map[string]any{"https://example.com/groups": []string{"crew"}}},
		"one text": {"group", map[string]any{"group": "crew"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestProvider(t)
			p.claims = func(c map[string]any) { maps.Copy(c, test.value) }
			options := p.options(t)
			options.GroupsClaim = test.claim
			subject, err := oidc.New(options)
			require.NoError(t, err)
			defer subject.Close()
			person, err := finish(t, p, subject)
			require.NoError(t, err)
			require.Equal(t, []string{"crew"}, person.Groups)
		})
	}
}

func TestKeys_rotatedWhileRunning(t *testing.T) {
	p := newTestProvider(t)
	subject := p.new(t)
	_, err := finish(t, p, subject)
	require.NoError(t, err)
	old := p.signed(p.idToken())
	p.rotate(t)
	_, err = finish(t, p, subject)
	require.NoError(t, err, "a person's login accepts new keys at once")
	_, err = subject.VerifyBearer(t.Context(), old)
	require.ErrorContains(t, err, "signature is not by a key", "the old key ended")

	p.rotate(t)
	token := p.signed(p.idToken())
	p.clock.Advance(10 * time.Second)
	_, err = subject.VerifyBearer(t.Context(), token)
	require.NoError(t, err)
}

func TestKeys_wrongTokensDoNotFloodTheProvider(t *testing.T) {
	p := newTestProvider(t)
	subject := p.new(t)
	_, err := subject.VerifyBearer(t.Context(), p.signed(p.idToken()))
	require.NoError(t, err)
	good := p.signed(p.idToken())
	before := p.requests["/keys"]
	p.rotate(t) // the provider does not publish this key at once
	published := p.keys
	p.keys = nil
	for range 100 {
		_, err := subject.VerifyBearer(t.Context(), p.signed(p.idToken()))
		require.Error(t, err)
	}
	require.Equal(t, before, p.requests["/keys"], "within ten seconds of the last request")
	_, err = subject.VerifyBearer(t.Context(), good)
	require.NoError(t, err)
	p.keys = published
	p.clock.Advance(10 * time.Second)
	for range 100 {
		_, err := subject.VerifyBearer(t.Context(), unsigned(p.idToken()))
		require.Error(t, err)
	}
	require.Equal(t, before, p.requests["/keys"], "a token without a signature causes no request")
	_, err = subject.VerifyBearer(t.Context(), p.signed(p.idToken()))
	require.NoError(t, err)
	require.Equal(t, before+1, p.requests["/keys"])
}

func TestKeys_unreadableKeysRefuseNoToken(t *testing.T) {
	p := newTestProvider(t)
	p.answer["/keys"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	subject := p.new(t)
	for range 2 { // the second one within the pause
		_, err := subject.VerifyBearer(t.Context(), p.signed(p.idToken()))
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, "status 502")
	}
	require.Equal(t, 1, p.requests["/keys"])
	delete(p.answer, "/keys")
	p.clock.Advance(10 * time.Second)
	_, err := subject.VerifyBearer(t.Context(), p.signed(p.idToken()))
	require.NoError(t, err)
}

func TestBearer_whichTokensAreAccepted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*testing.T, *testProvider)
		want   string
	}{
		"an ID token":        {func(*testing.T, *testProvider) {}, ""},
		"of another program": {set("azp", "builder"), ""},
		"several audiences":  {set("aud", []string{"builder", client}), ""},
		"wrong audience":     {set("aud", "builder"), "expected audience"},
		"wrong issuer":       {set("iss", "https://evil.example.com"), "the token is not an ID token of https://"},
		"not signed":         {func(_ *testing.T, p *testProvider) { p.sign = unsigned }, "malformed jwt"},
		"public key as HMAC": {func(t *testing.T, p *testProvider) { p.sign = p.publicAsSecret(t) }, "malformed jwt"},
		"a logout token":     {set("events", map[string]any{}), "the token is not an ID token of"},
		"no role":            {set("groups", nil), "has no role"},
		"just expired":       {later(64 * time.Minute), ""},
		"expired":            {later(66 * time.Minute), "the token expired at "},
		"issued in a minute": {later(-time.Minute), ""},
		"issued in an hour":  {later(-time.Hour), "correct the clock that is wrong"},
		"valid in a minute":  {set("nbf", start.Add(time.Minute).Unix()), ""},
		"valid in an hour":   {set("nbf", start.Add(time.Hour).Unix()), "the token is not valid before "},
		"the clock is in 1970": {func(_ *testing.T, p *testProvider) {
			p.sign = func(c map[string]any) string {
				p.sign = nil
				token := p.signed(c)
				p.clock.Advance(epoch.Sub(start))
				return token
			}
		}, "the appliance's clock says 1970"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestProvider(t)
			test.change(t, p)
			person, err := p.new(t).VerifyBearer(t.Context(), p.signed(p.idToken()))
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				require.Equal(t, fault.Forbidden, fault.KindOf(err))
				require.Equal(t, access.None, person.Role)
				return
			}
			require.NoError(t, err)
			require.Equal(t, access.Operator, person.Role)
		})
	}
	p := newTestProvider(t)
	for name, text := range map[string]string{"empty": "", "ours": "lf_abc", "long": strings.Repeat("a.", 1<<20),
		"dots": "..", "not JSON": "e30.e30x.e30", "an encrypted token": "e30.e30.e30.e30.e30"} {
		_, err := p.new(t).VerifyBearer(t.Context(), text)
		require.Error(t, err, name)
	}
	require.Empty(t, p.requests, "such tokens cause no requests")
}

// later lets time pass between the issue of the token and its use.
func later(d time.Duration) func(*testing.T, *testProvider) {
	return func(_ *testing.T, p *testProvider) {
		p.claims = func(map[string]any) { p.clock.Advance(d) }
	}
}

// Each case is a provider that does not answer, or answers what it must not.
func TestProvider_faults(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	text := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		block := []byte(strings.Repeat(" ", 64<<10))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example.com/", http.StatusTemporaryRedirect)
	}
	const discovery = "/.well-known/openid-configuration"
	for name, test := range map[string]struct {
		path   string
		answer http.HandlerFunc
		want   string
	}{
		"broken description": {discovery, status(http.StatusInternalServerError),
			"cannot be used at the moment (500"},
		"no description":      {discovery, status(http.StatusNotFound), "cannot be used at the moment (404"},
		"not JSON":            {discovery, text("<html>"), "failed to decode provider discovery object"},
		"endless description": {discovery, endless, "more than 1048576 bytes"},
		"redirected":          {discovery, elsewhere, "cannot be used at the moment (307"},
		"another issuer": {discovery, text(`{"issuer": "https://evil.example.com"}`),
			`it calls itself "https://evil.example.com"`},
		"no keys":        {"/keys", status(http.StatusServiceUnavailable), "status 503"},
		"endless keys":   {"/keys", endless, "more than 1048576 bytes"},
		"keys elsewhere": {"/keys", elsewhere, "status 307"},
		"keys not JSON":  {"/keys", text("x"), "is not a set of keys"},
		"empty keys":     {"/keys", text("{}"), "signature is not by a key"},
		"unknown kinds of keys": {"/keys", text(`{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"new"},7]}`),
			"signature is not by a key"},
		"token refused":   {"/token", status(http.StatusInternalServerError), "status 500 for the code"},
		"token endless":   {"/token", endless, "cannot be used at the moment"},
		"token elsewhere": {"/token", elsewhere, "status 307 for the code"},
		"no ID token":     {"/token", text(`{"access_token":"x","token_type":"Bearer"}`), "it sent no ID token"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestProvider(t)
			p.answer[test.path] = test.answer
			_, err := finish(t, p, p.new(t))
			require.ErrorContains(t, err, test.want)
			require.Contains(t, []fault.Kind{fault.Unavailable, fault.Forbidden}, fault.KindOf(err))
			require.Less(t, len(err.Error()), 600)
		})
	}
	for name, change := range map[string]func(map[string]any){
		"http://":     func(d map[string]any) { d["token_endpoint"] = "http://evil.example.com/token" },
		"javascript:": func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" },
		"missing":     func(d map[string]any) { delete(d, "jwks_uri") },
		"info":        func(d map[string]any) { d["userinfo_endpoint"] = "http://evil.example.com/info" },
	} {
		p := newTestProvider(t)
		p.description = change
		_, err := p.new(t).Begin(t.Context(), redirect)
		require.ErrorContains(t, err, "not an https:// URL", name)
	}
}

func TestProvider_wrongSecretIsNamed(t *testing.T) {
	p := newTestProvider(t)
	options := p.options(t)
	require.NoError(t, os.WriteFile(options.ClientSecretFile, []byte("old"), 0o600))
	subject, err := oidc.New(options)
	require.NoError(t, err)
	defer subject.Close()
	_, err = finish(t, p, subject)
	require.ErrorContains(t, err, "correct oidc.client_id and the content of oidc.client_secret_file")
	require.NoError(t, os.Chmod(options.ClientSecretFile, 0o644))
	_, err = finish(t, p, subject)
	require.ErrorContains(t, err, "oidc.client_secret_file cannot be used")
	require.NoError(t, os.Chmod(options.ClientSecretFile, 0o600))
	require.NoError(t, os.WriteFile(options.ClientSecretFile, []byte(secret), 0o600))
	_, err = finish(t, p, subject)
	require.NoError(t, err, "a corrected secret needs no restart")
}

func TestProvider_downAtTheStart(t *testing.T) {
	p := newTestProvider(t)
	p.answer["/.well-known/openid-configuration"] = func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}
	subject := p.new(t)
	for range 50 {
		_, err := subject.Begin(t.Context(), redirect)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, "try again later, or log in with a local account")
	}
	// HTTP's client itself repeats a request whose connection ended.
	require.LessOrEqual(t, p.requests["/.well-known/openid-configuration"], 2, "a failed provider is left in peace")
	p.lock.Lock()
	delete(p.answer, "/.well-known/openid-configuration")
	p.lock.Unlock()
	p.clock.Advance(10 * time.Second)
	_, err := finish(t, p, subject)
	require.NoError(t, err)
}

func TestProvider_noServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	subject, err := oidc.New(oidc.Options{Issuer: "https://" + address, ClientID: client,
		Clock: clockwork.NewFakeClock()})
	require.NoError(t, err, "the appliance starts")
	_, err = subject.Begin(t.Context(), redirect)
	require.ErrorContains(t, err, "connection refused")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}

func TestProvider_silentServerEndsWithTheCaller(t *testing.T) {
	p := newTestProvider(t)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	p.answer["/token"] = func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // The server notices the end of the connection only after the body.
		cancel()
		<-r.Context().Done()
		close(ended)
		// The client ends TLS before it stops to read, so it could read an answer.
		panic(http.ErrAbortHandler)
	}
	subject := p.new(t)
	begun, err := subject.Begin(t.Context(), redirect)
	require.NoError(t, err)
	_, err = subject.Finish(ctx, begun.Cookie, p.logIn(t, begun.URL))
	require.ErrorIs(t, err, context.Canceled)
	<-ended
}

func TestProvider_unknownAuthority(t *testing.T) {
	p := newTestProvider(t)
	options := p.options(t)
	options.CABundle = ""
	subject, err := oidc.New(options)
	require.NoError(t, err)
	defer subject.Close()
	_, err = subject.Begin(t.Context(), redirect)
	require.ErrorContains(t, err, "write the authority's certificate into the file of oidc.ca_bundle")
}

func TestNew_invalidOptions(t *testing.T) {
	for name, test := range map[string]struct {
		options oidc.Options
		want    string
	}{
		"no issuer": {oidc.Options{ClientID: "x"}, "oidc.issuer"},
		"http":      {oidc.Options{Issuer: "http://id.example.com", ClientID: "x"}, "write an https:// URL"},
		"no client": {oidc.Options{Issuer: "https://id.example.com"}, "oidc.client_id is missing"},
		"no such file": {oidc.Options{Issuer: "https://id.example.com", ClientID: "x", CABundle: "/none"},
			"oidc.ca_bundle"},
	} {
		test.options.Clock = clockwork.NewFakeClock()
		_, err := oidc.New(test.options)
		require.ErrorContains(t, err, test.want, name)
	}
	for _, issuer := range []string{"http://127.0.0.1:5556/dex", "http://[::1]/", "http://localhost:8080/realms/site"} {
		_, err := oidc.New(oidc.Options{Issuer: issuer, ClientID: "x", Clock: clockwork.NewFakeClock()})
		require.NoError(t, err)
	}
}

func FuzzFinish_query(f *testing.F) {
	f.Add("", "code=x&state=y")
	subject, err := oidc.New(oidc.Options{Issuer: "https://127.0.0.1:1", ClientID: client,
		Clock: clockwork.NewFakeClock()})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, cookie, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		person, err := subject.Finish(t.Context(), cookie, query)
		require.Error(t, err)
		require.Zero(t, person)
		_, err = subject.VerifyBearer(t.Context(), text)
		require.Error(t, err)
		require.False(t, errors.As(err, new(*json.SyntaxError)), "an error for people")
	})
}
