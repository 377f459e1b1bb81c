package upgrade

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/appliance/process/ownertest"
	"landfall/store"
)

// TestBackup_stoppedMemberIsNotOpened backs up a stopped appliance, and the same one as a member of
// a fleet. An opened database has other logs.
func TestBackup_stoppedMemberIsNotOpened(t *testing.T) {
	o, settings := new(options), config.Config{DataDir: filepath.Join(t.TempDir(), "data")}
	db, err := store.Open(t.Context(), settings.DataDir, store.Options{})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	path := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, (&fleet.State{Fleet: "fleet", Member: "two"}).Write(settings.DataDir))
	before, err := os.ReadDir(settings.DataDir)
	require.NoError(t, err)
	// No other member may have the data: it can be the only one, or have left.
	require.EqualError(t, o.offline(t.Context(), settings, path), fleet.CheckAlone(settings.DataDir).Error())
	after, err := os.ReadDir(settings.DataDir)
	require.NoError(t, err)
	require.Equal(t, len(before), len(after))
	require.NoFileExists(t, path)

	require.NoError(t, fleet.Detach(settings.DataDir))
	owner := ownertest.Give(t, settings.DataDir) // root upgrades the program of another user
	require.NoError(t, o.offline(t.Context(), settings, path))
	require.FileExists(t, path)
	ownertest.Require(t, settings.DataDir, owner)
}

// TestReady_trustsTheNamedAuthority asks an appliance at --url with the authority of --ca, which is
// that of the appliance.
func TestReady_trustsTheNamedAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}), 0o600))
	program, err := os.Executable()
	require.NoError(t, err)
	o := &options{program: program, dir: t.TempDir()}
	flags := pflag.NewFlagSet("upgrade", pflag.ContinueOnError)
	o.appliance.AddFlags(flags)
	require.NoError(t, flags.Parse([]string{"--url", server.URL, "--ca", authority}))
	installed, err := o.installation(t.Context(), true)
	require.NoError(t, err)
	require.NoError(t, installed.Ready(t.Context()))
}

func TestQuote_words(t *testing.T) {
	require.Equal(t, "/usr/bin/landfall serve --data-dir '/srv/my data' 'it'\\''s' ''", quote("/usr/bin/landfall",
		"serve", "--data-dir", "/srv/my data", "it's", ""))
	require.Equal(t, "'/opt/my programs/landfall' serve", command("/opt/my programs/landfall", 0))
}

func TestRepeated_flagsOfInstallation(t *testing.T) {
	cmd := New("test")
	require.Empty(t, repeated(cmd.Flags()))
	require.NoError(t, cmd.ParseFlags([]string{"--config", "my config.yaml", "--program", "/opt/landfall",
		"--no-backup"}))
	require.Equal(t, " --program /opt/landfall --config 'my config.yaml'", repeated(cmd.Flags()))
}
