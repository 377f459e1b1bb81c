package appliance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/registry/supply"
)

// login is a name and a password of a client of the registry, or a token in the header.
type login struct{ name, password, bearer string }

// pull sends a request to the registry of the follower. It reports whether the leader answered.
func (c *copied) pull(t *testing.T, method, path, body string, by login) (w *httptest.ResponseRecorder, byLeader bool) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "https://127.0.0.1"+path, bytes.NewReader([]byte(body)))
	if by.name != "" {
		r.SetBasicAuth(by.name, by.password)
	}
	if by.bearer != "" {
		r.Header.Set("Authorization", by.bearer)
	}
	before := c.forwarded.Load()
	w = httptest.NewRecorder()
	serve(c.pulls, w, r)
	return w, c.forwarded.Load() > before
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// pushImage pushes an image through the follower. It returns its manifest and the digest of its
// only blob.
func (c *copied) pushImage(t *testing.T, by login) (manifest, blob string) {
	t.Helper()
	content := "the config of an image"
	blob = digestOf(content)
	w, _ := c.pull(t, http.MethodPost, "/v2/site/app/blobs/uploads/?digest="+blob, content, by)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	manifest = fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",`+
		`"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]}`,
		blob, len(content))
	w, _ = c.pull(t, http.MethodPut, "/v2/site/app/manifests/v1", manifest, by)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	return manifest, blob
}

// newCopiedRegistry returns a fleet with a registry whose clients log in.
func newCopiedRegistry(t *testing.T) *copied {
	t.Helper()
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()), func(settings *config.Config) {
		settings.Registry.Listen, settings.Registry.AnonymousPull = "127.0.0.1:0", false
	})
	require.Zero(t, <-c.missing)
	return c
}

func TestFollowerRegistry_knowsTheClientsOfTheLeader(t *testing.T) {
	c := newCopiedRegistry(t)
	password, err := supply.Password(c.siteKey)
	require.NoError(t, err)
	bearer := func(caller string) login { return login{bearer: c.callers[caller].token} }
	viewer := strings.TrimPrefix(c.callers["viewer"].token, "Bearer ")
	manifest, blob := c.pushImage(t, bearer("operator"))
	c.catchUp(t)
	require.Equal(t, []int{1, 0}, []int{<-c.missing, <-c.missing})

	const here, leader = false, true
	for name, by := range map[string]struct {
		login
		status int
		first  bool // who answers the first request
		then   bool
	}{
		"nobody":                  {login{}, http.StatusUnauthorized, leader, leader},
		"pull secret":             {login{name: supply.PullUser, password: password}, http.StatusOK, here, here},
		"another pull secret":     {login{name: supply.PullUser}, http.StatusUnauthorized, leader, leader},
		"token":                   {bearer("admin"), http.StatusOK, leader, here},
		"token as the password":   {login{name: "any", password: viewer}, http.StatusOK, leader, here},
		"token that is not known": {login{bearer: "Bearer x"}, http.StatusUnauthorized, leader, leader},
	} {
		for i, by1 := range []bool{by.first, by.then} {
			got, byLeader := c.pull(t, http.MethodGet, "/v2/site/app/manifests/v1", "", by.login)
			require.Equal(t, by.status, got.Code, "%s: %s", name, got.Body)
			require.Equal(t, by1, byLeader, "%s: request %d", name, i)
		}
	}
	for path, want := range map[string]string{"/v2/site/app/manifests/v1": manifest,
		"/v2/site/app/blobs/" + blob: "the config of an image", "/v2/site/app/tags/list": `{"name":"site/app","tags":["v1"]}`,
		"/v2/": "{}"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got, byLeader := c.pull(t, method, path, "", login{name: supply.PullUser, password: password})
			require.Equal(t, http.StatusOK, got.Code, path)
			require.False(t, byLeader, path)
			if method == http.MethodGet {
				require.Equal(t, want, got.Body.String())
			}
		}
	}
	refused, byLeader := c.pull(t, http.MethodPost, "/v2/site/app/blobs/uploads/", "", bearer("viewer"))
	require.Equal(t, http.StatusForbidden, refused.Code)
	require.True(t, byLeader)
	begun, _ := c.pull(t, http.MethodPost, "/v2/site/app/blobs/uploads/", "", bearer("operator"))
	require.Equal(t, http.StatusAccepted, begun.Code)
	state, _ := c.pull(t, http.MethodGet, begun.Header().Get("Location"), "", bearer("operator"))
	require.Equal(t, http.StatusNoContent, state.Code, "only the leader knows uploads")
}

func TestFollowerRegistry_asksTheLeaderForWhatItLacks(t *testing.T) {
	c := newCopiedRegistry(t)
	password, err := supply.Password(c.siteKey)
	require.NoError(t, err)
	pull := func(path string) (*httptest.ResponseRecorder, bool) {
		return c.pull(t, http.MethodGet, path, "", login{name: supply.PullUser, password: password})
	}
	c.apart.Store(true)
	manifest, blob := c.pushImage(t, login{bearer: c.callers["operator"].token})
	c.catchUp(t)
	require.Equal(t, 1, <-c.missing)

	got, byLeader := pull("/v2/site/app/manifests/v1")
	require.Equal(t, manifest, got.Body.String())
	require.True(t, byLeader)
	got, byLeader = pull("/v2/site/app/blobs/" + blob)
	require.Equal(t, "the config of an image", got.Body.String())
	require.True(t, byLeader)
	require.Equal(t, "bytes", got.Header().Get("Accept-Ranges"))
	got, byLeader = pull("/v2/site/app/manifests/unknown")
	require.Equal(t, http.StatusNotFound, got.Code)
	require.True(t, byLeader)

	c.led.Store(false)
	for path, sentence := range map[string]string{"/v2/site/app/manifests/v1": "parts",
		"/v2/site/app/blobs/" + blob: "no leader now", "/v2/site/app/manifests/unknown": "no leader now"} {
		got, _ = pull(path)
		require.Equal(t, http.StatusServiceUnavailable, got.Code, path)
		require.Contains(t, got.Body.String(), sentence, path)
		require.Contains(t, got.Body.String(), `"errors"`)
	}
}
