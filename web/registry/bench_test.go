package registry_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
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

// pullersEnv marks a process of clients, which pulls the URLs that it reads as JSON.
const pullersEnv = "LANDFALL_TEST_PULLERS"

// TestMain runs the clients of benchmarks in a process of their own, so that the time of processors
// is that of the server.
func TestMain(m *testing.M) {
	if os.Getenv(pullersEnv) == "" {
		os.Exit(m.Run())
	}
	var images [][]string
	err := json.NewDecoder(os.Stdin).Decode(&images)
	if err == nil {
		err = pullAll(images)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pullAll pulls images, each a list of URLs, by 20 clients.
func pullAll(images [][]string) error {
	transport := &http.Transport{MaxIdleConnsPerHost: 20, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		ReadBufferSize: 256 << 10}
	group := new(errgroup.Group)
	group.SetLimit(20)
	for _, urls := range images {
		group.Go(func() error {
			for _, url := range urls {
				response, err := (&http.Client{Transport: transport}).Get(url)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close() // it was read
				if err != nil || response.StatusCode != http.StatusOK {
					return fmt.Errorf("%s: %s %w", url, response.Status, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// anonymous returns the memory of this process that is not a file, in bytes.
func anonymous(b *testing.B) int64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	var kib int64
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			_, err = fmt.Sscan(text, &kib)
			require.NoError(b, err)
		}
	}
	return kib << 10
}

// pull has another process pull images, and reports the time of processors that the server needs
// for a GiB, and its memory above that before.
func pull(b *testing.B, images [][]string, size int64) {
	b.Helper()
	encoded, err := json.Marshal(images)
	require.NoError(b, err)
	pulled := func() {
		clients := exec.CommandContext(b.Context(), os.Args[0])
		clients.Env, clients.Stderr = append(os.Environ(), pullersEnv+"=1"), os.Stderr
		clients.Stdin = bytes.NewReader(encoded)
		require.NoError(b, clients.Run())
	}
	pulled() // verifies the blobs, and fills the cache of the kernel
	debug.FreeOSMemory()
	idle, highest := anonymous(b), int64(0)
	sampled, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				highest = max(highest, anonymous(b))
			}
		}
	}()
	before := cpu(b)
	for b.Loop() {
		pulled()
	}
	used := cpu(b) - before
	close(ended)
	<-sampled
	b.ReportMetric(used/(float64(b.N)*float64(size)/(1<<30)), "cpu-s/GiB")
	b.ReportMetric(float64(highest-idle)/(1<<20), "MiB-above-idle")
}

// limitedFile is a file of a medium that reads 30 MB/s.
type limitedFile struct {
	medium.File
	limit *rate.Limiter
	last  *atomic.Int64 // when bytes were last read, in nanoseconds since 1970
}

// ReadAt implements io.ReaderAt.
func (f limitedFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.limit.WaitN(context.Background(), len(p)); err != nil {
		return 0, err
	}
	f.last.Store(time.Now().UnixNano())
	return f.File.ReadAt(p, offset)
}

// BenchmarkStage_slowMedium pulls 16 blobs of 8 MiB by 20 clients, each in its own order, from a
// medium of 30 MB/s that is copied to the disk. times-medium is the time as a multiple of that for
// reading the blobs once, and last-read is when the last bytes were read, in the same unit. Clients
// and server share the processors, so other load makes both larger.
func BenchmarkStage_slowMedium(b *testing.B) {
	const speed = 30e6
	for b.Loop() {
		b.StopTimer()
		s := newSite(b)
		a, layers := layered(b, 16, 8<<20)
		s.write("mirror_000001.tar", a)
		limit := rate.NewLimiter(rate.Inf, 1<<20)
		last := new(atomic.Int64)
		s.open = func(path string) (medium.File, error) {
			file, err := os.Open(path)
			return limitedFile{file, limit, last}, err
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
		once := float64(size) / speed
		b.ReportMetric(time.Since(start).Seconds()/once, "times-medium")
		b.ReportMetric(time.Unix(0, last.Load()).Sub(start).Seconds()/once, "last-read")
		s.stop()
	}
}

// BenchmarkPull compares pulls of 200 images by 20 clients from an archive with Go's file server
// for the same bytes, in plain HTTP and over TLS. An image has two of 40 layers of 8 MiB, a small
// layer and a config of its own.
func BenchmarkPull(b *testing.B) {
	const size, layers, images = 8 << 20, 40, 200
	s := newSite(b)
	files := b.TempDir()
	keep := func(digest string, data []byte) {
		require.NoError(b, os.WriteFile(filepath.Join(files, digest), data, 0o600))
	}
	keep("base", []byte("{}"))
	a := &simulated.Archive{}
	var shared []v1.Layer
	for i := range layers {
		data := bytes.Repeat([]byte{byte(i), 1, 2, 3}, size/4)
		shared = append(shared, static.NewLayer(data, types.OCILayer))
		keep(digestOf(data), data)
	}
	var paths [][]string
	var total int64
	for i := range images {
		own := bytes.Repeat([]byte{byte(i), byte(i >> 8), 7, 9}, 16<<10)
		keep(digestOf(own), own)
		image, err := mutate.AppendLayers(empty.Image, static.NewLayer(own, types.OCILayer), shared[i%layers],
			shared[(i*7+3)%layers])
		require.NoError(b, err)
		require.NoError(b, a.AddImage(b.Context(), image, "team/image", fmt.Sprint(i)))
		manifest, err := image.RawManifest()
		require.NoError(b, err)
		config, err := image.RawConfigFile()
		require.NoError(b, err)
		keep(digestOf(manifest), manifest)
		keep(digestOf(config), config)
		one := []string{"", "manifests/" + digestOf(manifest), "blobs/" + digestOf(config)}
		total += int64(len(manifest) + len(config))
		parsed, err := image.Manifest()
		require.NoError(b, err)
		for _, layer := range parsed.Layers {
			one = append(one, "blobs/"+layer.Digest.String())
			total += layer.Size
		}
		paths = append(paths, one)
	}
	s.write("mirror_000001.tar", a)
	a, shared = nil, nil
	s.start()
	for _, c := range []struct {
		name    string
		handler http.Handler
		path    func(string) string
	}{{"registry", s.server.Config.Handler, func(path string) string {
		if path == "" {
			return "/v2/"
		}
		return "/v2/team/image/" + path
	}}, {"files", http.FileServer(http.Dir(files)), func(path string) string {
		return "/" + cmp.Or(strings.TrimPrefix(filepath.Base(path), "."), "base")
	}}} {
		for _, encrypted := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s-tls=%v", c.name, encrypted), func(b *testing.B) {
				server := httptest.NewUnstartedServer(c.handler)
				if encrypted {
					server.StartTLS()
				} else {
					server.Start()
				}
				defer server.Close()
				var urls [][]string
				for _, image := range paths {
					var list []string
					for _, path := range image {
						list = append(list, server.URL+c.path(path))
					}
					urls = append(urls, list)
				}
				pull(b, urls, total)
			})
		}
	}
}
