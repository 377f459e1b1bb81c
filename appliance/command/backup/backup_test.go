package backup

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
)

// The error names the file that the person gave, not the temporary file beside it.
func TestBackup_unusablePathIsNamed(t *testing.T) {
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	defer appliance.Close()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	to := filepath.Join(t.TempDir(), "missing", "site.backup")
	cmd := newBackup()
	cmd.SetArgs([]string{"-o", to, "--url", appliance.URL})
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	require.EqualError(t, cmd.ExecuteContext(t.Context()),
		"write the backup "+to+": no such file or directory; choose another place with -o")
}

func TestStartNotice_namesKeyThatBackupLacks(t *testing.T) {
	start := "Start it with landfall serve --data-dir new.\n"
	for name, c := range map[string]struct {
		manifest backup.Manifest
		want     string
	}{
		"with the key": {backup.Manifest{Key: true, SealedWith: "file"}, start},
		"key file": {backup.Manifest{SealedWith: "file"}, "Its start needs the key of the seal. Copy seal.key of the " +
			"former appliance to new/seal.key, or name the file with --seal-key-file.\n" + start},
		"passphrase": {backup.Manifest{SealedWith: "passphrase"},
			"Its start needs the passphrase of the data key.\n" + start},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			require.NoError(t, StartNotice(&out, &c.manifest, "new"))
			require.Equal(t, c.want, out.String())
		})
	}
}
