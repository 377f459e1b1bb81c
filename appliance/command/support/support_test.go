package support

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// support runs the command with arguments.
func support(t *testing.T, args ...string) error {
	cmd := New("4.2.0")
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	return cmd.ExecuteContext(t.Context())
}

func TestSupport_ofStoppedAppliance(t *testing.T) {
	dir := t.TempDir()
	data, name := filepath.Join(dir, "data"), filepath.Join(dir, "stopped.tar.gz")
	require.ErrorContains(t, support(t, "--data-dir", data, "-o", name), "check --data-dir")
	require.NoFileExists(t, name)

	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "seal.key"), []byte("swordfish"), 0o600))
	require.NoError(t, support(t, "--data-dir", data, "-o", name))
	file, err := os.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	members := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		require.NotContains(t, string(text), "swordfish")
		members[path.Base(header.Name)] = string(text)
	}
	require.Contains(t, members["files.txt"], "seal.key")
	require.Contains(t, members["version.txt"], "landfall 4.2.0\n")
	require.Contains(t, members, "process.txt")
	require.NotContains(t, members, "errors.txt")

	require.ErrorContains(t, support(t, "--data-dir", data, "--url", "http://127.0.0.1:8090"), "either --data-dir")
}
