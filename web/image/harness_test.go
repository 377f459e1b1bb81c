package image_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/isogen"
	"landfall/isogen/skeleton"
	"landfall/web"
	"landfall/web/image"
	"landfall/web/problem"
)

// source has one image, or an error for all requests.
type source struct {
	mu      sync.Mutex
	image   *discovery.Image
	err     error
	lookups int // number of lookups of an image
	failed  int
	code    string
	until   time.Time
}

func (s *source) Image(_ context.Context, id string, kind discovery.Kind,
	_ discovery.Network) (*discovery.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups++
	if id != infraEnv {
		return nil, problem.NotFound("there is no infra-env %s", id)
	}
	if kind != discovery.Full && kind != "" {
		return nil, problem.Conflict("there is no %s image", kind)
	}
	return s.image, s.err
}

func (s *source) BootFile(_ context.Context, version, arch string, kind discovery.Kind) (*discovery.Image, error) {
	return nil, problem.Conflict("there is no %s of %s on %s", kind, version, arch)
}

func (s *source) ResolveCode(_ context.Context, code string) (string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code != s.code {
		return "", time.Time{}, problem.NotFound("there is no image at this address")
	}
	return infraEnv, s.until, nil
}

func (s *source) Script(_ context.Context, script discovery.ScriptRequest) ([]byte, error) {
	return fmt.Appendf(nil, "%s %s %s %s %s", script.Format, script.InfraEnvID, script.Type, script.MAC, script.URL),
		nil
}

func (s *source) Registrations(string) ([]time.Time, error) { return nil, s.err }

func (s *source) Ready() error { return s.err }

func (s *source) CheckBase(*discovery.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
}

func (s *source) set(i *discovery.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.image = i
}

func (s *source) setCode(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code = code
}

func base(t testing.TB) *isogen.Base {
	t.Helper()
	return largeBase(t, 200_000)
}

func largeBase(t testing.TB, rootFS int) *isogen.Base {
	t.Helper()
	path := filepath.Join(t.TempDir(), "live.iso")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, skeleton.Write(file, skeleton.ISO{RootFSSize: rootFS}))
	require.NoError(t, file.Close())
	base, err := isogen.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, base.Close()) })
	return base
}

func build(t testing.TB, base *isogen.Base, config string) *discovery.Image {
	t.Helper()
	full, err := base.Full(isogen.Payload{Ignition: []byte(config)})
	require.NoError(t, err)
	return &discovery.Image{Image: full, InfraEnvID: infraEnv, Kind: discovery.Full,
		FileName: "discovery_image_site-1.iso",
		Modified: modified}
}

func content(t testing.TB, i *discovery.Image) []byte {
	t.Helper()
	r := i.NewReader()
	b := make([]byte, i.Size())
	_, err := r.ReadAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return b
}

// serve registers the downloads in the appliance's server.
func serve(t testing.TB, src image.Source) *httptest.Server {
	t.Helper()
	server, _ := serveWith(t, image.Options{Source: src})
	return server
}

func serveWith(t testing.TB, options image.Options) (*httptest.Server, *image.Service) {
	t.Helper()
	if options.Networks == nil {
		options.Networks = discovery.Networks{{URL: "http://192.0.2.1:8090", Boot: "http://192.0.2.1:8090"}}
	}
	service := image.New(options)
	s := web.New(web.Options{})
	require.NoError(t, s.Register(service.Operations()...))
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server, service
}

func do(t testing.TB, server *httptest.Server, method, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return answerOf(t, server, r)
}

func answerOf(t testing.TB, server *httptest.Server, r *http.Request) (*http.Response, []byte) {
	t.Helper()
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response, body
}

func requireProblem(t *testing.T, response *http.Response, body []byte, status int, reason string) {
	t.Helper()
	require.Equal(t, status, response.StatusCode)
	var e models.Error
	require.NoError(t, json.Unmarshal(body, &e))
	require.NoError(t, e.Validate(nil))
	require.EqualValues(t, status, *e.ID)
	require.Contains(t, *e.Reason, reason)
}

// get requests a range of the image, or the whole image for "", with a User-Agent.
func get(t testing.TB, server *httptest.Server, path, agent, ranges string) (*http.Response, []byte) {
	t.Helper()
	header := []string{"User-Agent", agent}
	if ranges != "" {
		header = append(header, "Range", "bytes="+ranges)
	}
	return do(t, server, http.MethodGet, path, header...)
}

// log is a log whose lines tests can await.
type log struct{ lines chan string }

func newLog() (*slog.Logger, log) {
	l := log{make(chan string, 10_000)}
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})), l
}

func (l log) Write(p []byte) (int, error) {
	l.lines <- string(p)
	return len(p), nil
}

// await returns the next line that contains a text. It fails the test after a minute without one.
func (l log) await(t testing.TB, part string) string {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case line := <-l.lines:
			if strings.Contains(line, part) {
				return line
			}
		case <-timeout:
			require.FailNow(t, "no such line", part)
		}
	}
}

// begin sends a request on a new connection and does not read the response.
func begin(t testing.TB, server *httptest.Server, request string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, request+"\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	return conn
}

// rest reads a response to its end. It returns the received length of the body and the announced
// length.
func rest(t testing.TB, conn net.Conn) (got, promised int64) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	got, err = io.Copy(io.Discard, response.Body)
	if got < response.ContentLength {
		require.Error(t, err, "a client must detect that the response is incomplete")
	}
	return got, response.ContentLength
}
