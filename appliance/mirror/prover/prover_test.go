package prover_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
)

const source = "quay.io/team/app"

// fakeRegistry is a registry with one image. Tests can replace its answers. It serves blobs only in
// their repository.
type fakeRegistry struct {
	*httptest.Server
	host     string
	image    string // the original pull spec
	manifest []byte
	blobs    map[string][]byte
	instead  func(http.ResponseWriter, *http.Request) bool // replaces answer if it returns true
	requests atomic.Int32
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func newFakeRegistry(t *testing.T) *fakeRegistry {
	t.Helper()
	f := &fakeRegistry{blobs: map[string][]byte{}}
	descriptor := func(kind, text string) map[string]any {
		f.blobs[digestOf([]byte(text))] = []byte(text)
		return map[string]any{"mediaType": kind, "digest": digestOf([]byte(text)), "size": len(text)}
	}
	var err error
	f.manifest, err = json.Marshal(map[string]any{"schemaVersion": 2,
		"mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config":    descriptor("application/vnd.oci.image.config.v1+json", `{"architecture":"amd64"}`),
		"layers": []any{descriptor("application/vnd.oci.image.layer.v1.tar+gzip", strings.Repeat("layer", 1000)),
			descriptor("application/vnd.oci.image.layer.v1.tar+gzip", "last")}})
	require.NoError(t, err)
	f.image = source + "@" + digestOf(f.manifest)
	f.Server = httptest.NewServer(f)
	f.host = strings.TrimPrefix(f.URL, "http://")
	t.Cleanup(f.Close)
	return f
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.requests.Add(1)
	if f.instead != nil && f.instead(w, r) {
		return
	}
	f.answer(w, r)
}

func (f *fakeRegistry) answer(w http.ResponseWriter, r *http.Request) {
	_, digest, _ := strings.Cut(r.URL.Path, "/v2/team/app/blobs/")
	switch data, held := f.blobs[digest]; {
	case r.URL.Path == "/v2/":
	case r.URL.Path == "/v2/team/app/manifests/"+digestOf(f.manifest), r.URL.Path == "/v2/team/app/manifests/v1":
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Docker-Content-Digest", digestOf(f.manifest))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(f.manifest)))
	case held:
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
	default:
		code := "BLOB_UNKNOWN"
		if strings.Contains(r.URL.Path, "/manifests/") {
			code = "MANIFEST_UNKNOWN"
		}
		refuse(w, http.StatusNotFound, code)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	if _, err := fmt.Fprintf(w, `{"errors":[{"code":%q}]}`, code); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// rulesTo returns rules that map the source to the mirrors, in order.
func rulesTo(t *testing.T, mirrors ...string) *mirror.Rules {
	t.Helper()
	text := "[[registry]]\nlocation = \"" + source + "\"\n"
	for _, m := range mirrors {
		text += "[[registry.mirror]]\nlocation = \"" + m + "\"\n"
	}
	rules, err := mirror.Parse(mirror.Sources{RegistriesConf: []mirror.Document{{Name: "registries.conf",
		Data: []byte(text)}}})
	require.NoError(t, err)
	return rules
}

func newProver(t *testing.T, rules *mirror.Rules, options prover.Options) *prover.Prover {
	t.Helper()
	options.Client = mirror.NewClient(rules, mirror.ClientOptions{DialTimeout: time.Second, HeaderTimeout: time.Second,
		Backoff: remote.Backoff{Duration: time.Millisecond, Steps: 2}})
	t.Cleanup(options.Client.CloseIdleConnections)
	return prover.New(options)
}

func prove(t *testing.T, p *prover.Prover, request prover.Request) *prover.Report {
	t.Helper()
	report, err := p.Prove(t.Context(), request, nil)
	require.NoError(t, err)
	return report
}

func one(ref string) prover.Request { return prover.Request{Images: []prover.Image{{Ref: ref}}} }

func TestProof_badRegistry(t *testing.T) {
	html := func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "text/html")
		if _, err := w.Write([]byte("<html>Please log in</html>")); err != nil {
			panic(http.ErrAbortHandler)
		}
		return true
	}
	on := func(what string, instead func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter,
		*http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			return strings.Contains(r.URL.Path, what) && instead(w, r)
		}
	}
	for _, bad := range []struct {
		name    string
		instead func(http.ResponseWriter, *http.Request) bool
		bytes   bool
		status  prover.Status
		says    string
	}{
		{"HTML with status 200", html, false, prover.Damaged, "answered text/html with another digest"},
		{"HTML with status 200 for manifests alone", on("/manifests/", html), false, prover.Damaged,
			"is damaged, or this is not a registry"},
		{"a token realm that can't be reached", on("/v2/", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://localhost:1/token",service="registry"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
			return true
		}), false, prover.Unreachable,
			"refers to localhost:1 for a token, which refused the connection; make localhost:1 reachable"},
		{"blobs at a server that can't be reached", on("/blobs/", func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://127.0.0.1:1/storage", http.StatusTemporaryRedirect)
			return true
		}), false, prover.Unreachable, "refers to 127.0.0.1:1 for the blob, which refused the connection"},
		{"a layer of another size", on("/blobs/", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Length", "7")
			return true
		}), false, prover.Damaged, "has 7 bytes of the "},
		{"a layer of other bytes", on("/blobs/"+digestOf([]byte("last")), func(w http.ResponseWriter,
			r *http.Request) bool {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("lost"))
			return true
		}), true, prover.Damaged, "content with the digest " + digestOf([]byte("lost"))},
		{"a blob that always breaks off", on("/blobs/", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead {
				return false
			}
			panic(http.ErrAbortHandler)
		}), true, prover.Damaged, "failed: "},
		{"a registry that fails", on("/v2/", func(w http.ResponseWriter, r *http.Request) bool {
			refuse(w, http.StatusInternalServerError, "UNKNOWN")
			return true
		}), false, prover.Unreachable, "answered 500 Internal Server Error"},
		{"a manifest of another kind", on("/manifests/v1", func(w http.ResponseWriter, r *http.Request) bool {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(`{"schemaVersion":1}`))
			return true
		}), false, prover.Damaged, "is not an image manifest"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			f := newFakeRegistry(t)
			f.instead = bad.instead
			f.Config.ErrorLog = nil
			request := one(f.image)
			if strings.Contains(bad.name, "another kind") {
				request = one(source + ":v1")
			}
			request.Bytes = bad.bytes
			report := prove(t, newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{}), request)
			require.Equal(t, bad.status, report.Results[0].Status, report.Results[0].Text)
			text := report.Results[0].Text
			if text == "" {
				require.Len(t, report.Faults, 1)
				text = report.Faults[0].Text
				require.Equal(t, 1, report.Faults[0].Images)
			}
			require.Contains(t, text, bad.says)
			require.NotContains(t, text, "\n")
			require.False(t, report.Complete())
		})
	}
}

func TestProof_plainHTTPRegistry(t *testing.T) {
	f := newFakeRegistry(t)
	client := mirror.NewClient(rulesTo(t, "mirror.example.com:5000/team/app"), mirror.ClientOptions{
		DialTimeout: time.Second, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, f.host)
		},
	})
	report := prove(t, prover.New(prover.Options{Client: client}), one(f.image))
	require.Equal(t, prover.BadTLS, report.Results[0].Status)
	require.Contains(t, report.Faults[0].Text,
		"mirror.example.com:5000 speaks plain HTTP where HTTPS is required; install a certificate on "+
			"mirror.example.com:5000")
}

// tokens makes the registry require a token for each repository.
func tokens(f *fakeRegistry) {
	f.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
				refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
				return true
			}
			if _, err := fmt.Fprintf(w, `{"token":%q}`, r.URL.Query().Get("scope")); err != nil {
				panic(http.ErrAbortHandler)
			}
			return true
		}
		path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
		if len(path) > 2 && r.Header.Get("Authorization") == "Bearer repository:"+path[0]+"/"+path[1]+":pull" {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=\"registry\"", f.URL+"/token"))
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		return true
	}
}

func TestProof_tokenForEachRepository(t *testing.T) {
	f := newFakeRegistry(t)
	tokens(f)
	p := newProver(t, rulesTo(t, f.host+"/other/app", f.host+"/team/app"), prover.Options{})
	request := one(f.image)
	secret, err := mirror.ParsePullSecret(fmt.Sprintf(`{"auths":{%q:{"auth":"dTpw"}}}`, f.host))
	require.NoError(t, err)
	request.Secret = secret
	require.Equal(t, prover.Held, prove(t, p, request).Results[0].Status)

	request.Secret = nil
	report := prove(t, p, request)
	require.Equal(t, prover.Unauthorized, report.Results[0].Status)
	require.Len(t, report.Faults, 1, "both repositories reject the request with the same error")
	require.Contains(t, report.Faults[0].Text, "add an entry for "+f.host+" to the pull secret")
}

func TestProof_respectsRetryAfter(t *testing.T) {
	f := newFakeRegistry(t)
	clock := clockwork.NewFakeClockAt(time.Now())
	var refusals atomic.Int32
	f.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || refusals.Add(1) > 2 {
			return false
		}
		w.Header().Set("Retry-After", "30")
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS")
		return true
	}
	p := newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{Clock: clock})
	var group sync.WaitGroup
	var report *prover.Report
	group.Go(func() { report = prove(t, p, one(f.image)) })
	for range 2 {
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
		before := f.requests.Load()
		clock.Advance(29 * time.Second)
		require.Equal(t, before, f.requests.Load())
		clock.Advance(time.Second)
	}
	group.Wait()
	require.Equal(t, prover.Held, report.Results[0].Status)
}

// TestProof_registryThatOnlyPauses has a registry that requests a pause for each image, as the
// appliance's own registry does while a medium is missing. All images wait for the same pauses.
func TestProof_registryThatOnlyPauses(t *testing.T) {
	f := newFakeRegistry(t)
	f.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "UNAVAILABLE")
		return true
	}
	var request prover.Request
	for i := range 40 {
		ref := source + "@" + digestOf([]byte{byte(i)})
		request.Images = append(request.Images, prover.Image{Ref: ref})
	}
	clock := clockwork.NewFakeClockAt(time.Now())
	p := newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{Clock: clock, Workers: 1})
	ended, end := context.WithCancel(t.Context())
	var report *prover.Report
	var err error
	go func() {
		defer end()
		report, err = p.Prove(t.Context(), request, nil)
	}()
	for pauses := 0; clock.BlockUntilContext(ended, 1) == nil; pauses++ {
		require.Less(t, pauses, 9)
		clock.Advance(5 * time.Second)
	}
	require.NoError(t, err)
	for _, result := range report.Results {
		require.Equal(t, prover.Unreachable, result.Status)
	}
}

func TestProof_cachedImage(t *testing.T) {
	f := newFakeRegistry(t)
	clock := clockwork.NewFakeClock()
	p := newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{Clock: clock, CacheFor: time.Minute})
	first := prove(t, p, one(f.image))
	require.Equal(t, 3, first.Blobs)
	delete(f.blobs, digestOf([]byte("last")))

	again := prove(t, p, one(f.image))
	require.True(t, again.Results[0].Cached)
	require.Equal(t, first.Bytes, again.Bytes)
	fresh := one(f.image)
	fresh.Fresh = true
	require.Equal(t, prover.MissingLayer, prove(t, p, fresh).Results[0].Status)
	clock.Advance(time.Minute)
	require.Equal(t, prover.MissingLayer, prove(t, p, one(f.image)).Results[0].Status)

	f.manifest = append(f.manifest, ' ')
	require.Equal(t, prover.MissingManifest, prove(t, p, one(f.image)).Results[0].Status)
}

type proven struct {
	mu    sync.Mutex
	known map[string]bool
}

func (p *proven) Has(key string) bool { p.mu.Lock(); defer p.mu.Unlock(); return p.known[key] }

func (p *proven) Mark(_ context.Context, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[key] = true
	return nil
}

func TestProof_bytesResume(t *testing.T) {
	f := newFakeRegistry(t)
	var ranges []string
	var breaks atomic.Int32
	layer := digestOf([]byte(strings.Repeat("layer", 1000)))
	f.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, layer) || breaks.Add(1) > 2 {
			if r.Header.Get("Range") != "" {
				ranges = append(ranges, r.Header.Get("Range"))
			}
			return false
		}
		if r.Header.Get("Range") != "" {
			ranges = append(ranges, r.Header.Get("Range"))
			w.Header().Set("Content-Range", "bytes 1000-4999/5000")
			w.Header().Set("Content-Length", "4000")
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", "5000")
		}
		if _, err := w.Write([]byte(strings.Repeat("layer", 200))); err != nil {
			panic(http.ErrAbortHandler)
		}
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	provenBlobs := &proven{known: map[string]bool{}}
	p := newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{Proven: provenBlobs})
	request := one(f.image)
	request.Bytes = true
	report := prove(t, p, request)
	require.Equal(t, prover.Held, report.Results[0].Status, report.Results[0].Text)
	require.Equal(t, []string{"bytes=1000-4999", "bytes=2000-4999"}, ranges)
	require.Len(t, provenBlobs.known, 3)
	require.EqualValues(t, report.Bytes, report.ReadBytes)

	report = prove(t, p, request)
	require.Equal(t, prover.Held, report.Results[0].Status)
	require.Zero(t, report.ReadBytes, "complete blobs are not read again")

	request.Fresh = true
	report = prove(t, p, request)
	require.Equal(t, report.Bytes, report.ReadBytes, "unless the results are to be fresh")
}

func TestProof_nextMirrorIfTheFirstIsDown(t *testing.T) {
	f := newFakeRegistry(t)
	report := prove(t, newProver(t, rulesTo(t, "127.0.0.1:1/team/app", f.host+"/team/app"), prover.Options{}),
		one(f.image))
	require.Equal(t, prover.Held, report.Results[0].Status)
	require.Equal(t, f.host+"/team/app", strings.Split(report.Results[0].Endpoint, "@")[0])
}

func TestFault15_missingSignatures(t *testing.T) {
	f := newFakeRegistry(t)
	request := one(f.image)
	request.Signatures = true
	report := prove(t, newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{}), request)
	require.True(t, report.Complete())
	require.Contains(t, report.Warnings[0], "1 of 1 images have no Sigstore signature")
}

func TestProof_progress(t *testing.T) {
	f := newFakeRegistry(t)
	var last prover.Progress
	_, err := newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{}).Prove(t.Context(), one(f.image),
		func(p prover.Progress) { last = p })
	require.NoError(t, err)
	require.Equal(t, prover.Progress{Images: 1, Total: 1, Requests: last.Requests}, last)
	require.Positive(t, last.Requests)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{}).Prove(ended, one(f.image), nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestProof_optionalImages(t *testing.T) {
	images := map[string]string{"tests": "quay.io/a@sha256:1", "cli": "quay.io/a@sha256:2", "oc": "quay.io/a@sha256:2",
		"aws-machine-controllers": "quay.io/a@sha256:3"}
	require.Equal(t, []prover.Image{
		{Ref: "quay.io/a@sha256:3", Names: []string{"aws-machine-controllers"}, Optional: true},
		{Ref: "quay.io/a@sha256:2", Names: []string{"cli", "oc"}},
		{Ref: "quay.io/a@sha256:1", Names: []string{"tests"}, Optional: true},
	}, prover.Components(images, "baremetal"))
	require.False(t, prover.Components(images, "")[0].Optional,
		"without a platform, an installation may need the images of every cloud")
}
