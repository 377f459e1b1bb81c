package assets

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestUI_rootedFileSystem(t *testing.T) {
	require.NoError(t, fstest.TestFS(UI(), ".keep"))
	_, err := fs.Stat(UI(), "../ui/.keep")
	require.ErrorIs(t, err, fs.ErrInvalid)
}

func TestBuilt_ifIndexExists(t *testing.T) {
	_, err := fs.Stat(UI(), "index.html")
	require.Equal(t, err == nil, Built())
}
