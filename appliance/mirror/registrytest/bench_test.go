//go:build registry

package registrytest

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
)

// The approximate size of a release: the number of images, and of layers of each image.
const (
	benchImages = 200
	benchLayers = 6
)

// BenchmarkProve proves a mirror of the size of a release, first without and then with a cache. It
// reports the CPU time of both processes and, as Peak-MiB, the maximum resident memory of the
// process during the proof.
func BenchmarkProve(b *testing.B) {
	r := Start(b, Options{})
	request := fillForBench(b, r)
	s := &Site{Registry: r}
	client := mirror.NewClient(s.Rules(b, r.CA), mirror.ClientOptions{})
	b.Cleanup(client.CloseIdleConnections)
	for _, again := range []bool{false, true} {
		b.Run(map[bool]string{false: "Uncached", true: "Unchanged"}[again], func(b *testing.B) {
			p := prover.New(prover.Options{Client: client})
			request.Fresh = !again
			proveBench(b, p, request) // fills the cache and opens connections
			debug.FreeOSMemory()
			peak := watchMemory(b)
			own, registry := cpu(b, os.Getpid()), cpu(b, r.Pid)
			b.ResetTimer()
			for b.Loop() {
				proveBench(b, p, request)
			}
			b.StopTimer()
			b.ReportMetric((cpu(b, os.Getpid())-own).Seconds()/float64(b.N), "own-cpu-s/op")
			b.ReportMetric((cpu(b, r.Pid)-registry).Seconds()/float64(b.N), "registry-cpu-s/op")
			b.ReportMetric(peak(), "peak-MiB")
		})
	}
}

func proveBench(b *testing.B, p *prover.Prover, request prover.Request) {
	b.Helper()
	report, err := p.Prove(b.Context(), request, nil)
	require.NoError(b, err)
	require.True(b, report.Complete())
	require.Equal(b, benchImages*(benchLayers+1), report.Blobs)
}

func fillForBench(b *testing.B, r *Registry) prover.Request {
	b.Helper()
	secret, err := mirror.ParsePullSecret(r.PullSecret(Password))
	require.NoError(b, err)
	request := prover.Request{Secret: secret, Images: make([]prover.Image, benchImages)}
	group := errgroup.Group{}
	group.SetLimit(8)
	for i := range request.Images {
		group.Go(func() error {
			image, err := random.Image(256, benchLayers)
			if err != nil {
				return err
			}
			digest, err := image.Digest()
			if err != nil {
				return err
			}
			request.Images[i] = prover.Image{Ref: ComponentSource + "@" + digest.String(),
				Names: []string{fmt.Sprintf("image-%d", i)}}
			return remote.Write(r.Ref(b, fmt.Sprintf("%s:%d", Release, i)), image, r.Remote()...)
		})
	}
	require.NoError(b, group.Wait())
	return request
}

// cpu returns the CPU time of a process. On a busy machine it is a better measure than the elapsed
// time.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// watchMemory samples the resident memory until the returned function is called. The function
// returns the maximum in MiB.
func watchMemory(b *testing.B) func() float64 {
	b.Helper()
	stop := make(chan struct{})
	var group sync.WaitGroup
	peak := 0
	group.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			if text, err := os.ReadFile("/proc/self/statm"); err == nil {
				if pages, err := strconv.Atoi(strings.Fields(string(text))[1]); err == nil {
					peak = max(peak, pages*os.Getpagesize())
				}
			}
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	})
	return func() float64 {
		close(stop)
		group.Wait()
		return float64(peak) / (1 << 20)
	}
}
