package image_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/isogen"
	"landfall/web"
	"landfall/web/image"
	"landfall/web/problem"
)

const (
	infraEnv = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	path     = "/byid/" + infraEnv + "/4.19/x86_64/full.iso"
)

var modified = time.Date(2025, 5, 23, 12, 0, 0, 0, time.UTC)

func TestDownload(t *testing.T) {
	i := build(t, base(t), "config")
	want := content(t, i)
	server := serve(t, &source{image: i})
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		response, body := do(t, server, method, path)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, i.Size(), response.ContentLength)
		require.Equal(t, "bytes", response.Header.Get("Accept-Ranges"))
		require.Equal(t, i.ETag(), response.Header.Get("ETag"))
		require.Equal(t, "Fri, 23 May 2025 12:00:00 GMT", response.Header.Get("Last-Modified"))
		require.Equal(t, "attachment; filename=discovery_image_site-1.iso", response.Header.Get("Content-Disposition"))
		require.Equal(t, "application/octet-stream", response.Header.Get("Content-Type"))
		if method == http.MethodGet {
			require.True(t, bytes.Equal(want, body))
		} else {
			require.Empty(t, body)
		}
	}
}

func TestDownload_ranges(t *testing.T) {
	i := build(t, base(t), "config")
	want := content(t, i)
	size := len(want)
	server := serve(t, &source{image: i})
	for name, c := range map[string]struct {
		header   string
		from, to int
	}{
		"the first bytes":        {"bytes=0-99", 0, 100},
		"one byte":               {"bytes=32768-32768", 32768, 32769},
		"across the embed area":  {"bytes=100000-500000", 100000, 500001},
		"open":                   {"bytes=600000-", 600000, size},
		"a suffix":               {"bytes=-7", size - 7, size},
		"beyond the end is less": {"bytes=600000-99999999", 600000, size},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := do(t, server, http.MethodGet, path, "Range", c.header)
			require.Equal(t, http.StatusPartialContent, response.StatusCode)
			require.Equal(t, int64(c.to-c.from), response.ContentLength)
			require.True(t, bytes.Equal(want[c.from:c.to], body))
		})
	}
}

func TestDownload_multipleRanges(t *testing.T) {
	i := build(t, base(t), "config")
	want := content(t, i)
	response, body := do(t, serve(t, &source{image: i}), http.MethodGet, path, "Range", "bytes=0-9,300000-300019,-5")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	kind, params, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/byteranges", kind)
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for _, want := range [][]byte{want[:10], want[300000:300020], want[len(want)-5:]} {
		part, err := parts.NextPart()
		require.NoError(t, err)
		got, err := io.ReadAll(part)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = parts.NextPart()
	require.Equal(t, io.EOF, err)
}

func TestDownload_conditionalRequests(t *testing.T) {
	i := build(t, base(t), "config")
	server := serve(t, &source{image: i})
	for name, c := range map[string]struct {
		header []string
		status int
	}{
		"the client's image is current":     {[]string{"If-None-Match", i.ETag()}, http.StatusNotModified},
		"the client's image is not current": {[]string{"If-None-Match", `"other"`}, http.StatusOK},
		"not newer than the client's": {[]string{"If-Modified-Since", "Fri, 23 May 2025 12:00:00 GMT"},
			http.StatusNotModified},
		"resumed on the same image": {[]string{"Range", "bytes=5-", "If-Range", i.ETag()},
			http.StatusPartialContent},
		"resumed on another image": {[]string{"Range", "bytes=5-", "If-Range", `"other"`}, http.StatusOK},
		"a range of the expected image": {[]string{"Range", "bytes=5-", "If-Match", i.ETag()},
			http.StatusPartialContent},
		"a range of another image": {[]string{"Range", "bytes=5-", "If-Match", `"other"`},
			http.StatusPreconditionFailed},
		"a range after the end": {[]string{"Range", "bytes=99999999-"},
			http.StatusRequestedRangeNotSatisfiable},
		"an invalid range": {[]string{"Range", "bytes=b-a"}, http.StatusRequestedRangeNotSatisfiable},
		"resumed by the date of the image": {[]string{"Range", "bytes=5-", "If-Range", "Fri, 23 May 2025 12:00:00 GMT"},
			http.StatusPartialContent},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := do(t, server, http.MethodGet, path, c.header...)
			require.Equal(t, c.status, response.StatusCode)
		})
	}
}

func TestDigest_ownURL(t *testing.T) {
	i := build(t, base(t), "config")
	want := sha256.Sum256(content(t, i))
	response, body := do(t, serve(t, &source{image: i}), http.MethodGet, path+".sha256")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, hex.EncodeToString(want[:])+"  discovery_image_site-1.iso\n", string(body))
}

func TestDownload_failuresInAPIShape(t *testing.T) {
	server := serve(t, &source{err: problem.Unavailable("the base ISO of 4.19 is missing: add it")})
	response, body := do(t, server, http.MethodGet, path)
	requireProblem(t, response, body, http.StatusServiceUnavailable, "the base ISO of 4.19 is missing")
	require.Empty(t, response.Header.Get("Content-Disposition"))

	response, body = do(t, server, http.MethodGet, "/byid/nobody/4.19/x86_64/full.iso")
	requireProblem(t, response, body, http.StatusNotFound, "no infra-env nobody")
	response, body = do(t, server, http.MethodGet, "/byid/nobody/4.19/x86_64/full.iso.sha256")
	requireProblem(t, response, body, http.StatusNotFound, "no infra-env nobody")

	server = serve(t, &source{err: &isogen.TooLargeError{Packed: 300000, Limit: 262144}})
	response, body = do(t, server, http.MethodGet, path)
	requireProblem(t, response, body, http.StatusConflict, "take 300000 bytes compressed")
}

func TestDownload_onlyGetAndHead(t *testing.T) {
	server := serve(t, &source{image: build(t, base(t), "config")})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		response, body := do(t, server, method, path)
		requireProblem(t, response, body, http.StatusMethodNotAllowed, "does not support the method "+method)
	}
}

func TestBase_modifiedIsNotServed(t *testing.T) {
	b := base(t)
	server := serve(t, &source{image: build(t, b, "config")})
	require.NoError(t, os.Chtimes(b.Path(), modified, modified))
	response, body := do(t, server, http.MethodGet, path)
	requireProblem(t, response, body, http.StatusServiceUnavailable, "was changed after it was opened")
}

// TestDownload_keepsItsRevision changes the infra-env after a part of its image was read.
func TestDownload_keepsItsRevision(t *testing.T) {
	b := largeBase(t, 16<<20)
	old := build(t, b, "old")
	src := &source{image: old}
	server := serve(t, src)

	response, err := server.Client().Get(server.URL + path)
	require.NoError(t, err)
	head := make([]byte, 1000)
	_, err = io.ReadFull(response.Body, head)
	require.NoError(t, err)
	src.set(build(t, b, "new"))
	rest, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.True(t, bytes.Equal(content(t, old), append(head, rest...)))

	resumed, body := do(t, server, http.MethodGet, path, "Range", "bytes=1000-", "If-Range", old.ETag())
	require.Equal(t, http.StatusPartialContent, resumed.StatusCode,
		"an interrupted download continues with the image of its tag")
	require.Equal(t, old.ETag(), resumed.Header.Get("ETag"))
	require.True(t, bytes.Equal(content(t, old)[1000:], body))

	_, body = do(t, server, http.MethodGet, path)
	require.True(t, bytes.Equal(content(t, src.image), body), "a new download receives the new image")
}

// copies counts the bytes that reach the connection as a file.
type copies struct {
	*net.TCPConn
	files *int
}

func (c copies) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if _, ok := limited.R.(*os.File); ok {
			*c.files++
		}
	}
	return c.TCPConn.ReadFrom(r)
}

type listener struct {
	net.Listener
	files *int
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return copies{conn.(*net.TCPConn), l.files}, nil
}

func TestDownload_baseSentAsFile(t *testing.T) {
	s := web.New(web.Options{})
	require.NoError(t, s.Register(image.New(image.Options{
		Source: &source{image: build(t, base(t), "config")}, Networks: discovery.Networks{{}},
	}).Operations()...))
	server := httptest.NewUnstartedServer(s)
	files := 0
	server.Listener = listener{server.Listener, &files}
	server.Start()
	do(t, server, http.MethodGet, path)
	server.Close()
	require.Equal(t, 2, files, "the range before the embed area and the range after it")
}
