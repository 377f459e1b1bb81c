package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
)

// cpu returns the seconds of processors that this process has used.
func cpu(b *testing.B) float64 {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// pull reads URLs by 20 clients, and reports the time of processors for a GiB, of client and
// server.
func pull(b *testing.B, client *http.Client, urls []string, size int64) {
	b.Helper()
	before := cpu(b)
	for b.Loop() {
		group := new(errgroup.Group)
		group.SetLimit(20)
		for _, url := range urls {
			group.Go(func() error {
				response, err := client.Get(url)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close() // it was read
				return err
			})
		}
		require.NoError(b, group.Wait())
	}
	total := float64(b.N) * float64(size) * float64(len(urls)) / (1 << 30)
	b.ReportMetric((cpu(b)-before)/total, "cpu-s/GiB")
}

// limitedFile is a file of a medium that reads 30 MB/s.
type limitedFile struct {
	medium.File
	limit *rate.Limiter
}

// ReadAt implements io.ReaderAt.
func (f limitedFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.limit.WaitN(context.Background(), len(p)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

// BenchmarkStage_slowMedium pulls 16 blobs of 8 MiB by 20 clients, each in its own order, from a
// medium of 30 MB/s that is copied to the disk. times-medium is the time as a multiple of that for
// reading the blobs once.
func BenchmarkStage_slowMedium(b *testing.B) {
	const speed = 30e6
	for b.Loop() {
		b.StopTimer()
		s := newSite(b)
		a, layers := layered(b, 16, 8<<20)
		s.write("mirror_000001.tar", a)
		limit := rate.NewLimiter(rate.Inf, 1<<20)
		s.open = func(path string) (medium.File, error) {
			file, err := os.Open(path)
			return limitedFile{file, limit}, err
		}
		s.start()
		limit.SetLimit(speed)
		s.stage()
		b.StartTimer()
		start := time.Now()
		group := new(errgroup.Group)
		for i := range 20 {
			group.Go(func() error {
				digests := slices.Collect(maps.Keys(layers))
				rand.New(rand.NewPCG(uint64(i), 1)).Shuffle(len(digests), func(a, b int) {
					digests[a], digests[b] = digests[b], digests[a]
				})
				for _, digest := range digests {
					response, err := http.Get(s.server.URL + "/v2/team/image/blobs/" + digest)
					if err != nil {
						return err
					}
					n, err := io.Copy(io.Discard, response.Body)
					_ = response.Body.Close() // it was read
					if err != nil || n != int64(len(layers[digest])) {
						return fmt.Errorf("%s: %d bytes, %w", response.Status, n, err)
					}
				}
				return nil
			})
		}
		require.NoError(b, group.Wait())
		var size int
		for _, layer := range layers {
			size += len(layer)
		}
		b.ReportMetric(time.Since(start).Seconds()/(float64(size)/speed), "times-medium")
		s.stop()
	}
}

// BenchmarkPull compares pulls of 40 blobs of 8 MiB from an archive with Go's file server for the
// same bytes, by 20 clients, in plain HTTP and over TLS.
func BenchmarkPull(b *testing.B) {
	const size, count = 8 << 20, 40
	s := newSite(b)
	files := b.TempDir()
	a := &simulated.Archive{}
	var digests []string
	for i := range count {
		layer := bytes.Repeat([]byte{byte(i), 1, 2, 3}, size/4)
		digest, err := a.AddBlob(b.Context(), "team/image", string(rune('a'+i%26))+string(rune('a'+i/26)), layer)
		require.NoError(b, err)
		digests = append(digests, digest)
		require.NoError(b, os.WriteFile(filepath.Join(files, digest), layer, 0o600))
	}
	s.write("mirror_000001.tar", a)
	s.start()
	for _, c := range []struct {
		name    string
		handler http.Handler
		path    string
	}{{"registry", s.server.Config.Handler, "/v2/team/image/blobs/"}, {"files", http.FileServer(http.Dir(files)),
		"/"}} {
		for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer,
			"tls": httptest.NewTLSServer} {
			b.Run(c.name+"-"+name, func(b *testing.B) {
				server := start(c.handler)
				defer server.Close()
				client := server.Client()
				client.Transport.(*http.Transport).MaxIdleConnsPerHost = 20
				var urls []string
				for _, digest := range digests {
					urls = append(urls, server.URL+c.path+digest)
				}
				for _, url := range urls { // verifies the blobs, and fills the cache of the kernel
					response, err := client.Get(url)
					require.NoError(b, err)
					_, err = io.Copy(io.Discard, response.Body)
					require.NoError(b, err)
					require.NoError(b, response.Body.Close())
				}
				pull(b, client, urls, size)
			})
		}
	}
}
