package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/passkey/passkeytest"
	"landfall/appliance/authority"
	"landfall/appliance/config"
	"landfall/ignition"
	webaccess "landfall/web/access"
)

// setClock is a clock whose wall time can be set while it runs.
type setClock struct {
	*clockwork.FakeClock
	offset atomic.Int64
}

func newSetClock(at time.Time) *setClock { return &setClock{FakeClock: clockwork.NewFakeClockAt(at)} }

// Now implements clockwork.Clock.
func (c *setClock) Now() time.Time { return c.FakeClock.Now().Add(time.Duration(c.offset.Load())) }

// set sets the wall time. The time since an earlier moment, by the monotonic clock, remains.
func (c *setClock) set(at time.Time) { c.offset.Store(int64(at.Sub(c.FakeClock.Now()))) }

// timeless is a site without a correct time, and the browser of its administrator.
type timeless struct {
	*testing.T
	settings config.Config
	clock    *setClock
	running  *Appliance
	stop     func()
	browser  *http.Client
	device   virtualwebauthn.Authenticator
	key      virtualwebauthn.Credential
}

const (
	timelessHost  = "landfall.example.com"
	adminPassword = "correct horse battery staple"
)

func newTimeless(t *testing.T, at time.Time) *timeless {
	t.Helper()
	s := &timeless{T: t, settings: config.Default(), device: virtualwebauthn.NewAuthenticator()}
	s.settings.DataDir, s.settings.Listen, s.settings.BootListen = t.TempDir(), "127.0.0.1:0", "none"
	s.settings.AllowedHosts = []string{timelessHost}
	s.settings.ReleaseImages = []config.ReleaseImage{{OpenshiftVersion: "4.20.0", CPUArchitecture: "x86_64",
		URL: "quay.io/openshift-release-dev/ocp-release@sha256:" + strings.Repeat("0", 64)}}
	s.settings.Images.Agent = "registry.example.com/agent:v1"
	var err error
	s.key, err = passkeytest.NewCredential()
	require.NoError(t, err)
	s.start(at)
	t.Cleanup(func() { s.stop() })
	return s
}

// start starts the appliance with its clock at a time.
func (s *timeless) start(at time.Time) {
	s.Helper()
	s.clock = newSetClock(at)
	var err error
	s.running, err = open(s.Context(), s.settings, slog.New(slog.DiscardHandler), "test", s.clock, surroundings{})
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.running.Run(ctx) }()
	s.stop = func() {
		cancel()
		require.NoError(s, <-ended)
		s.stop = func() {}
	}
	jar, err := cookiejar.New(nil)
	require.NoError(s, err)
	if s.browser != nil {
		jar = s.browser.Jar.(*cookiejar.Jar) // the cookies of the former start
	}
	s.browser = &http.Client{Jar: jar, Transport: s.transport(at)}
}

// transport returns the transport of a client whose clock shows a time.
func (s *timeless) transport(at time.Time) *http.Transport {
	s.Helper()
	certificate, err := os.ReadFile(filepath.Join(s.settings.DataDir, authority.FileName))
	require.NoError(s, err)
	roots := x509.NewCertPool()
	require.True(s, roots.AppendCertsFromPEM(certificate))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Time: func() time.Time { return at }}}
	s.Cleanup(transport.CloseIdleConnections)
	return transport
}

// send sends a request, with a token or else with the browser's cookies, and decodes the answer.
func (s *timeless) send(client *http.Client, method, path, header, token string, body, into any) (status int) {
	s.Helper()
	text, err := json.Marshal(body)
	require.NoError(s, err)
	base := strings.Replace(s.running.LocalURL(), "http://", "https://", 1)
	r, err := http.NewRequestWithContext(s.Context(), method, base+path, bytes.NewReader(text))
	require.NoError(s, err)
	r.Host = timelessHost
	r.Header.Set("Content-Type", "application/json")
	if header != "" {
		r.Header.Set(header, token) // an agent without a token sends an empty header
	}
	response, err := client.Do(r)
	require.NoError(s, err, "%s %s", method, path)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	if into != nil {
		require.Less(s, response.StatusCode, 300, "%s %s: %s", method, path, content)
		require.NoError(s, json.Unmarshal(content, into), "%s", content)
	}
	return response.StatusCode
}

// post sends a change of the administrator's browser, which must succeed.
func (s *timeless) post(path string, body, into any) {
	s.Helper()
	s.send(s.browser, http.MethodPost, path, "", "", body, into)
}

// logIn logs in with the password and the passkey in a new browser.
func (s *timeless) logIn() {
	s.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(s, err)
	s.browser.Jar = jar
	var begun struct{ Passkey json.RawMessage }
	s.post(webaccess.BasePath+"/login", map[string]any{"name": "ada", "password": adminPassword}, &begun)
	require.NotEmpty(s, begun.Passkey)
	options, err := virtualwebauthn.ParseAssertionOptions(string(begun.Passkey))
	require.NoError(s, err)
	s.key.Counter++
	answer := virtualwebauthn.CreateAssertionResponse(s.party(), s.device, s.key, *options)
	s.post(webaccess.BasePath+"/login/passkey", map[string]any{"name": "ada", "answer": json.RawMessage(answer)},
		new(any))
	require.Equal(s, http.StatusOK, s.whoami(""))
}

func (s *timeless) party() virtualwebauthn.RelyingParty {
	return virtualwebauthn.RelyingParty{Name: "Landfall", ID: timelessHost, Origin: "https://" + timelessHost}
}

// addPasskey registers a passkey of the administrator.
func (s *timeless) addPasskey() {
	s.Helper()
	var begun struct{ Options json.RawMessage }
	s.post(webaccess.BasePath+"/passkeys/begin", nil, &begun)
	options, err := virtualwebauthn.ParseAttestationOptions(string(begun.Options))
	require.NoError(s, err)
	answer := virtualwebauthn.CreateAttestationResponse(s.party(), s.device, s.key, *options)
	s.post(webaccess.BasePath+"/passkeys", map[string]any{"answer": json.RawMessage(answer)}, new(any))
}

// token creates a token of a program. It has no end if the life is zero.
func (s *timeless) token(name string, life time.Duration) string {
	s.Helper()
	body := map[string]any{"name": name, "role": "viewer"}
	if life != 0 {
		body["expires_at"] = s.clock.Now().Add(life)
	}
	var made struct{ Token string }
	s.post(webaccess.BasePath+"/tokens", body, &made)
	return made.Token
}

// whoami returns the status for a token, or for the browser's session.
func (s *timeless) whoami(token string) int {
	s.Helper()
	const path = webaccess.BasePath + "/whoami"
	if token == "" {
		return s.send(s.browser, http.MethodGet, path, "", "", nil, nil)
	}
	return s.send(&http.Client{Transport: s.browser.Transport}, http.MethodGet, path, "Authorization", "Bearer "+token,
		nil, nil)
}

// agent returns the status of an agent's request for its steps.
func (s *timeless) agent(env, token string) int {
	s.Helper()
	return s.send(&http.Client{Transport: s.browser.Transport}, http.MethodGet, "/api/assisted-install/v2/infra-envs/"+
		env+"/hosts/"+uuid.NewString()+"/instructions", "X-Secret-Key", token, nil, nil)
}

// TestClock_wrongThenCorrected starts a site whose clock is wrong, and uses everything that has an
// end. Then the clock is corrected, while the appliance runs or while it is stopped.
func TestClock_wrongThenCorrected(t *testing.T) {
	right := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	epoch, ahead := time.Unix(90, 0), right.AddDate(1, 0, 0)
	for name, c := range map[string]struct {
		wrong   time.Time
		stopped bool
		session bool // still valid after the correction
		dated   bool // a token with an end is still valid
	}{
		"1970, corrected while running":         {epoch, false, true, false},
		"1970, corrected while stopped":         {epoch, true, false, false},
		"a year ahead, corrected while running": {ahead, false, true, true},
		"a year ahead, corrected while stopped": {ahead, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTimeless(t, c.wrong)
			clients := map[string]time.Time{"right": right, "in 1970": epoch, "a year ahead": ahead}
			code, err := s.running.SetupCode()
			require.NoError(t, err)
			s.post(webaccess.BasePath+"/setup", map[string]any{"code": code, "name": "ada", "password": adminPassword},
				new(any))
			s.addPasskey()
			s.logIn()
			endless, dated := s.token("endless", 0), s.token("dated", 24*time.Hour)
			var env struct{ ID string }
			s.post("/api/assisted-install/v2/infra-envs", map[string]any{"name": "own", "pull_secret": testPullSecret,
				"openshift_version": "4.20.0"}, &env)
			recipe, err := s.running.engine.Recipe(t.Context(), env.ID)
			require.NoError(t, err)
			image, err := ignition.ReadDiscovery(recipe.Ignition)
			require.NoError(t, err)
			s.post("/api/landfall/v1/infra-envs/"+env.ID+"/agent-tokens/accept-none", map[string]any{"seconds": 3600},
				new(any))
			require.Equal(t, []int{200, 200, 200, 404, 404}, []int{s.whoami(""), s.whoami(endless), s.whoami(dated),
				s.agent(env.ID, image.PullSecretToken), s.agent(env.ID, "")}, "before the correction")

			s.clock.Advance(time.Minute)
			if c.stopped {
				s.stop()
				s.start(right)
			} else {
				s.clock.set(right)
			}
			for client, at := range clients {
				elsewhere := &http.Client{Transport: s.transport(at)}
				require.Equal(t, http.StatusOK, s.send(elsewhere, http.MethodGet, "/live", "", "", nil, nil),
					"a client whose clock is %s", client)
			}
			valid := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}
			require.Equal(t, valid[c.session], s.whoami(""), "the session")
			require.Equal(t, http.StatusOK, s.whoami(endless))
			require.Equal(t, valid[c.dated], s.whoami(dated))
			require.Equal(t, http.StatusNotFound, s.agent(env.ID, image.PullSecretToken), "agents' tokens have no end")
			require.NotEqual(t, http.StatusNotFound, s.agent(env.ID, ""), "the permission ended with the wrong time")
			s.logIn()
			s.clock.Advance(24 * time.Hour)
			require.Equal(t, http.StatusUnauthorized, s.whoami(dated), "the correction prolongs no token")
			require.Equal(t, http.StatusUnauthorized, s.whoami(""), "nor a session")
			require.Equal(t, http.StatusOK, s.whoami(endless))
		})
	}
}
