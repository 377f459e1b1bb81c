package wal

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A child process has a copy of each descriptor until it runs its program.
func TestFile_closedWhileAChildStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	for _, readOnly := range []bool{false, true} {
		file, err := OpenFile(path, readOnly)
		require.NoError(t, err)
		copied, err := syscall.Dup(int(file.file.Fd()))
		require.NoError(t, err)
		require.NoError(t, file.Close())
		again, err := OpenFile(path, false)
		require.NoError(t, err, "read only: %t", readOnly)
		require.NoError(t, again.Close())
		require.NoError(t, syscall.Close(copied))
	}
}
