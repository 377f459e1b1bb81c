package imagetest

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"go.podman.io/image/v5/copy"
	"go.podman.io/image/v5/directory"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"

	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
	"landfall/store"
	"landfall/web"
	webregistry "landfall/web/registry"
)

// stick is a medium that can be pulled out in the middle of a read.
type stick struct {
	mu   sync.Mutex
	left int // bytes until it is pulled out; negative for never
}

func (s *stick) pullOutAfter(bytes int) { s.set(bytes) }
func (s *stick) plugIn()                { s.set(-1) }

func (s *stick) set(left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = left
}

// file is a file of a stick.
type file struct {
	medium.File
	on *stick
}

func (s *stick) open(path string) (medium.File, error) {
	opened, err := medium.OpenFile(path)
	return file{opened, s}, err
}

// ReadAt implements io.ReaderAt.
func (f file) ReadAt(p []byte, offset int64) (int, error) {
	f.on.mu.Lock()
	defer f.on.mu.Unlock()
	if f.on.left == 0 {
		return 0, &fs.PathError{Op: "read", Path: "stick", Err: errors.New("input/output error")}
	}
	if f.on.left > 0 {
		f.on.left = max(0, f.on.left-len(p))
	}
	return f.File.ReadAt(p, offset)
}

// A stick is pulled out while a client pulls a blob, and plugged in again. The client asks for the
// rest, and has the right bytes in the end.
func TestPull_continuesWhenTheMediumIsBack(t *testing.T) {
	folder, data, out := t.TempDir(), t.TempDir(), t.TempDir()
	layer := make([]byte, 12<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(layer) // never fails
	archive := &simulated.Archive{}
	digest, err := archive.AddBlob(t.Context(), "team/image", "v0", layer)
	require.NoError(t, err)
	require.NoError(t, archive.WriteFile(filepath.Join(folder, "mirror_000001.tar")))

	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	db, err := store.Open(t.Context(), data, store.Options{NoSync: true})
	require.NoError(t, err)
	from := &stick{left: -1}
	opened, err := registry.Open(t.Context(), registry.Options{DB: db, Media: []string{folder}, Open: from.open,
		Dir: filepath.Join(data, "registry"), Clock: clockwork.NewRealClock(), Logger: logger})
	require.NoError(t, err)
	read := opened.Changed()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- opened.Run(ctx) }()
	<-read

	handler := web.New(web.Options{Logger: logger})
	require.NoError(t, handler.Register(webregistry.Operations(webregistry.Options{Registry: opened, Anonymous: true,
		Logger: logger})...))
	back := make(chan struct{})
	continued := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked := r.Header.Get("Range"); asked != "" {
			<-back // however slow this machine is
			continued <- asked
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		cancel()
		require.NoError(t, errors.Join(<-ended, opened.Close(), db.Close()))
	})

	from.pullOutAfter(5 << 20)
	missing := opened.Changed()
	go func() {
		defer close(back)
		<-missing
		changed := opened.Changed()
		from.plugIn()
		opened.Look()
		<-changed
	}()
	pull(t, strings.TrimPrefix(server.URL, "http://")+"/team/image:v0", out)
	require.Regexp(t, `^bytes=[1-9][0-9]{6,}-$`, <-continued, "the rest after more than a million bytes")
	got, err := os.ReadFile(filepath.Join(out, strings.TrimPrefix(digest, "sha256:")))
	require.NoError(t, err)
	require.True(t, string(layer) == string(got), "the blob has other bytes")
}

// pull pulls an image into a folder.
func pull(t *testing.T, image, folder string) {
	t.Helper()
	source, err := docker.ParseReference("//" + image)
	require.NoError(t, err)
	destination, err := directory.NewReference(folder)
	require.NoError(t, err)
	policy, err := signature.NewPolicyContext(&signature.Policy{
		Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, policy.Destroy()) })
	own := &types.SystemContext{DockerInsecureSkipTLSVerify: types.OptionalBoolTrue, BlobInfoCacheDir: t.TempDir(),
		SystemRegistriesConfPath: os.DevNull, AuthFilePath: filepath.Join(folder, "none")}
	_, err = copy.Image(t.Context(), policy, destination, source, &copy.Options{SourceCtx: own, DestinationCtx: own})
	require.NoError(t, err)
}
