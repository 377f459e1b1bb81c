package profiling

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServer_onlyItsUserMayOpenTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pprof.sock")
	stale, err := net.Listen("unix", path)
	require.NoError(t, err)
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())
	server, err := Listen(t.Context(), path)
	require.NoError(t, err, "the socket of a killed process is replaced")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSocket|0o600, info.Mode())

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	_, err = Listen(t.Context(), path)
	require.ErrorContains(t, err, "another process serves")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	response, err := client.Get("http://localhost/debug/pprof/goroutine?debug=1")
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Contains(t, string(text), "goroutine profile:")
	cancel()
	require.NoError(t, <-ended)
	require.NoFileExists(t, path)
}

// TestListen_inANewDataDirectory listens before the first start has made the directory.
func TestListen_inANewDataDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "pprof.sock")
	server, err := Listen(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, server.Close())
	info, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o700, info.Mode())
}

func TestListen_socketIsPrivateFromTheBeginning(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the mode is changed after the socket was made")
	}
	before := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(before) })
	path := filepath.Join(t.TempDir(), "pprof.sock")
	listener, err := private.Listen(t.Context(), "unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSocket|0o600, info.Mode())
}

func TestListen_keepsOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "landfall.db")
	require.NoError(t, os.WriteFile(path, []byte("data"), 0o600))
	_, err := Listen(t.Context(), path)
	require.ErrorContains(t, err, "is not a socket")
	require.FileExists(t, path)
	none, err := Listen(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, none.Run(t.Context()))
	require.NoError(t, none.Close())
}
