package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrune_directoryWithSpecialCharacters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site [1")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for i := range KeptBackups + 1 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("before-%s-%d.backup", event, i)), nil, 0o600))
	}
	require.NoError(t, prune(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, KeptBackups)
	require.Equal(t, fmt.Sprintf("before-%s-1.backup", event), entries[0].Name())
}
