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
