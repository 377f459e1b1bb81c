package appliance_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance"
	"landfall/appliance/backup"
	"landfall/appliance/command/check"
	"landfall/appliance/command/outcome"
	"landfall/appliance/keyring"
	"landfall/appliance/sitekey"
	"landfall/randtest"
	"landfall/web/console"
)

// TestKeys_damage damages the files of the keys. A start and a check name the file and the way out,
// nothing is changed, and the right file opens everything again. So it is after a restore.
func TestKeys_damage(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	create(t, address+apiPath+"/clusters", s.newCluster("kept"))
	saved := call(t, http.MethodGet, address+console.BackupRoute, nil)
	require.Equal(t, http.StatusOK, saved.status)
	stop()
	seal, err := os.ReadFile(filepath.Join(s.config.DataDir, keyring.DefaultKeyFile))
	require.NoError(t, err)
	restored := filepath.Join(t.TempDir(), "restored")
	_, err = (&backup.Target{Dir: restored, Now: time.Now}).Restore(t.Context(), bytes.NewReader(saved.body))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(restored, keyring.DefaultKeyFile), seal, 0o600))
	for _, dir := range []string{s.config.DataDir, restored} {
		s.config.DataDir = dir
		for _, name := range []string{keyring.FileName, keyring.DefaultKeyFile, sitekey.FileName} {
			path := filepath.Join(dir, name)
			right, err := os.ReadFile(path)
			require.NoError(t, err)
			flipped := bytes.Clone(right)
			flipped[len(flipped)-20] ^= 1
			for _, damaged := range [][]byte{flipped, right[:len(right)/2], nil} {
				require.NoError(t, os.WriteFile(path, damaged, 0o600))
				_, err := appliance.New(t.Context(), s.config, slog.New(slog.DiscardHandler), "test")
				require.ErrorContains(t, err, name)
				require.ErrorContains(t, err, "from a backup")
				var out bytes.Buffer
				cmd := check.New()
				cmd.SilenceErrors, cmd.SilenceUsage = true, true
				cmd.SetOut(&out)
				cmd.SetArgs([]string{"--data-dir", dir, "-o", "json"})
				require.ErrorAs(t, cmd.ExecuteContext(t.Context()), new(*outcome.CodeError))
				require.Contains(t, out.String(), name)
				require.Contains(t, out.String(), "from a backup")
				left, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, damaged, append([]byte(nil), left...), name)
			}
			require.NoError(t, os.WriteFile(path, right, 0o600))
		}
		address, stop = s.start(t)
		var shown []struct{ Name string }
		call(t, http.MethodGet, address+apiPath+"/clusters", nil).read(t, http.StatusOK, &shown)
		require.Len(t, shown, 1)
		stop()
	}
}

// TestDataKey_rotationSurvivesKills kills the appliance at random moments of rotations. Each start
// opens all data, and completes the rotation.
func TestDataKey_rotationSurvivesKills(t *testing.T) {
	s := newSite(t)
	v := newApplianceProcess(t, s)
	v.start(t)
	env := create(t, v.address+apiPath+"/infra-envs", s.newInfraEnv("own"))
	config := func() []byte {
		got := call(t, http.MethodGet, v.address+apiPath+"/infra-envs/"+env+
			"/downloads/files?file_name=discovery.ign", nil)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		return got.body
	}
	require.NotEmpty(t, config())
	readKeys := func() []byte {
		content, err := os.ReadFile(filepath.Join(s.config.DataDir, "data.key"))
		require.NoError(t, err)
		return content
	}
	changed := 0
	chance := randtest.New(t, 0)
	for range 12 {
		before := readKeys()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.address+console.DataKeyRoute, nil)
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close() // the kill may interrupt it
			}
		}()
		select {
		case <-ended:
		case <-time.After(time.Duration(chance.IntN(30_000)) * time.Microsecond):
		}
		v.kill(t)
		<-ended
		cancel()
		if !bytes.Equal(before, readKeys()) {
			changed++
		}
		v.start(t)
		require.NotEmpty(t, config(), "the pull secret opens")
	}
	require.Positive(t, changed, "the kills came before all rotations")
	require.Equal(t, http.StatusNoContent, call(t, http.MethodPost, v.address+console.DataKeyRoute, nil).status)
	v.kill(t)
	v.start(t)
	require.NotEmpty(t, config())
}
