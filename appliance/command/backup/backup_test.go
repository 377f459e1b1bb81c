package backup

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/keyring"
	"landfall/store"
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

func TestRestore_keyFileShowsContent(t *testing.T) {
	dir := t.TempDir()
	keys := keyring.New(dir, keyring.Options{})
	db, err := store.Open(t.Context(), dir, store.Options{Keys: keys.Open})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	saved := filepath.Join(t.TempDir(), "site.backup")
	source := &backup.Source{DB: db, Dir: dir, Program: "test", Now: time.Now, SealedWith: string(keys.With()),
		DataKey: keys.Content, ExportKeys: keys.Export}
	_, err = source.WriteFile(t.Context(), saved)
	require.NoError(t, err)

	restore := func(more ...string) string {
		var out bytes.Buffer
		cmd := newRestore()
		cmd.SetArgs(append([]string{saved, "--data-dir", filepath.Join(t.TempDir(), "new"), "--dry-run"}, more...))
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		return out.String()
	}
	require.Contains(t, restore(), "restore the file, or name it with --seal-key-file.")
	require.Contains(t, restore("--seal-key-file", filepath.Join(dir, keyring.DefaultKeyFile)),
		"It contains 0 clusters and 0 hosts.")
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
