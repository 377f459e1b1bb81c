package backup

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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

// newSource returns the data of an appliance.
func newSource(t *testing.T) *backup.Source {
	t.Helper()
	dir := t.TempDir()
	keys := keyring.New(dir, keyring.Options{})
	db, err := store.Open(t.Context(), dir, store.Options{Keys: keys.Open})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &backup.Source{DB: db, Dir: dir, Program: "test", Now: time.Now, SealedWith: string(keys.With()),
		DataKey: keys.Content, ExportKeys: keys.Export}
}

// An old backup that is damaged is reported, but a new one is made all the same.
func TestBackup_damagedOldBackup(t *testing.T) {
	source := newSource(t)
	source.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, source.Write(r.Context(), w, false))
	}))
	defer appliance.Close()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	repository := &backup.Repository{Dir: t.TempDir()}
	save := func() error {
		cmd := newBackup()
		cmd.SetArgs([]string{"-o", repository.Dir, "--keep", "5", "--url", appliance.URL})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		return cmd.ExecuteContext(t.Context())
	}
	require.NoError(t, save())
	names, err := repository.Names()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(repository.Dir, "backups", names[0]+".objects"), nil, 0o600))
	require.ErrorContains(t, save(), "the list of a backup can't be read")
	names, err = repository.Names()
	require.NoError(t, err)
	require.Len(t, names, 2)
}

func TestRestore_keyFileShowsContent(t *testing.T) {
	source, saved := newSource(t), filepath.Join(t.TempDir(), "site.backup")
	_, err := source.WriteFile(t.Context(), saved)
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
	require.Contains(t, restore("--seal-key-file", filepath.Join(source.Dir, keyring.DefaultKeyFile)),
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
