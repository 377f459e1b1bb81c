package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/web"
)

var application = fstest.MapFS{
	".keep":                         {},
	"index.html":                    {Data: []byte("<html>")},
	"index.html.gz":                 {Data: []byte("gzipped html")},
	"assets/index-M6U8mTkq.js":      {Data: []byte("script")},
	"assets/index-M6U8mTkq.js.gz":   {Data: []byte("gzipped script")},
	"assets/index-M6U8mTkq.js.br":   {Data: []byte("brotli script")},
	"assets/RedHatText-D_kj-qbA.gz": {Data: []byte("a file that is itself gzipped")},
}

func TestPage_clientRoutes(t *testing.T) {
	s := newTestServer(t, application)
	for _, path := range []string{"/", "/index.html", "/assisted-installer", "/assisted-installer/clusters/~new",
		"/assisted-installer/clusters/a.b"} {
		answer := s.get(path)
		require.Equal(t, http.StatusOK, answer.Code, path)
		require.Equal(t, "<html>", answer.Body.String(), path)
		require.Equal(t, "text/html; charset=utf-8", answer.Header().Get("Content-Type"))
		require.Equal(t, "no-cache", answer.Header().Get("Cache-Control"))
		require.Contains(t, answer.Header().Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "nosniff", answer.Header().Get("X-Content-Type-Options"))
	}
}

func TestPage_contentEncoding(t *testing.T) {
	s := newTestServer(t, application)
	for accepted, want := range map[string][2]string{
		"":                     {"script", ""},
		"gzip, deflate":        {"gzipped script", "gzip"},
		"gzip, deflate, br":    {"brotli script", "br"},
		"br;q=0, gzip;q=0.5":   {"gzipped script", "gzip"},
		"br;q=0.0, gzip;q=0":   {"script", ""},
		"identity, zstd;q=0.9": {"script", ""},
	} {
		answer := s.get("/assets/index-M6U8mTkq.js", "Accept-Encoding", accepted)
		require.Equal(t, want[0], answer.Body.String(), accepted)
		require.Equal(t, want[1], answer.Header().Get("Content-Encoding"), accepted)
		require.Equal(t, "text/javascript; charset=utf-8", answer.Header().Get("Content-Type"))
		require.Contains(t, answer.Header().Get("Cache-Control"), "immutable")
	}
}

func TestPage_unpackedWithoutGzip(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write([]byte("script"))
	require.NoError(t, errors.Join(err, writer.Close()))
	s := newTestServer(t, fstest.MapFS{
		"index.html":                   {Data: []byte("<html>")},
		"assets/index-M6U8mTkq.js.gz":  {Data: packed.Bytes()},
		"assets/index-M6U8mTkq.js.br":  {Data: []byte("brotli script")},
		"assets/broken-M6U8mTkq.js.gz": {Data: []byte("no gzip")},
	})
	sent := s.get("/assets/index-M6U8mTkq.js", "Accept-Encoding", "gzip")
	require.Equal(t, packed.String(), sent.Body.String())
	require.Equal(t, "gzip", sent.Header().Get("Content-Encoding"))
	plain := s.get("/assets/index-M6U8mTkq.js")
	require.Equal(t, "script", plain.Body.String())
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	require.Equal(t, "text/javascript; charset=utf-8", plain.Header().Get("Content-Type"))
	require.NotEqual(t, sent.Header().Get("ETag"), plain.Header().Get("ETag"))
	require.Equal(t, http.StatusNotModified, s.get("/assets/index-M6U8mTkq.js", "If-None-Match",
		plain.Header().Get("ETag")).Code)
	require.Equal(t, "brotli script", s.get("/assets/index-M6U8mTkq.js", "Accept-Encoding", "gzip, br").Body.String())
	require.Equal(t, http.StatusNotFound, s.get("/assets/index-M6U8mTkq.js.gz").Code)
	require.Equal(t, http.StatusNotFound, s.get("/assets/index-M6U8mTkq.js.br").Code)
	require.Equal(t, http.StatusInternalServerError, s.get("/assets/broken-M6U8mTkq.js").Code)
}

func TestPage_notModified(t *testing.T) {
	s := newTestServer(t, application)
	tag := s.get("/").Header().Get("ETag")
	require.Equal(t, http.StatusNotModified, s.get("/", "If-None-Match", tag).Code)
	require.NotEqual(t, tag, s.get("/", "Accept-Encoding", "gzip").Header().Get("ETag"))
}

func TestPage_missingFile(t *testing.T) {
	s := newTestServer(t, application)
	for _, path := range []string{"/assets/index-OLDOLDOL.js", "/.keep", "/api/landfall/v2/x",
		"/assets/index-M6U8mTkq.js.gz"} {
		require.Equal(t, http.StatusNotFound, s.get(path).Code, path)
	}
}

func TestPage_wrongPathOfBootFile(t *testing.T) {
	s := newTestServer(t, application)
	for path, want := range map[string]string{
		"/byid/x/4.20/x86_64/vmlinuz":     "rootfs.img",
		"/byapikey/t/4.20/x86_64/rootfs":  "rootfs.img",
		"/bytoken/t/4.20/x86_64/live.iso": "full.iso",
		"/images/x/foo":                   "/images/INFRA-ENV/pxe-initrd",
		"/boot-artifacts/initrd":          "/boot-artifacts/rootfs",
		"/i":                              "/i/CODE.iso",
		"/ipxe/x/y":                       "/ipxe/INFRA-ENV",
		"/grub/x":                         "/grub/INFRA-ENV/grub.cfg",
		"/config":                         "/config/INFRA-ENV.iso",
	} {
		answer := s.get(path)
		require.Equal(t, http.StatusNotFound, answer.Code, path)
		require.Contains(t, answer.Body.String(), want, path)
	}
}

// TestPage_disabledKubernetesAPI asks for the paths with which kubectl begins. It reports what it
// can't read as an invalid character, so it must not get the page.
func TestPage_disabledKubernetesAPI(t *testing.T) {
	s := newTestServer(t, application)
	for _, path := range []string{"/api", "/apis", "/apis/agent-install.openshift.io/v1beta1/infraenvs"} {
		answer := s.get(path)
		require.Equal(t, http.StatusNotFound, answer.Code, path)
		require.Contains(t, answer.Body.String(), "set kubernetes.enabled to true", path)
	}
}

func TestPage_notBuilt(t *testing.T) {
	answer := newTestServer(t, fstest.MapFS{".keep": {}}).get("/")
	require.Equal(t, http.StatusNotFound, answer.Code)
	require.Contains(t, answer.Body.String(), "built without its browser application")
}

func TestConsole_operations(t *testing.T) {
	s := newTestServer(t, application)
	var status Status
	require.NoError(t, json.Unmarshal(s.get("/api/landfall/v1/status").Body.Bytes(), &status))
	require.Equal(t, "http://bastion:8090", status.URL)
	var image discovery.Description
	require.NoError(t, json.Unmarshal(s.get("/api/landfall/v1/infra-envs/i-1/image").Body.Bytes(), &image))
	require.Equal(t, discovery.Description{URL: "http://bastion:8090/i-1", SizeBytes: 7, SHA256: "ab", ETag: `"x"`,
		Type: "full-iso"}, image)
	missing := s.get("/api/landfall/v1/infra-envs/i-2/image")
	require.Equal(t, http.StatusNotFound, missing.Code)
	require.Contains(t, missing.Body.String(), "there is no infra-env i-2")
}

const ping = "event: ping | data: {}"

func TestFeed_eachChangeOnce(t *testing.T) {
	s := newTestServer(t, application)
	s.put(t, "env/before")
	next := s.listen(t, "")
	require.Equal(t, ping, next())
	s.put(t, "env/after")
	require.Equal(t,
		`id: 2 | event: change | data: {"revision":2,"kind":"hosts","id":"after","cluster_id":"cluster of hosts env/after"}`, next())
}

func TestFeed_resumesAfterLastEvent(t *testing.T) {
	s := newTestServer(t, application)
	for _, key := range []string{"env/a", "env/b", "env/c"} {
		s.put(t, key)
	}
	next := s.listen(t, "1")
	require.Equal(t, ping, next())
	require.Contains(t, next(), `"id":"b"`)
	require.Contains(t, next(), `"id":"c"`)
}

func TestFeed_unknownRevisionRestarts(t *testing.T) {
	s := newTestServer(t, application)
	s.put(t, "env/a")
	next := s.listen(t, "99")
	require.Equal(t, ping, next())
	require.Equal(t, "id: 1 | event: reset | data: {}", next())
	s.put(t, "env/b")
	require.Contains(t, next(), `"id":"b"`)
}

func TestFeed_heartbeatEvery15Seconds(t *testing.T) {
	s := newTestServer(t, application)
	next := s.listen(t, "")
	require.Equal(t, ping, next())
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	s.clock.Advance(heartbeat)
	require.Equal(t, ping, next())
}

func TestFeed_invalidLastEventID(t *testing.T) {
	answer := newTestServer(t, application).get(FeedRoute, "Last-Event-ID", "yesterday")
	require.Equal(t, http.StatusBadRequest, answer.Code)
	require.Contains(t, answer.Body.String(), "yesterday")
}

func TestFeed_endsWhenServerDrains(t *testing.T) {
	s := newTestServer(t, application)
	ctx, stop := context.WithCancel(t.Context())
	listener, err := web.Listen(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(ctx, listener) }()
	response, err := http.Get("http://" + listener.Addr().String() + FeedRoute)
	require.NoError(t, err)
	stop()
	require.NoError(t, <-served)
	require.NoError(t, response.Body.Close())
}
