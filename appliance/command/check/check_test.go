package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/keyring"
)

// The configuration of the appliance can name another key file, which the command does not read.
func TestCheck_keyFileElsewhere(t *testing.T) {
	const variable = "LANDFALL_SEAL_KEY_FILE"
	dir, elsewhere := newDir(t), filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.Rename(filepath.Join(dir, keyring.DefaultKeyFile), elsewhere))
	report, err := offline(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, report.Problems, 1)
	require.Contains(t, report.Problems[0].Reason, "name it with seal.key_file or "+variable)
	require.Contains(t, report.Problems[0].Remedy, "in "+variable)
	t.Setenv(variable, elsewhere)
	report, err = offline(t.Context(), dir)
	require.NoError(t, err)
	for _, problem := range report.Problems {
		require.NotContains(t, problem.Where, keyring.FileName)
	}
}
