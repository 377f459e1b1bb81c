package appliance

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
)

// fileServer serves an ISO; while broken it ends each download half way.
type fileServer struct {
	path   string
	broken atomic.Int32 // downloads that are still to be cut off
	ranges atomic.Int32
}

func (s *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" {
		s.ranges.Add(1)
	}
	if s.broken.Add(-1) >= 0 {
		content, err := os.ReadFile(s.path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Length", "100000000")
		if _, err := w.Write(content[:len(content)/2]); err != nil {
			return
		}
		panic(http.ErrAbortHandler)
	}
	http.ServeFile(w, r, s.path)
}

func fetchedImages(t *testing.T, broken int32, sum func(string) string) (*osImages, *fileServer, *clockwork.FakeClock) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "live.iso")
	right, err := simulate.WriteBaseISO(path, simulate.BaseISO{})
	require.NoError(t, err)
	files := &fileServer{path: path}
	files.broken.Store(broken)
	server := httptest.NewServer(files)
	t.Cleanup(server.Close)
	clock := clockwork.NewFakeClock()
	images := newOSImages([]OSImage{{OpenshiftVersion: "4.20", CPUArchitecture: "x86_64", URL: server.URL + "/live.iso", SHA256: sum(right)}},
		filepath.Join(t.TempDir(), "os-images"), slog.New(slog.DiscardHandler), clock)
	t.Cleanup(func() { require.NoError(t, images.close()) })
	return images, files, clock
}

func TestAnISOIsFetchedByURLAndKept(t *testing.T) {
	images, _, _ := fetchedImages(t, 0, func(right string) string { return right })
	_, err := images.find("4.20.8", "x86_64")
	require.ErrorContains(t, err, "waiting")
	images.fetchAll(t.Context())
	base, err := images.find("4.20.8", "x86_64")
	require.NoError(t, err)
	require.Positive(t, base.Size())

	again := newOSImages([]OSImage{images.images[0].config}, images.dir, images.log, images.clock)
	require.Equal(t, imageReady, again.images[0].state, "after a restart it is there without being fetched")
	require.NoError(t, again.close())
}

func TestABrokenDownloadGoesOnWhereItEnded(t *testing.T) {
	images, files, clock := fetchedImages(t, 1, func(right string) string { return right })
	ended := make(chan struct{})
	go func() { defer close(ended); images.fetchAll(t.Context()) }()
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	require.Equal(t, "fetching", images.states()[0].State)
	require.Contains(t, images.states()[0].Message, "after a failure")
	clock.Advance(firstRetry)
	<-ended
	require.Equal(t, "ready", images.states()[0].State)
	require.EqualValues(t, 1, files.ranges.Load(), "the second try asked for the rest only")
}

func TestAnISOThatIsNotTheConfiguredOneIsRefusedAndNotKept(t *testing.T) {
	other := sha256.Sum256([]byte("another file"))
	images, _, _ := fetchedImages(t, 0, func(string) string { return hex.EncodeToString(other[:]) })
	images.fetchAll(t.Context())
	state := images.states()[0]
	require.Equal(t, "failed", state.State)
	require.Contains(t, state.Message, "correct sha256 under os_images")
	left, err := os.ReadDir(images.dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestABadISOIsSaidToBeBadAndHarmsNoOther(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.iso"), filepath.Join(dir, "bad.iso")
	_, err := simulate.WriteBaseISO(good, simulate.BaseISO{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(bad, []byte(strings.Repeat("no ISO ", 10_000)), 0o600))
	images := newOSImages([]OSImage{
		{OpenshiftVersion: "4.19", CPUArchitecture: "x86_64", Path: bad},
		{OpenshiftVersion: "4.20", CPUArchitecture: "x86_64", Path: good},
		{OpenshiftVersion: "4.20", CPUArchitecture: "aarch64", Path: good},
	}, dir, slog.New(slog.DiscardHandler), clockwork.NewFakeClockAt(time.Unix(0, 0)))
	t.Cleanup(func() { require.NoError(t, images.close()) })

	_, err = images.find("4.19.1", "x86_64")
	require.ErrorContains(t, err, bad)
	_, err = images.find("4.20.8", "arm64")
	require.ErrorContains(t, err, "x86_64", "an ISO of another architecture is refused")
	_, err = images.find("4.20.8", "x86_64")
	require.NoError(t, err)
	_, err = images.find("4.12.0", "x86_64")
	require.ErrorContains(t, err, "there is no OS image for OpenShift 4.12.0 on x86_64; the configuration has")
}

func TestALocalISOThatIsNotTheConfiguredOneIsNotServedUntilItIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path, right := filepath.Join(dir, "live.iso"), filepath.Join(dir, "right.iso")
	_, err := simulate.WriteBaseISO(path, simulate.BaseISO{VolumeID: "rhcos-9.6.20250101-0"})
	require.NoError(t, err)
	sum, err := simulate.WriteBaseISO(right, simulate.BaseISO{})
	require.NoError(t, err)
	images := newOSImages([]OSImage{{OpenshiftVersion: "4.20", CPUArchitecture: "x86_64", Path: path, SHA256: sum}}, dir, slog.New(slog.DiscardHandler), clockwork.NewFakeClock())
	t.Cleanup(func() { require.NoError(t, images.close()) })

	images.verify(t.Context(), <-images.opened)
	for range 2 {
		_, err = images.find("4.20.8", "x86_64")
		require.ErrorContains(t, err, "configured is "+sum+"; correct sha256 under os_images, or put the right file there")
	}
	require.NoError(t, os.Rename(right, path))
	_, err = images.find("4.20.8", "x86_64")
	require.NoError(t, err)
	images.verify(t.Context(), <-images.opened)
	_, err = images.find("4.20.8", "x86_64")
	require.NoError(t, err)
}
