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
	"testing"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/external"
	"landfall/appliance/access/oidc"
	"landfall/web/access"
)

// provider is an OpenID Connect provider that logs in olga, a member of the group operators.
type provider struct {
	*httptest.Server
	clock interface{ Now() time.Time }
	nonce string // of the last login
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	described := &oidctest.Server{Algorithms: []string{upstream.ES256},
		PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: upstream.ES256}}}
	p := &provider{}
	mux := http.NewServeMux()
	mux.Handle("/", described)
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		p.nonce = r.URL.Query().Get("nonce")
		back := url.Values{"code": {"c"}, "state": {r.URL.Query().Get("state")}}
		http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		claims := fmt.Sprintf(`{"iss":%q,"aud":"landfall","sub":"7","preferred_username":"olga",`+
			`"groups":["operators"],"nonce":%q,"iat":%d,"exp":%d}`, p.URL, p.nonce, p.clock.Now().Unix(),
			p.clock.Now().Add(time.Minute).Unix())
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"a","token_type":"Bearer","id_token":%q}`,
			oidctest.SignIDToken(key, "k", upstream.ES256, claims))
	})
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	described.SetIssuer(p.URL)
	return p
}

func TestLogin_openIDConnect(t *testing.T) {
	p := newProvider(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: p.Certificate().Raw}), 0o600))
	s := newService(t, nil)
	p.clock = s.clock
	var err error
	s.OIDC, err = oidc.New(oidc.Options{Issuer: p.URL, ClientID: "landfall", CABundle: ca, Clock: s.clock,
		NameClaim: "preferred_username", GroupsClaim: "groups",
		Rules: external.Rules{Operators: []string{"operators"}}})
	require.NoError(t, err)
	t.Cleanup(s.OIDC.Close)

	b := s.browser()
	begun := b.send(http.MethodGet, "/login/oidc", nil)
	require.Equal(t, http.StatusFound, begun.status, "%s", begun.body)
	require.Contains(t, begun.header.Get("Set-Cookie"), "SameSite=Lax")
	client := p.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	asked, err := client.Get(begun.header.Get("Location"))
	require.NoError(t, err)
	require.NoError(t, asked.Body.Close())
	back := asked.Header.Get("Location")
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
}
