package mirror

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/stall"
)

const wanted = "quay.io/openshift-release-dev/ocp-release"

// site is a registry with rules that map the repository wanted to it and block the original
// registry.
type site struct {
	host  string
	image v1.Image
	// ref is the image's original pull spec.
	ref   string
	rules *Rules
}

// serve starts a registry with the given start function, pushes an image to it over plain HTTP, and
// writes the rules for the registry.
func serve(t *testing.T, start func(http.Handler) *httptest.Server, ca []byte, options ...string) *site {
	t.Helper()
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	direct := httptest.NewServer(store)
	t.Cleanup(direct.Close)
	image, err := random.Image(512, 2)
	require.NoError(t, err)
	inside, err := name.ParseReference(hostport(direct) + "/openshift/release-images:4.20")
	require.NoError(t, err)
	require.NoError(t, remote.Write(inside, image))
	hash, err := image.Digest()
	require.NoError(t, err)

	server := start(store)
	t.Cleanup(server.Close)
	return &site{host: hostport(server), image: image, ref: wanted + "@" + hash.String(),
		rules: rulesTo(t, hostport(server), ca, options...)}
}

func rulesTo(t *testing.T, host string, ca []byte, options ...string) *Rules {
	t.Helper()
	s := Sources{RegistriesConf: []Document{{"registries.conf", fmt.Appendf(nil,
		"[[registry]]\nlocation = %q\nblocked = true\n[[registry.mirror]]\nlocation = %q\n%s\n",
		wanted, host+"/openshift/release-images", strings.Join(options, "\n"))}}}
	if ca != nil {
		s.CABundle = []Document{{"ca.pem", ca}}
	}
	r, err := Parse(s)
	require.NoError(t, err)
	return r
}

func hostport(s *httptest.Server) string {
	_, rest, _ := strings.Cut(s.URL, "://")
	return rest
}

func withTLS(cert tls.Certificate) func(http.Handler) *httptest.Server {
	return func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.StartTLS()
		return s
	}
}

// quick returns a client that does not wait between attempts.
func quick(t *testing.T, rules *Rules) *Client {
	t.Helper()
	c := NewClient(rules, ClientOptions{DialTimeout: time.Second, HeaderTimeout: time.Second,
		Backoff: remote.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 2}, UserAgent: "landfall-test"})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func imageError(t *testing.T, err error, reason Reason, say ...string) *ImageError {
	t.Helper()
	var failure *ImageError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, reason, failure.Reason(), "%v", err)
	for _, s := range say {
		require.Contains(t, err.Error(), s)
	}
	require.NotContains(t, err.Error(), "\n", "one sentence")
	return failure
}

func TestClient_imageFromTheMirror(t *testing.T) {
	s := serve(t, httptest.NewServer, nil)
	c := quick(t, s.rules)

	d, from, err := c.Get(t.Context(), s.ref, nil)
	require.NoError(t, err)
	require.Equal(t, s.host+"/openshift/release-images", from.Ref.Context().Name())
	require.Equal(t, s.ref, wanted+"@"+d.Digest.String())
	require.False(t, from.Source)

	image, _, err := c.Image(t.Context(), s.ref, v1.Platform{OS: "linux", Architecture: "amd64"}, nil)
	require.NoError(t, err)
	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 2)
	hash, err := layers[0].Digest()
	require.NoError(t, err)

	layer, from, err := c.Layer(t.Context(), wanted+"@"+hash.String(), nil)
	require.NoError(t, err)
	require.Contains(t, from.Rule, "mirror 1 of 1")
	blob, err := layer.Compressed()
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, blob)
	require.NoError(t, err)
	require.NoError(t, blob.Close())
	require.Positive(t, n)
}

func TestClient_platformFromAnIndex(t *testing.T) {
	s := serve(t, httptest.NewServer, nil)
	arm, err := random.Image(64, 1)
	require.NoError(t, err)
	list := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: s.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux",
			Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux",
			Architecture: "arm64"}}})
	at, err := name.ParseReference(s.host + "/openshift/release-images:multi")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(at, list))

	got, _, err := quick(t, s.rules).Image(t.Context(), wanted+":multi", v1.Platform{OS: "linux",
		Architecture: "arm64"}, nil)
	require.NoError(t, err)
	want, err := arm.Digest()
	require.NoError(t, err)
	have, err := got.Digest()
	require.NoError(t, err)
	require.Equal(t, want, have)
}

func TestClient_nextEndpointIfTheMirrorLacksTheImage(t *testing.T) {
	s := serve(t, httptest.NewServer, nil)
	emptyRegistry := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(emptyRegistry.Close)
	rules := conf(t,
		fmt.Sprintf("[[registry]]\nlocation = %q\nblocked = true\n[[registry.mirror]]\nlocation = "+
			"%q\n[[registry.mirror]]\nlocation = %q\n",
			wanted, hostport(emptyRegistry)+"/a", s.host+"/openshift/release-images"))
	_, from, err := quick(t, rules).Get(t.Context(), s.ref, nil)
	require.NoError(t, err)
	require.Contains(t, from.Rule, "mirror 2 of 2")
}

func TestClient_privateCAOfTheBundle(t *testing.T) {
	ca := newAuthority(t, "Site Root")
	cert, _ := ca.sign(t, time.Now().Add(time.Hour))
	s := serve(t, withTLS(cert), ca.pem)
	_, _, err := quick(t, s.rules).Get(t.Context(), s.ref, nil)
	require.NoError(t, err)
}

func TestImageError_unknownAuthority(t *testing.T) {
	cert, _ := newAuthority(t, "Site Root").sign(t, time.Now().Add(time.Hour))
	s := serve(t, withTLS(cert), newAuthority(t, "Another Root").pem)
	_, _, err := quick(t, s.rules).Get(t.Context(), s.ref, nil)
	imageError(t, err, ReasonUnknownAuthority, "image "+s.ref+" can't be pulled: "+s.host+
		"/openshift/release-images (mirror 1 of 1",
		`(mirror 1 of 1 for "`+wanted+`" in registries.conf)`, "signed by an unknown authority",
		"to the mirror's CA bundle")
}

func TestClient_insecureMirrorWithoutCA(t *testing.T) {
	cert, _ := newAuthority(t, "Site Root").sign(t, time.Now().Add(time.Hour))
	s := serve(t, withTLS(cert), nil, "insecure = true")
	_, from, err := quick(t, s.rules).Get(t.Context(), s.ref, nil)
	require.NoError(t, err)
	require.True(t, from.Insecure)
}

func TestImageError_expiredCertificate(t *testing.T) {
	ca := newAuthority(t, "Site Root")
	cert, _ := ca.sign(t, time.Now().Add(-time.Minute))
	s := serve(t, withTLS(cert), ca.pem)
	_, _, err := quick(t, s.rules).Get(t.Context(), s.ref, nil)
	imageError(t, err, ReasonCertificate, "expired", "check the clocks")
}

// basic requires the right user name and password, as registries with an htpasswd file do.
func basic(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "right" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			_, err := io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
			if err != nil {
				panic(err)
			}
			return
		}
		h.ServeHTTP(w, r)
	})
}

func secretFor(t *testing.T, host, credentials string) *PullSecret {
	t.Helper()
	s, err := ParsePullSecret(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, b64(credentials)))
	require.NoError(t, err)
	return s
}

func TestImageError_unauthorized(t *testing.T) {
	s := serve(t, func(h http.Handler) *httptest.Server { return httptest.NewServer(basic(h)) }, nil)
	c := quick(t, s.rules)
	_, _, err := c.Get(t.Context(), s.ref, secretFor(t, s.host, "u:right"))
	require.NoError(t, err)

	_, _, err = c.Get(t.Context(), s.ref, secretFor(t, s.host, "u:hunter2"))
	imageError(t, err, ReasonUnauthorized, "answered 401 Unauthorized", "to the pull secret's credentials",
		"check the entry for "+s.host+" in the pull secret")
	require.NotContains(t, err.Error(), "hunter2")

	for _, none := range []*PullSecret{nil, secretFor(t, "quay.io", "u:right")} {
		_, _, err = c.Get(t.Context(), s.ref, none)
		imageError(t, err, ReasonUnauthorized, "401 Unauthorized", "the pull secret has no entry for it",
			"add an entry for "+s.host+" to the pull secret")
	}
}

func TestImageError_registryDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	host := l.Addr().String()
	require.NoError(t, l.Close())
	_, _, err = quick(t, rulesTo(t, host, nil)).Get(t.Context(), wanted+":4.20", nil)
	// Mirrors in registries.conf serve digests and tags by default.
	imageError(t, err, ReasonUnreachable, host+"/openshift/release-images", "refused the connection",
		"check that "+host+" is running")
}

func TestImageError_missingManifest(t *testing.T) {
	s := serve(t, httptest.NewServer, nil)
	_, _, err := quick(t, s.rules).Get(t.Context(), wanted+"@"+digest, nil)
	imageError(t, err, ReasonNotFound, "answered 404 Not Found (MANIFEST_UNKNOWN)",
		"mirror the image to "+s.host+"/openshift/release-images")
}

func TestImageError_missingLayer(t *testing.T) {
	s := serve(t, httptest.NewServer, nil)
	_, _, err := quick(t, s.rules).Layer(t.Context(), wanted+"@"+digest, nil)
	imageError(t, err, ReasonNotFound)
	_, _, err = quick(t, s.rules).Layer(t.Context(), wanted+":4.20", nil)
	require.ErrorContains(t, err, "is not referenced by its digest")
}

func TestImageError_ruleWithoutEndpoint(t *testing.T) {
	rules := conf(t, "[[registry]]\nlocation = \"quay.io\"\nblocked = true\nmirror-by-digest-only = "+
		"true\n[[registry.mirror]]\nlocation = \"mirror.site.example\"\n")
	_, _, err := quick(t, rules).Get(t.Context(), wanted+":4.20", nil)
	imageError(t, err, ReasonForbidden,
		`the rule for "quay.io" in registries.conf forbids the source and has no usable mirror for tags`)
}

func TestImageError_otherStatus(t *testing.T) {
	var requests atomic.Int32
	s := serve(t, func(http.Handler) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
	}, nil)
	_, _, err := quick(t, s.rules).Get(t.Context(), s.ref, nil)
	imageError(t, err, ReasonStatus, "answered 503 Service Unavailable")
	require.Equal(t, int32(2), requests.Load(), "a temporary error is retried")
}

func TestImageError_brokenConnectionHasAStableText(t *testing.T) {
	broken := func(port int) error {
		return &url.Error{Op: "Get", URL: "https://mirror/v2/", Err: &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 5000},
			Err: os.NewSyscallError("read", syscall.ECONNRESET),
		}}
	}
	_, first := classify(broken(40001))
	_, second := classify(broken(40002))
	require.Equal(t, "failed: read: connection reset by peer", first)
	require.Equal(t, first, second, "the same fault has the same text")
}

func TestImageError_failedNameServer(t *testing.T) {
	_, text := classify(&url.Error{Op: "Get", URL: "https://mirror.site/v2/", Err: &net.OpError{Op: "dial", Net: "tcp",
		Err: &net.DNSError{Err: "server misbehaving", Name: "mirror.site", Server: "10.0.0.1:53", IsTemporary: true}}})
	require.Equal(t, "has a name, mirror.site, for which the DNS server 10.0.0.1:53 failed (server misbehaving)", text)
}

func TestClient_plainHTTPOnlyIfInsecure(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	// A private address that is routed to the server: the registry library would use HTTP there.
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, hostport(server))
	}
	c := quick(t, rulesTo(t, "10.0.0.5:5000", nil))
	c.current.Load().verified().DialContext = dial
	_, _, err := c.Get(t.Context(), wanted+":4.20", secretFor(t, "10.0.0.5:5000", "u:p"))
	imageError(t, err, ReasonPlainHTTP, "speaks plain HTTP where HTTPS is required", "set insecure = true")
	require.Zero(t, requests.Load(), "nothing was sent unencrypted")
}

func TestImageError_canceled(t *testing.T) {
	arrived := make(chan struct{}, 8)
	s := serve(t, func(http.Handler) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
		}))
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, _, err := quick(t, s.rules).Get(ctx, s.ref, nil)
	imageError(t, err, ReasonCanceled)
	require.True(t, errors.Is(err, context.Canceled))
}

func TestImageError_timeout(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(http.Handler) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	}, nil)
	t.Cleanup(func() { close(release) })
	c := NewClient(s.rules, ClientOptions{HeaderTimeout: 50 * time.Millisecond,
		Backoff: remote.Backoff{Duration: time.Millisecond, Steps: 1}})
	_, _, err := c.Get(t.Context(), s.ref, nil)
	imageError(t, err, ReasonTimeout, "did not answer in time")
}

func TestClient_invalidPullSpec(t *testing.T) {
	_, _, err := quick(t, nil).Get(t.Context(), "quay.io/UPPER CASE", nil)
	require.ErrorContains(t, err, `"quay.io/UPPER CASE" is not a pull spec; it must look like`)
}

// TestClient_registryThatStalls pulls from a registry that stops in the middle of each answer.
func TestClient_registryThatStalls(t *testing.T) {
	for _, part := range []string{"manifests", "blobs"} {
		t.Run(part, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			stalls := func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/"+part+"/") {
						next.ServeHTTP(w, r)
						return
					}
					recorded := httptest.NewRecorder()
					next.ServeHTTP(recorded, r)
					content := recorded.Body.Bytes()
					maps.Copy(w.Header(), recorded.Header())
					w.Header().Set("Content-Length", strconv.Itoa(len(content)))
					_, _ = w.Write(content[:len(content)/2]) // the client sees a wrong answer if it fails
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
			}
			s := serve(t, func(h http.Handler) *httptest.Server { return httptest.NewServer(stalls(h)) }, nil)
			clock := clockwork.NewFakeClock()
			c := NewClient(s.rules, ClientOptions{Clock: clock, Backoff: remote.Backoff{Steps: 1}})
			t.Cleanup(c.CloseIdleConnections)
			pulled := make(chan error, 1)
			go func() { pulled <- pullLayers(ctx, c, s.ref) }()
			var err error
			for waits := true; waits; {
				select {
				case err = <-pulled:
					waits = false
				default:
					clock.Advance(stallLimit)
				}
			}
			var stalled *stall.Error
			require.ErrorAs(t, err, &stalled)
			require.EqualError(t, stalled, "the registry sent nothing for 1m0s")
			if part == "manifests" {
				imageError(t, err, ReasonTimeout, "stopped in the middle of an answer", "check that "+s.host)
			}
		})
	}
}

// pullLayers reads the layers of an image.
func pullLayers(ctx context.Context, c *Client, ref string) error {
	image, _, err := c.Image(ctx, ref, v1.Platform{OS: "linux", Architecture: "amd64"}, nil)
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		content, err := layer.Compressed()
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return nil
}

// The certificates of the system take 20 ms, which a start without a pull does not spend: it
// replaces the rules of the configuration by those with the imports.
func TestUse_makesNoTransport(t *testing.T) {
	c := NewClient(nil, ClientOptions{})
	made := func() *http.Transport {
		require.Fail(t, "a transport was made without a pull")
		return nil
	}
	before := c.current.Load()
	before.verified, before.lenient = made, made
	c.Use(nil)
	require.NotSame(t, before, c.current.Load())
}
