package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/external"
	"landfall/appliance/access/oidc"
)

const (
	client   = "landfall"
	secret   = "a secret+with/signs"
	redirect = "https://landfall.example.com:8090/login/oidc"
)

// The clock of each test starts at the first of these times.
var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	epoch = time.Unix(0, 0)
)

// testProvider is a small OpenID Connect provider. Its fields change its answers.
type testProvider struct {
	*httptest.Server
	clock *clockwork.FakeClock

	lock        sync.Mutex
	key         signer
	keys        []jose.JSONWebKey
	codes       map[string]url.Values // code -> the query of the authorization request
	requests    map[string]int        // path -> number of requests
	description func(map[string]any)
	claims      func(map[string]any)
	info        map[string]any
	sign        func(claims map[string]any) string // instead of the key
	answer      map[string]http.HandlerFunc        // path -> instead of the provider's own answer
}

type signer struct {
	id  string
	key *ecdsa.PrivateKey
}

func newTestProvider(t *testing.T) *testProvider {
	t.Helper()
	p := &testProvider{clock: clockwork.NewFakeClockAt(start), codes: map[string]url.Values{},
		requests: map[string]int{}, answer: map[string]http.HandlerFunc{}}
	p.rotate(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", p.describe)
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w,
			jose.JSONWebKeySet{Keys: p.keys})
	})
	mux.HandleFunc("/token", p.token)
	mux.HandleFunc("/info", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.info) })
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.lock.Lock()
		p.requests[r.URL.Path]++
		own := p.answer[r.URL.Path]
		p.lock.Unlock()
		if own != nil {
			own(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// rotate replaces the key with which the provider signs.
func (p *testProvider) rotate(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p.key = signer{rand.Text(), key}
	p.keys = []jose.JSONWebKey{{Key: key.Public(), KeyID: p.key.id, Algorithm: "ES256", Use: "sig"}}
}

func (p *testProvider) describe(w http.ResponseWriter, _ *http.Request) {
	description := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/info",
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"},
	}
	if p.description != nil {
		p.description(description)
	}
	answer(w, description)
}

// logIn is what the person does at the provider's page. It returns the query of the redirect.
func (p *testProvider) logIn(t *testing.T, page string) url.Values {
	t.Helper()
	target, err := url.Parse(page)
	require.NoError(t, err)
	query := target.Query()
	require.Equal(t, p.URL+"/authorize", target.Scheme+"://"+target.Host+target.Path)
	require.Equal(t, client, query.Get("client_id"))
	require.Equal(t, redirect, query.Get("redirect_uri"))
	require.Equal(t, "code", query.Get("response_type"))
	require.Equal(t, "S256", query.Get("code_challenge_method"))
	require.NotEmpty(t, query.Get("nonce"))
	code := rand.Text()
	p.codes[code] = query
	return url.Values{"code": {code}, "state": {query.Get("state")}}
}

func (p *testProvider) token(w http.ResponseWriter, r *http.Request) {
	id, password, _ := r.BasicAuth()
	query, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	refuse := func(code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": code})
	}
	switch {
	case id != client || password != url.QueryEscape(secret):
		refuse("invalid_client")
		return
	case !known || query.Get("redirect_uri") != r.FormValue("redirect_uri") ||
		query.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]):
		refuse("invalid_grant")
		return
	}
	claims := p.idToken()
	claims["nonce"] = query.Get("nonce")
	answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": p.signed(claims)})
}

// idToken returns the claims of a token for ana.
func (p *testProvider) idToken() map[string]any {
	now := p.clock.Now()
	return map[string]any{"iss": p.URL, "sub": "42", "aud": client, "iat": now.Unix(),
		"exp": now.Add(time.Hour).Unix(), "preferred_username": "ana", "groups": []string{"crew", "staff"}}
}

func (p *testProvider) signed(claims map[string]any) string {
	if p.claims != nil {
		p.claims(claims)
	}
	if p.sign != nil {
		return p.sign(claims)
	}
	return sign(jose.ES256, p.key.key, p.key.id, claims)
}

func sign(algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		panic(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	token, err := made.Sign(payload)
	if err != nil {
		panic(err)
	}
	text, err := token.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

// unsigned returns a token with the algorithm "none".
func unsigned(claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	coded := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf("%s.%s.", coded([]byte(`{"alg":"none","typ":"JWT"}`)), coded(payload))
}

// publicAsSecret signs a token with the provider's public key as the shared secret of HMAC.
func (p *testProvider) publicAsSecret(t *testing.T) func(map[string]any) string {
	t.Helper()
	public, err := p.key.key.PublicKey.Bytes()
	require.NoError(t, err)
	return func(claims map[string]any) string { return sign(jose.HS256, public, p.key.id, claims) }
}

// options returns options for this provider.
func (p *testProvider) options(t *testing.T) oidc.Options {
	t.Helper()
	dir := t.TempDir()
	ca, password := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: p.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(password, []byte(secret+"\n"), 0o600))
	return oidc.Options{
		Issuer: p.URL, ClientID: client, ClientSecretFile: password, Scopes: []string{"profile", "groups"},
		CABundle:  ca,
		NameClaim: "preferred_username", GroupsClaim: "groups", Clock: p.clock,
		Rules: external.Rules{Operators: []string{"crew"}},
	}
}

func (p *testProvider) new(t *testing.T) *oidc.Provider {
	t.Helper()
	made, err := oidc.New(p.options(t))
	require.NoError(t, err)
	t.Cleanup(made.Close)
	return made
}
