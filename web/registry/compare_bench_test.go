//go:build registry

package registry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror/registrytest"
	simulated "landfall/appliance/simulate/registry"
)

// usage returns the seconds of processors and the bytes written of a process.
func usage(b *testing.B, pid int) (seconds float64, written int64) {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:13] { // utime and stime, in hundredths
		var ticks float64
		_, err := fmt.Sscan(field, &ticks)
		require.NoError(b, err)
		seconds += ticks / 100
	}
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	require.NoError(b, err)
	_, text, found := strings.Cut(string(io), "\nwrite_bytes: ")
	require.True(b, found)
	_, err = fmt.Sscan(text, &written)
	require.NoError(b, err)
	return seconds, written
}

// BenchmarkFirstImage compares the time until nodes have their first and their last image, from an
// archive that is plugged in and from Debian's docker-registry that is filled with its images. An
// image has a layer of 8 MiB of its own, and one that all have.
func BenchmarkFirstImage(b *testing.B) {
	const count, size = 40, 8 << 20
	a := &simulated.Archive{}
	shared := static.NewLayer(bytes.Repeat([]byte("base"), size/4), types.OCILayer)
	var images []v1.Image
	var paths [][]string
	for i := range count {
		image, err := mutate.AppendLayers(empty.Image, shared,
			static.NewLayer(bytes.Repeat([]byte{byte(i), 1, 2, 3}, size/4), types.OCILayer))
		require.NoError(b, err)
		require.NoError(b, a.AddImage(b.Context(), image, "team/image", fmt.Sprint(i)))
		manifest, err := image.Manifest()
		require.NoError(b, err)
		urls := []string{"/v2/", fmt.Sprintf("/v2/team/image/manifests/%d", i),
			"/v2/team/image/blobs/" + manifest.Config.Digest.String()}
		for _, layer := range manifest.Layers {
			urls = append(urls, "/v2/team/image/blobs/"+layer.Digest.String())
		}
		images, paths = append(images, image), append(paths, urls)
	}
	pullFrom := func(url string, paths [][]string) {
		var urls [][]string
		for _, image := range paths {
			var list []string
			for _, path := range image {
				list = append(list, url+path)
			}
			urls = append(urls, list)
		}
		encoded, err := json.Marshal(urls)
		require.NoError(b, err)
		clients := exec.CommandContext(b.Context(), os.Args[0])
		clients.Env, clients.Stderr = append(os.Environ(), pullersEnv+"=1"), os.Stderr
		clients.Stdin = bytes.NewReader(encoded)
		require.NoError(b, clients.Run())
	}
	pullFirst := func(url string) {
		for _, path := range paths[0] {
			response, err := http.Get(url + path)
			require.NoError(b, err)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(b, err)
			require.NoError(b, response.Body.Close())
			require.Equal(b, http.StatusOK, response.StatusCode)
		}
	}
	report := func(b *testing.B, first, last time.Duration, cpu float64, written int64) {
		b.ReportMetric(float64(first.Milliseconds()), "ms-first")
		b.ReportMetric(last.Seconds(), "s-last")
		b.ReportMetric(cpu, "cpu-s")
		b.ReportMetric(float64(written)/(1<<20), "MiB-written")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("archive", func(b *testing.B) {
		for b.Loop() {
			s := newSite(b)
			s.write("mirror_000001.tar", a)
			cpu, written := usage(b, os.Getpid())
			start := time.Now()
			s.start()
			pullFirst(s.server.URL)
			first := time.Since(start)
			pullFrom(s.server.URL, paths)
			last := time.Since(start)
			after, all := usage(b, os.Getpid())
			report(b, first, last, after-cpu, all-written)
			s.stop()
		}
	})
	b.Run("docker-registry", func(b *testing.B) {
		for b.Loop() {
			r := registrytest.Start(b, registrytest.Options{Plain: true})
			cpu, written := usage(b, r.Pid)
			start, first := time.Now(), time.Duration(0)
			for i, image := range images {
				tag, err := name.NewTag(fmt.Sprintf("%s/team/image:%d", r.Host, i), name.Insecure)
				require.NoError(b, err)
				require.NoError(b, remote.Write(tag, image, remote.WithContext(b.Context())))
				if i == 0 {
					pullFirst("http://" + r.Host)
					first = time.Since(start)
				}
			}
			pullFrom("http://"+r.Host, paths)
			last := time.Since(start)
			after, all := usage(b, r.Pid)
			report(b, first, last, after-cpu, all-written)
		}
	})
}
