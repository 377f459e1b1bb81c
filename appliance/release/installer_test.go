package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
	"landfall/appliance/simulate/registry"
)

const installerPath = "usr/bin/openshift-install"

func installed(t *testing.T, inst *Installer) string {
	data, err := os.ReadFile(inst.Path)
	require.NoError(t, err)
	sum, err := sumOf(inst.Path)
	require.NoError(t, err)
	require.Equal(t, inst.SHA256, sum)
	info, err := os.Stat(inst.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	return string(data)
}

// requireNoUnfinishedFiles asserts that the cache contains no unfinished files.
func requireNoUnfinishedFiles(t *testing.T, l *Library) {
	for _, dir := range []string{l.partialDir(), l.workDir()} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries, dir)
	}
	entries, err := os.ReadDir(l.installersDir())
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name(), newPrefix)
	}
}

func TestInstaller_locationsInTheImage(t *testing.T) {
	program := file(installerPath, "new")
	old := file(installerPath, "old")
	for name, c := range map[string]struct {
		layers []v1.Layer
		want   string // the content, or "!" and a part of the error
	}{
		"last layer":       {[]v1.Layer{layer(t, old), layer(t, program)}, "new"},
		"lower layer":      {[]v1.Layer{layer(t, program), layer(t, file("etc/x", ""))}, "new"},
		"gzip":             {[]v1.Layer{gzipped(t, program)}, "new"},
		"zstd":             {[]v1.Layer{zstded(t, program)}, "new"},
		"twice in a layer": {[]v1.Layer{layer(t, old, program)}, "new"},
		"leading dot and slash": {[]v1.Layer{layer(t, dir("./usr/bin/"), file("./"+installerPath, "new"))},
			"new"},
		"hard link": {[]v1.Layer{layer(t, file("opt/tool", "new"),
			hardlink(installerPath, "opt/tool"))}, "new"},
		"absolute symlink to a lower layer": {[]v1.Layer{layer(t, file("opt/tool", "new")),
			layer(t, symlink(installerPath, "/opt/tool"))}, "new"},
		"relative symlink": {[]v1.Layer{layer(t, file("usr/lib/tool", "new"),
			symlink(installerPath, "../lib/tool"))}, "new"},
		"symlinked directory": {[]v1.Layer{layer(t, file("opt/openshift-install", "new")),
			layer(t, symlink("usr/bin", "../opt"))}, "new"},
		"symlink above the root": {[]v1.Layer{layer(t, file("etc/passwd", "new"),
			symlink(installerPath, "../../../../etc/passwd"))}, "new"},
		"whiteout of an old file, new file in the same layer": {
			[]v1.Layer{layer(t, old), layer(t, file("usr/bin/.wh.openshift-install", ""), program)}, "new"},
		"whiteout": {[]v1.Layer{layer(t, old), layer(t, file("usr/bin/.wh.openshift-install", ""))},
			"!usr/bin/openshift-install was removed from"},
		"whiteout of the directory": {[]v1.Layer{layer(t, old), layer(t, file("usr/.wh.bin", ""))},
			"!was removed from"},
		"opaque directory": {[]v1.Layer{layer(t, old), layer(t, file("usr/bin/.wh..wh..opq", ""))},
			"!was removed from"},
		"opaque root": {[]v1.Layer{layer(t, old), layer(t, file(".wh..wh..opq", ""))}, "!was removed from"},
		"whiteout of a namesake": {[]v1.Layer{layer(t, program), layer(t, file("bin/.wh.openshift-install", ""))},
			"new"},
		"removed and added again": {[]v1.Layer{layer(t, old), layer(t, file("usr/.wh.bin", "")), layer(t, program)},
			"new"},
		"missing file": {[]v1.Layer{layer(t, file("usr/bin/oc", "oc"))},
			"!does not contain usr/bin/openshift-install"},
		"link to a missing file": {[]v1.Layer{layer(t, symlink(installerPath, "/opt/tool"))},
			"!does not contain opt/tool"},
		"circular links": {[]v1.Layer{layer(t, symlink(installerPath, "b"),
			symlink("usr/bin/b", "openshift-install"))}, "!too many links"},
		"name above the root": {[]v1.Layer{layer(t, file("../../"+installerPath, "new"))}, "new"},
		"gzip bomb": {[]v1.Layer{gzipped(t, file("var/zeros", strings.Repeat("\x00", packedFloor+1<<20)),
			program)}, "!unpacks to more than 250 times its size"},
		"zstd bomb": {[]v1.Layer{zstded(t, file(installerPath, strings.Repeat("\x00",
			packedFloor+1<<20)))}, "!unpacks to more than 250 times its size"},
		"truncated layer": {[]v1.Layer{cut(t, gzipped(t, file(installerPath, noise(1<<16))))},
			"!unexpected EOF"},
		"truncated tar": {[]v1.Layer{cut(t, layer(t, file(installerPath, noise(1<<16))))}, "!unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			l := s.library()
			inst, release, err := l.Installer(context.Background(), s.installerPayload(c.layers...), nil, nil)
			if message, isError := strings.CutPrefix(c.want, "!"); isError {
				require.ErrorContains(t, err, message)
				entries, err := os.ReadDir(l.installersDir())
				require.NoError(t, err)
				require.Empty(t, entries)
				return
			}
			require.NoError(t, err)
			defer release()
			require.Equal(t, c.want, installed(t, inst))
			requireNoUnfinishedFiles(t, l)
		})
	}
}

// noise returns n bytes that cannot be compressed.
func noise(n int) string {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	if _, err := r.Read(b); err != nil {
		panic(err)
	}
	return string(b)
}

func TestInstaller_imageForThisMachine(t *testing.T) {
	p := func(version, arch string, multi bool) *Payload {
		return &Payload{Version: version, Architecture: arch, Multi: multi, Images: map[string]string{TagInstaller: "i",
			TagInstallerArtifacts: "a"}}
	}
	for name, c := range map[string]struct {
		payload      *Payload
		goos, goarch string
		want         source
	}{
		"same": {p("4.16.0-rc.1", "x86_64", false), "linux", "amd64",
			source{TagInstaller, installerPath, "x86_64"}},
		"arm": {p("4.20.8", "aarch64", false), "linux", "arm64", source{TagInstaller, installerPath,
			"aarch64"}},
		"multi": {p("4.20.8", "aarch64", true), "linux", "amd64", source{TagInstaller, installerPath,
			"x86_64"}},
		"next major": {p("5.0.0-ec.2", "x86_64", false), "linux", "amd64", source{TagInstaller, installerPath,
			"x86_64"}},
		"foreign": {p("4.20.8", "s390x", false), "linux", "amd64", source{TagInstallerArtifacts,
			"usr/share/openshift/linux_amd64/openshift-install", "s390x"}},
		"on a Mac": {p("4.20.8", "x86_64", false), "darwin", "arm64", source{TagInstallerArtifacts,
			"usr/share/openshift/mac_arm64/openshift-install", "x86_64"}},
		"4.15 needs RHEL":    {p("4.15.40", "x86_64", false), "linux", "amd64", source{}},
		"unsupported system": {p("4.20.8", "x86_64", false), "plan9", "amd64", source{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sourceOf(c.payload, c.goos, c.goarch)
			require.Equal(t, c.want, got)
			if c.want == (source{}) {
				var unsupported *UnsupportedInstallerError
				require.ErrorAs(t, err, &unsupported)
			}
		})
	}
	_, _, err := newSite(t).library().Installer(context.Background(), p("4.15.40", "x86_64", false), nil, nil)
	require.EqualError(t, err,
		"the openshift-install of release 4.15.40 does not run on this machine: before 4.16, it needs the libraries "+
			"of a RHEL host; install 4.16 or newer")
}

func TestInstaller_resumesAfterAnInterruption(t *testing.T) {
	content := noise(300_000)
	for name, ranges := range map[string]bool{"by range": true, "without ranges": false} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			l := s.library()
			blob := layer(t, file(installerPath, content))
			p := s.installerPayload(blob)
			var requestedRanges []string
			s.serve(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
				if !strings.Contains(r.URL.Path, "/blobs/"+digestOf(t, blob).String()) {
					next.ServeHTTP(w, r)
					return
				}
				requestedRanges = append(requestedRanges, r.Header.Get("Range"))
				if !ranges {
					r.Header.Del("Range")
				}
				limit := 100_000
				if !ranges {
					limit = 120_000 * len(requestedRanges)
				}
				next.ServeHTTP(&shortWriter{ResponseWriter: w, left: limit}, r)
			})
			var progress [][2]int64
			inst, release, err := l.Installer(context.Background(), p, nil,
				func(done, total int64) { progress = append(progress, [2]int64{done, total}) })
			require.NoError(t, err)
			defer release()
			require.Equal(t, content, installed(t, inst))
			require.Greater(t, len(requestedRanges), 2)
			require.Empty(t, requestedRanges[0])
			require.Equal(t, fmt.Sprintf("bytes=%d-", limitOf(ranges)),
				requestedRanges[1][:strings.Index(requestedRanges[1], "-")+1])
			size, err := blob.Size()
			require.NoError(t, err)
			require.Equal(t, [2]int64{size, size}, progress[len(progress)-1])
			for i := 1; i < len(progress); i++ {
				require.GreaterOrEqual(t, progress[i][0], progress[i-1][0])
			}
			requireNoUnfinishedFiles(t, l)
		})
	}
}

func limitOf(ranges bool) int {
	if ranges {
		return 100_000
	}
	return 120_000
}

// shortWriter closes the connection after a number of bytes of the body.
type shortWriter struct {
	http.ResponseWriter
	left int
}

func (s *shortWriter) Write(p []byte) (int, error) {
	if len(p) <= s.left {
		s.left -= len(p)
		return s.ResponseWriter.Write(p)
	}
	if _, err := s.ResponseWriter.Write(p[:s.left]); err != nil {
		return 0, err
	}
	if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	panic(http.ErrAbortHandler)
}

func TestInstaller_resumesDownloadOfAnEarlierProcess(t *testing.T) {
	s := newSite(t)
	blob := layer(t, file(installerPath, noise(200_000)))
	p := s.installerPayload(blob)
	whole := tarOf(t, file(installerPath, noise(200_000)))
	for name, c := range map[string]struct {
		left  []byte
		fetch int
		from  string
	}{
		"half":               {whole[:100_000], 1, "bytes=100000-" + strconv.Itoa(len(whole)-1)},
		"whole":              {whole, 0, ""},
		"damaged first half": {bytes.Repeat([]byte{7}, 100_000), 2, "bytes=100000-" + strconv.Itoa(len(whole)-1)},
		"damaged whole blob": {bytes.Repeat([]byte{7}, len(whole)), 1, ""},
		"too much data":      {append(bytes.Clone(whole), 1, 2, 3), 1, ""},
		"unreadable":         {nil, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := s.library()
			path := filepath.Join(l.partialDir(), digestOf(t, blob).Hex)
			if c.left == nil {
				require.NoError(t, os.Symlink(unreadable, path))
			} else {
				require.NoError(t, os.WriteFile(path, c.left, 0o600))
			}
			var requestedRanges []string
			s.serve(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/blobs/"+digestOf(t, blob).String()) {
					requestedRanges = append(requestedRanges, r.Header.Get("Range"))
				}
				next.ServeHTTP(w, r)
			})
			inst, release, err := l.Installer(context.Background(), p, nil, nil)
			require.NoError(t, err)
			defer release()
			require.Equal(t, noise(200_000), installed(t, inst))
			require.Len(t, requestedRanges, c.fetch)
			if c.fetch > 0 {
				require.Equal(t, c.from, requestedRanges[0])
			}
			requireNoUnfinishedFiles(t, l)
		})
	}
}

func TestInstaller_damagedLayer(t *testing.T) {
	s := newSite(t)
	l := s.library()
	content := noise(10_000)
	blob := layer(t, file(installerPath, content))
	p := s.installerPayload(blob)
	s.serve(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, digestOf(t, blob).String()) {
			data := tarOf(t, file(installerPath, content))
			data[5000] ^= 1
			if _, err := w.Write(data); err != nil {
				panic(err)
			}
			return
		}
		next.ServeHTTP(w, r)
	})
	_, _, err := l.Installer(context.Background(), p, nil, nil)
	var damaged *DigestError
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, digestOf(t, blob).String(), damaged.Blob)
	require.ErrorContains(t, err, "is damaged")
	requireNoUnfinishedFiles(t, l)
	s.serve(nil)
	_, release, err := l.Installer(context.Background(), p, nil, nil)
	require.NoError(t, err, "the installer is not extracted after the mirror was repaired")
	release()
}

func TestInstaller_registryWithoutData(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		tries   int
		message string
	}{
		"broken":    {http.StatusBadGateway, 3, "after 3 attempts"},
		"forbidden": {http.StatusForbidden, 1, "403"},
		"missing":   {http.StatusNotFound, 1, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			clock := clockwork.NewFakeClock()
			l := s.library(func(o *Options) { o.Clock = clock })
			blob := layer(t, file(installerPath, "x"))
			p := s.installerPayload(blob)
			tries := 0
			s.serve(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, digestOf(t, blob).String()) {
					tries++
					w.WriteHeader(c.status)
					return
				}
				next.ServeHTTP(w, r)
			})
			failed := make(chan error)
			go func() {
				_, _, err := l.Installer(context.Background(), p, nil, nil)
				failed <- err
			}()
			require.ErrorContains(t, passTime(clock, failed), c.message)
			require.Equal(t, c.tries, tries)
		})
	}
}

func TestInstaller_retriesASilentRegistry(t *testing.T) {
	s := newSite(t)
	clock := clockwork.NewFakeClock()
	l := s.library(func(o *Options) { o.Clock = clock })
	blob := layer(t, file(installerPath, noise(100_000)))
	p := s.installerPayload(blob)
	var silent atomic.Bool
	silent.Store(true)
	s.serve(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, digestOf(t, blob).String()) && silent.Swap(false) {
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
	done := make(chan error)
	go func() {
		_, release, err := l.Installer(context.Background(), p, nil, nil)
		if err == nil {
			release()
		}
		done <- err
	}()
	require.NoError(t, passTime(clock, done))
	require.Equal(t, 2, s.fetched(digestOf(t, blob)))
}

// passTime advances the clock until there is a result.
func passTime(clock *clockwork.FakeClock, result <-chan error) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-result:
			return err
		case <-ticker.C:
			clock.Advance(stallLimit / 20)
		}
	}
}

func TestInstaller_sharedExtraction(t *testing.T) {
	s := newSite(t)
	l := s.library()
	blob := layer(t, file(installerPath, noise(600_000)))
	p := s.installerPayload(blob)
	hold := make(chan struct{})
	s.serve(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, digestOf(t, blob).String()) {
			<-hold
		}
		next.ServeHTTP(w, r)
	})
	const callers = 5
	var wg sync.WaitGroup
	var progress [callers]atomic.Int64
	paths := make([]string, callers)
	for i := range callers {
		wg.Go(func() {
			inst, release, err := l.Installer(context.Background(), p, nil,
				func(done, _ int64) { progress[i].Store(done) })
			if err == nil {
				paths[i] = inst.Path
				release()
			}
		})
	}
	require.Eventually(t, func() bool { return l.waiting() == callers }, waitFor, tick)
	close(hold)
	wg.Wait()
	require.Equal(t, 1, s.fetched(digestOf(t, blob)))
	size, err := blob.Size()
	require.NoError(t, err)
	for i := range callers {
		require.Equal(t, paths[0], paths[i])
		require.NotEmpty(t, paths[i])
		require.Equal(t, size, progress[i].Load(), "a caller did not receive the progress")
	}
	require.Empty(t, l.inUse)
	inst, release, err := l.Installer(context.Background(), p, nil, nil)
	require.NoError(t, err)
	defer release()
	require.Equal(t, paths[0], inst.Path)
	require.Equal(t, 1, s.fetched(digestOf(t, blob)), "the cached layer was fetched again")
}

// waiting returns the number of callers that wait for extractions.
func (l *Library) waiting() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.extractions {
		f.mu.Lock()
		n += f.waiting
		f.mu.Unlock()
	}
	return n
}

func TestInstaller_endsWithItsLastCaller(t *testing.T) {
	s := newSite(t)
	l := s.library()
	blob := layer(t, file(installerPath, noise(1000)))
	p := s.installerPayload(blob)
	hold := make(chan struct{})
	s.serve(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, digestOf(t, blob).String()) {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	ask := func(ctx context.Context) chan error {
		failed := make(chan error, 1)
		go func() {
			_, release, err := l.Installer(ctx, p, nil, nil)
			if err == nil {
				release()
			}
			failed <- err
		}()
		return failed
	}
	first, cancelFirst := context.WithCancel(context.Background())
	second, cancelSecond := context.WithCancel(context.Background())
	defer cancelSecond()
	firstFailed := ask(first)
	require.Eventually(t, func() bool { return l.waiting() == 1 }, waitFor, tick)
	secondFailed := ask(second)
	require.Eventually(t, func() bool { return l.waiting() == 2 }, waitFor, tick)
	cancelFirst()
	require.ErrorIs(t, <-firstFailed, context.Canceled)
	require.Equal(t, 1, l.waiting(), "the second caller does not wait any more")
	cancelSecond()
	require.ErrorIs(t, <-secondFailed, context.Canceled)
	third := ask(context.Background()) // does not join the canceled extraction
	close(hold)
	require.NoError(t, <-third)
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.extractions) == 0 &&
			len(l.inUse) == 0
	}, waitFor, tick)
}

func TestInstaller_endsWithTheLibrary(t *testing.T) {
	s := newSite(t)
	l := s.library()
	p := s.installerPayload(layer(t, file(installerPath, "x")))
	s.serve(func(_ http.Handler, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	failed := make(chan error)
	go func() {
		_, _, err := l.Installer(context.Background(), p, nil, nil)
		failed <- err
	}()
	require.Eventually(t, func() bool { return l.waiting() == 1 }, waitFor, tick)
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-failed, context.Canceled)
}

func TestInstaller_damagedInTheCache(t *testing.T) {
	s := newSite(t)
	l := s.library()
	blob := layer(t, file(installerPath, "right"))
	p := s.installerPayload(blob)
	inst, release, err := l.Installer(context.Background(), p, nil, nil)
	require.NoError(t, err)
	release()
	for name, spoil := range map[string]func() error{
		"changed": func() error { return os.WriteFile(inst.Path, []byte("wrong"), 0o700) },
		"gone":    func() error { return os.Remove(inst.Path) },
		"unreadable": func() error {
			return errors.Join(os.Remove(inst.Path), os.Symlink(unreadable, inst.Path))
		},
	} {
		require.NoError(t, spoil(), name)
		again, release, err := l.Installer(context.Background(), p, nil, nil)
		require.NoError(t, err, name)
		release()
		require.Equal(t, "right", installed(t, again), name)
	}
	require.Equal(t, 4, s.fetched(digestOf(t, blob)))
}

// unreadable is a file whose first byte can't be read, as that of a damaged sector.
const unreadable = "/proc/self/mem"

func TestInstaller_evictsLeastRecentlyUsed(t *testing.T) {
	s := newSite(t)
	clock := clockwork.NewFakeClock()
	l := s.library(func(o *Options) { o.CacheLimit = 250_000; o.Clock = clock })
	var payloads []*Payload
	for i := range 4 {
		payloads = append(payloads, s.installerPayload(layer(t, file(installerPath, strconv.Itoa(i)+noise(100_000)))))
	}
	take := func(i int) (string, func()) {
		clock.Advance(stallLimit)
		inst, release, err := l.Installer(context.Background(), payloads[i], nil, nil)
		require.NoError(t, err)
		return inst.Path, release
	}
	first, holdFirst := take(0)
	second, release := take(1)
	release()
	third, release := take(2)
	release()
	require.FileExists(t, first, "the oldest installer was evicted although it is in use")
	require.NoFileExists(t, second)
	require.FileExists(t, third)
	holdFirst()
	_, release = take(0)
	release()
	fourth, release := take(3)
	release()
	require.FileExists(t, first, "an installer was evicted although it was used recently")
	require.NoFileExists(t, third)
	require.FileExists(t, fourth)
}

func TestInstaller_fullDisk(t *testing.T) {
	s := newSite(t)
	l := s.library()
	blob := layer(t, file(installerPath, noise(100_000)))
	p := s.installerPayload(blob)
	// The kernel answers writes to this device like a full disk.
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(l.partialDir(), digestOf(t, blob).Hex)))
	_, _, err := l.Installer(context.Background(), p, nil, nil)
	var full *DiskFullError
	require.ErrorAs(t, err, &full)
	require.ErrorContains(t, err, "no space is left to write ")
	requireNoUnfinishedFiles(t, l)
	_, release, err := l.Installer(context.Background(), p, nil, nil)
	require.NoError(t, err, "the installer is not extracted after space became free")
	release()
}

func TestLibrary_removesUnfinishedData(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"work/123/auth", "installers/.new-sha256-1", "installers/sha256-2", "partial"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "partial", "abc"), []byte("x"), 0o600))
	newSite(t).library(func(o *Options) { o.CacheDir = dir })
	require.NoDirExists(t, filepath.Join(dir, "work/123"))
	require.NoDirExists(t, filepath.Join(dir, "installers/.new-sha256-1"))
	require.DirExists(t, filepath.Join(dir, "installers/sha256-2"))
	require.FileExists(t, filepath.Join(dir, "partial/abc"))
}

func TestLibrary_unwritableDirectory(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err := New(Options{CacheDir: filepath.Join(blocked, "cache")})
	require.ErrorContains(t, err, "the release cache")
}

func TestInstaller_stamped(t *testing.T) {
	place := func(name string, room int) string {
		return "\x00_RELEASE_" + name + "_LOCATION_\x00" + strings.Repeat("X", room) + "\x00"
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	p := &Payload{Image: "quay.io/openshift-release-dev/ocp-release@" + digest, Version: "4.20.8",
		Architecture: "x86_64"}
	whole := strings.Repeat("-", 1<<20-100) + place("IMAGE", 300) + "mid" + place("VERSION", 60) +
		place("ARCHITECTURE", 60) + "tail"
	path := filepath.Join(t.TempDir(), "f")
	open := func(content string) *os.File {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		return f
	}
	missing, err := stamp(open(whole), p)
	require.NoError(t, err)
	require.Empty(t, missing)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, got, len(whole), "stamp changed the size of the program")
	require.Contains(t, string(got), "-"+p.Image+"\x00")
	require.Contains(t, string(got), "mid4.20.8\x00")
	require.Contains(t, string(got), "\x00linux/amd64\x00")

	// The name alone, which the program uses for comparisons, is not a placeholder.
	missing, err = stamp(open("\x00_RELEASE_VERSION_LOCATION_\x00XX\x00"+place("IMAGE", 300)), p)
	require.NoError(t, err)
	require.Equal(t, []string{"_RELEASE_VERSION_LOCATION_", "_RELEASE_ARCHITECTURE_LOCATION_"}, missing)

	p.Image = strings.Repeat("long/", 100)
	_, err = stamp(open(whole), p)
	require.ErrorContains(t, err, "does not fit")
}

func TestInstaller_missingImage(t *testing.T) {
	l, pushed := standIn(t, registry.Payload{Faults: registry.PayloadFaults{NotPushed: []string{TagInstaller}}})
	p, err := l.Payload(context.Background(), pushed.Release, "x86_64", nil)
	require.NoError(t, err)
	_, _, err = l.Installer(context.Background(), p, nil, nil)
	var image *mirror.ImageError
	require.ErrorAs(t, err, &image)
	require.Equal(t, pushed.Images[TagInstaller], image.Image)
	require.ErrorContains(t, err, "extract openshift-install of release "+p.Version)

	delete(p.Images, TagInstaller)
	_, _, err = l.Installer(context.Background(), p, nil, nil)
	var missing *MissingImageError
	require.ErrorAs(t, err, &missing)
}

func TestLibrary_relativeCacheDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	library, err := New(Options{Mirror: mirror.NewClient(nil, mirror.ClientOptions{}), CacheDir: "cache",
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(library.installersDir()),
		"the path must be absolute, because programs run in other working directories")
}
