package image

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/outcome"
)

const content = "the image"

// serveImage runs an appliance with an image, for which it reports a digest.
func serveImage(t *testing.T, digest string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/assisted-install/v2/infra-envs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`[{"id":"1","name":"east"}]`))
	})
	mux.HandleFunc("GET /api/assisted-install/v2/infra-envs/1/downloads/image-url", func(w http.ResponseWriter,
		_ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"url":"http://appliance/east.iso"}`))
	})
	mux.HandleFunc("GET /east.iso", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) })
	mux.HandleFunc("GET /east.iso.sha256", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(digest + "  east.iso\n"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Setenv("LANDFALL_URL", server.URL)
}

func digestOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// run runs a command of landfall image.
func run(t *testing.T, line ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := New()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	cmd.SetArgs(line)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestDownload_fileIsOnlyForItsOwner(t *testing.T) {
	serveImage(t, digestOf(content))
	file := filepath.Join(t.TempDir(), "east.iso")
	require.NoError(t, os.WriteFile(file+".part", []byte("the rest of an interrupted download"), 0o644))
	out, err := run(t, "download", "--infra-env", "east", "-o", file)
	require.NoError(t, err)
	require.Equal(t, file+": 9 bytes, SHA-256 "+digestOf(content)+"\n", out)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, content, string(written))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// A pipe takes the place of a disk, which a test cannot create. Both must stay what they are.
func TestDownload_writesToPipe(t *testing.T) {
	serveImage(t, digestOf(content))
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	read := make(chan string)
	go func() {
		text, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- string(text)
	}()
	_, err := run(t, "download", "--infra-env", "east", "-o", pipe)
	require.NoError(t, err)
	require.Equal(t, content, <-read)
	info, err := os.Stat(pipe)
	require.NoError(t, err)
	require.Equal(t, os.ModeNamedPipe, info.Mode().Type())
}

func TestDownload_refusesDirectory(t *testing.T) {
	serveImage(t, digestOf(content))
	parent := t.TempDir()
	dir := filepath.Join(parent, "images")
	require.NoError(t, os.Mkdir(dir, 0o700))
	_, err := run(t, "download", "--infra-env", "east", "-o", dir)
	require.EqualError(t, err, "-o "+dir+" is a directory; name the file to write")
	require.ErrorAs(t, err, new(outcome.UsageError))
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestDownload_comparesDigest(t *testing.T) {
	serveImage(t, digestOf("another image"))
	file := filepath.Join(t.TempDir(), "east.iso")
	for _, target := range []string{file, "-"} {
		_, err := run(t, "download", "--infra-env", "east", "-o", target)
		require.ErrorContains(t, err, "the image changed during the download", target)
	}
	require.NoFileExists(t, file)
	require.NoFileExists(t, file+".part")

	serveImage(t, digestOf(content))
	out, err := run(t, "download", "--infra-env", "east", "-o", "-")
	require.NoError(t, err)
	require.Equal(t, content, out)
}

func TestShortURL_refusesTimes(t *testing.T) {
	for line, reason := range map[string]string{
		"--for 1h":            "--for limits a new short URL; give it with --renew",
		"--revoke --for 1h":   "--for limits a new short URL; give it with --renew",
		"--renew --for -5s":   "--for -5s is invalid; give at least 1s, or no --for",
		"--renew --for 0":     "--for 0s is invalid; give at least 1s, or no --for",
		"--renew --for 500ms": "--for 500ms is invalid; give at least 1s, or no --for",
	} {
		_, err := run(t, append([]string{"short-url", "--infra-env", "east"}, strings.Fields(line)...)...)
		require.EqualError(t, err, reason, line)
		require.ErrorAs(t, err, new(outcome.UsageError), line)
	}
}
