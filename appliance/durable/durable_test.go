package durable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/durable"
)

func TestWriteFile_replacesContentAndMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for content, mode := range map[string]fs.FileMode{"first": 0o600, "second": 0o644} {
		require.NoError(t, durable.WriteFile(path, []byte(content), mode))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
	}
}

func TestWriteFile_failureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	require.NoError(t, os.Mkdir(path, 0o700)) // a directory cannot be replaced by a file
	require.Error(t, durable.WriteFile(path, []byte("x"), 0o600))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Error(t, durable.WriteFile(filepath.Join(dir, "none", "key"), nil, 0o600))
}
