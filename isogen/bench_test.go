package isogen_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/skeleton"
)

// benchSize is large enough to measure throughput and small enough for the page cache.
const benchSize = 256 << 20

// BenchmarkOpen measures the time to index a base.
func BenchmarkOpen(b *testing.B) {
	path := write(b, skeleton.ISO{RootFSSize: 64 << 20})
	for b.Loop() {
		base, err := isogen.Open(path)
		require.NoError(b, err)
		require.NoError(b, base.Close())
	}
}

// BenchmarkFull measures the time to generate an image with its tag.
func BenchmarkFull(b *testing.B) {
	base := open(b, write(b, skeleton.ISO{}))
	config := isogen.Payload{Ignition: fmt.Appendf(nil, "%80000s", "config")}
	for b.Loop() {
		_, err := base.Full(config)
		require.NoError(b, err)
	}
}

// BenchmarkDownload sends an image to a client on the loopback interface, alternating with the
// plain file sent by http.ServeFile. It reports the times to the first byte, the throughput of both
// and their ratio.
func BenchmarkDownload(b *testing.B) {
	base := open(b, write(b, skeleton.ISO{RootFSSize: benchSize}))
	image, err := base.Full(isogen.Payload{Ignition: []byte("config")})
	require.NoError(b, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, base.Path()) })
	mux.HandleFunc("/image", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(image.Size()))
		w.Header().Set("Content-Type", "application/octet-stream")
		reader := image.NewReader()
		if _, err := reader.WriteTo(w); err != nil {
			b.Error(err)
		}
		if err := reader.Close(); err != nil {
			b.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	get := func(path string) (first, all time.Duration) {
		start := time.Now()
		response, err := server.Client().Get(server.URL + path)
		require.NoError(b, err)
		buf := make([]byte, 1<<20)
		_, err = io.ReadFull(response.Body, buf[:1])
		require.NoError(b, err)
		first = time.Since(start)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{response.Body}, buf)
		require.NoError(b, err)
		require.Equal(b, image.Size(), n+1)
		require.NoError(b, response.Body.Close())
		return first, time.Since(start)
	}
	get("/file") // fills the page cache
	var fileFirst, fileAll, imageFirst, imageAll time.Duration
	n := 0
	for b.Loop() {
		first, all := get("/file")
		fileFirst, fileAll = fileFirst+first, fileAll+all
		first, all = get("/image")
		imageFirst, imageAll = imageFirst+first, imageAll+all
		n++
	}
	bytes := float64(image.Size()) * float64(n)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(bytes/imageAll.Seconds()/1e6, "image-MB/s")
	b.ReportMetric(bytes/fileAll.Seconds()/1e6, "file-MB/s")
	b.ReportMetric(fileAll.Seconds()/imageAll.Seconds(), "throughput-ratio")
	b.ReportMetric(imageFirst.Seconds()*1e3/float64(n), "image-first-byte-ms")
	b.ReportMetric(fileFirst.Seconds()*1e3/float64(n), "file-first-byte-ms")
}

// BenchmarkRangeOf32KiB reads an image like a BMC reads virtual media: in small consecutive ranges.
func BenchmarkRangeOf32KiB(b *testing.B) {
	base := open(b, write(b, skeleton.ISO{RootFSSize: 16 << 20}))
	image, err := base.Full(isogen.Payload{Ignition: []byte("config")})
	require.NoError(b, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reader := image.NewReader()
		http.ServeContent(w, r, "x.iso", time.Time{}, reader)
		if err := reader.Close(); err != nil {
			b.Error(err)
		}
	}))
	server.Listener = listener
	server.Start()
	defer server.Close()
	at := 0
	for b.Loop() {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL, nil)
		require.NoError(b, err)
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+32<<10-1))
		response, err := server.Client().Do(request)
		require.NoError(b, err)
		n, err := io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		require.EqualValues(b, 32<<10, n)
		require.NoError(b, response.Body.Close())
		at = (at + 32<<10) % (16 << 20)
	}
}
