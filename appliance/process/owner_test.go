package process_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/process"
	"landfall/appliance/process/ownertest"
)

// All that is in a directory is given away, but not what a link leads to.
func TestGiveToOwner_directory(t *testing.T) {
	data, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	owner := ownertest.Give(t, data)
	inside := filepath.Join(data, "backups", "inside")
	require.NoError(t, os.MkdirAll(inside, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(inside, "file"), nil, 0o600))
	require.NoError(t, os.Symlink(other, filepath.Join(inside, "link")))
	require.NoError(t, process.GiveToOwner(data, filepath.Join(data, "backups")))
	ownertest.Require(t, data, owner)
	ownertest.Require(t, other, os.Geteuid())
	require.ErrorIs(t, process.GiveToOwner(data, filepath.Join(data, "missing")), os.ErrNotExist)
}

// The owner of the directory has replaced what root wants to give away.
func TestGiveToOwner_linkOutOfTheDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root gives files away
	}
	data, other := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "backup"), nil, 0o600))
	ownertest.Give(t, data)
	require.NoError(t, os.Symlink(other, filepath.Join(data, "backups")))
	for _, path := range []string{"backups", "backups/backup"} {
		require.ErrorContains(t, process.GiveToOwner(data, filepath.Join(data, path)), "escapes")
	}
	ownertest.Require(t, other, 0)
}

func TestGiveToOwner_directoryItself(t *testing.T) {
	data := t.TempDir()
	owner := ownertest.Give(t, data)
	require.NoError(t, os.WriteFile(filepath.Join(data, "file"), nil, 0o600))
	require.NoError(t, process.GiveToOwner(data, data))
	ownertest.Require(t, data, owner)
}
