package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// home gives the test a configuration directory of its own, and no variables of the commands.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv(tokenVariable, "")
	t.Setenv(urlVariable, "")
	t.Setenv(caVariable, "")
	t.Chdir(dir)
	return dir
}

func store(t *testing.T, contexts ...Context) {
	t.Helper()
	all, err := LoadContexts()
	require.NoError(t, err)
	for _, one := range contexts {
		all.Put(one)
	}
	require.NoError(t, all.Save())
}

// authorizations returns a server that records the header Authorization, and answers with a status.
func authorizations(t *testing.T, status int, secure bool) (server *httptest.Server, received func() []string) {
	t.Helper()
	var headers []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header.Get("Authorization"))
		w.WriteHeader(status)
	})
	if secure {
		server = httptest.NewTLSServer(handler)
	} else {
		server = httptest.NewServer(handler)
	}
	t.Cleanup(server.Close)
	return server, func() []string { return headers }
}

func authorityOf(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// foreignAuthority returns a certificate authority that signed no certificate.
func foreignAuthority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	certificate, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)},
		&x509.Certificate{}, key.Public(), key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
}

func TestClient_findsApplianceAndToken(t *testing.T) {
	first, second := "http://127.0.0.1:1", "http://127.0.0.1:2"
	cases := map[string]struct {
		flag, variable, token, wantURL, wantToken string
	}{
		"current context":             {"", "", "", second, "t2"},
		"flag":                        {first + "/", "", "", first, "t1"},
		"variable":                    {"", first, "", first, "t1"},
		"flag before variable":        {second, first, "", second, "t2"},
		"token of the variable":       {"", "", "own", second, "own"},
		"appliance without a login":   {"http://127.0.0.1:3", "", "", "http://127.0.0.1:3", ""},
		"token for any appliance":     {"http://127.0.0.1:3", "", "own", "http://127.0.0.1:3", "own"},
		"this machine without scheme": {"127.0.0.1:1/", "", "", first, "t1"},
		"variable without scheme":     {"", "localhost:9", "", "http://localhost:9", ""},
		"host without scheme":         {"bastion.example.com", "", "", "https://bastion.example.com", ""},
		"IPv6 without scheme":         {"[::1]:9", "", "", "http://[::1]:9", ""},
		"another port is no context":  {"http://127.0.0.1", "", "", "http://127.0.0.1", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			home(t)
			store(t, Context{Name: "a", URL: first, Token: "t1"}, Context{Name: "b", URL: second, Token: "t2"})
			t.Setenv(urlVariable, c.variable)
			t.Setenv(tokenVariable, c.token)
			found, err := New(c.flag, "").find()
			require.NoError(t, err)
			require.Equal(t, c.wantURL, found.url)
			require.Equal(t, c.wantToken, found.token)
		})
	}
}

func TestClient_sendsTokenToAppliance(t *testing.T) {
	home(t)
	server, received := authorizations(t, http.StatusOK, true)
	other, foreign := authorizations(t, http.StatusOK, false)
	redirecting := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer redirecting.Close()
	store(t, Context{Name: "a", URL: server.URL, CA: authorityOf(server), Token: "secret"},
		Context{Name: "b", URL: redirecting.URL, Token: "secret"})
	require.NoError(t, New(server.URL, "").Call(t.Context(), http.MethodGet, "/", nil, nil))
	require.Equal(t, []string{"Bearer secret"}, received())
	require.NoError(t, New(server.URL, "").Anonymous().Call(t.Context(), http.MethodGet, "/", nil, nil))
	require.Equal(t, []string{"Bearer secret", ""}, received())
	require.NoError(t, New(redirecting.URL, "").Call(t.Context(), http.MethodGet, "/", nil, nil))
	require.Equal(t, []string{""}, foreign(), "another server gets no token")
}

func TestClient_applianceOfADirectory(t *testing.T) {
	dir := home(t)
	server, received := authorizations(t, http.StatusOK, true)
	store(t, Context{Name: "elsewhere", URL: server.URL, CA: foreignAuthority(t), Token: "stored"})
	of := func(arguments ...string) *Client {
		c, flags := new(Client), pflag.NewFlagSet("", pflag.ContinueOnError)
		c.AddFlagsOf(&dir, flags)
		require.NoError(t, flags.Parse(arguments))
		return c
	}
	url, err := of().URL()
	require.NoError(t, err)
	require.Equal(t, DefaultURL, url, "the current login is at another appliance")
	require.Error(t, of("--url", server.URL).Call(t.Context(), http.MethodPost, "/", nil, nil))
	require.NoError(t, os.WriteFile(filepath.Join(dir, caFile), []byte(authorityOf(server)), 0o600))
	require.NoError(t, of("--url", server.URL).Call(t.Context(), http.MethodPost, "/", nil, nil))
	require.Equal(t, []string{""}, received())
}

func TestClient_missingLoginIsOneSentence(t *testing.T) {
	home(t)
	server, _ := authorizations(t, http.StatusUnauthorized, false)
	err := New(server.URL, "").Call(t.Context(), http.MethodGet, "/", nil, nil)
	require.EqualError(t, err, "the appliance at "+server.URL+" requires a login; run landfall login --url "+server.URL)
	store(t, Context{Name: "a", URL: server.URL, Token: "old"})
	err = New(server.URL, "").Call(t.Context(), http.MethodGet, "/", nil, nil)
	require.ErrorContains(t, err, "does not accept the stored login, which may have ended; run landfall login")
	t.Setenv(tokenVariable, "x")
	err = New(server.URL, "").Call(t.Context(), http.MethodGet, "/", nil, nil)
	require.ErrorContains(t, err, "does not accept the token in LANDFALL_TOKEN")
}

func TestClient_unknownAuthorityIsOneSentence(t *testing.T) {
	dir := home(t)
	server, _ := authorizations(t, http.StatusOK, true)
	client := New(server.URL, "")
	unknown, err := client.Untrusted(t.Context())
	require.NoError(t, err)
	require.True(t, unknown)
	err = client.Call(t.Context(), http.MethodGet, "/", nil, nil)
	require.ErrorContains(t, err, "is not signed by a known authority; run landfall login")

	file := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(file, []byte(foreignAuthority(t)), 0o600))
	err = New(server.URL, file).Call(t.Context(), http.MethodGet, "/", nil, nil)
	require.ErrorContains(t, err, "is not signed by the authority in "+file)

	require.NoError(t, os.WriteFile(file, []byte(authorityOf(server)), 0o600))
	require.NoError(t, New(server.URL, file).Call(t.Context(), http.MethodGet, "/", nil, nil))
	require.NoError(t, os.Mkdir("landfall-data", 0o700))
	require.NoError(t, os.Rename(file, filepath.Join("landfall-data", caFile)))
	require.NoError(t, New(server.URL, "").Call(t.Context(), http.MethodGet, "/", nil, nil), "the appliance's machine")
}

func TestFetchAuthority_checksItAgainstCertificate(t *testing.T) {
	home(t)
	var told string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := w.Write([]byte(told)); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	told = authorityOf(server)
	authority, err := FetchAuthority(t.Context(), server.URL)
	require.NoError(t, err)
	require.Equal(t, told, authority.PEM)
	require.Regexp(t, `^([0-9A-F]{2}:){31}[0-9A-F]{2}$`, authority.Fingerprint)
	told = "no certificate"
	_, err = FetchAuthority(t.Context(), server.URL)
	require.ErrorContains(t, err, "name the file with --ca")
}

func TestContexts_fileIsPrivate(t *testing.T) {
	dir := home(t)
	store(t, Context{Name: "a", URL: "https://a", Token: "secret"})
	path := filepath.Join(dir, "landfall", "contexts.json")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = LoadContexts()
	require.ErrorContains(t, err, "others may have read the tokens in it")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = LoadContexts()
	require.ErrorContains(t, err, "cannot be read")
}
