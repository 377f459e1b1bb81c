package appliance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/dataversion"
	"landfall/appliance/simulate"
	"landfall/appliance/upgrade"
	"landfall/porttest"
)

// buildVersion builds the program with a version.
func buildVersion(t *testing.T, path, version string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w -X landfall/appliance/command.version="+
		version, "-o", path, "landfall")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return path
}

// supervise runs the installed program until the test ends, and starts it again when it ends.
func supervise(t *testing.T, program, config string) (log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, program, "serve", "--config", config)
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.Stdout, cmd.Stderr = output, output
			if err := cmd.Run(); err != nil && ctx.Err() == nil {
				ended <- fmt.Errorf("the appliance ended: %w", err)
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, errors.Join(<-ended, output.Close()))
		if t.Failed() {
			text, err := os.ReadFile(log)
			require.NoError(t, err)
			t.Logf("the end of the appliance's log:\n%s", text[max(0, len(text)-8<<10):])
		}
	})
	return log
}

// programConfig writes the configuration of a site for the program. further has further keys.
func programConfig(t *testing.T, s *site, further map[string]any) string {
	t.Helper()
	image, release := s.config.OSImages[0], s.config.ReleaseImages[0]
	values := map[string]any{
		"listen": s.config.Listen, "data_dir": s.config.DataDir, "auth": s.config.Auth,
		"tls":    map[string]any{"enabled": s.config.TLS.Enabled},
		"egress": map[string]any{"allow": s.config.Egress.Allow},
		"mirror": map[string]any{"idms_files": s.config.Mirror.IDMSFiles},
		"os_images": []map[string]any{{"openshift_version": image.OpenshiftVersion,
			"cpu_architecture": image.CPUArchitecture, "path": image.Path, "sha256": image.SHA256}},
		"release_images": []map[string]any{{"openshift_version": release.OpenshiftVersion,
			"cpu_architecture": release.CPUArchitecture, "url": release.URL, "default": true}},
		"joining": map[string]any{"addresses": s.config.Joining.Addresses, "interval": "50ms"},
	}
	maps.Copy(values, further)
	text, err := yaml.Marshal(values)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// TestUpgrade_installationGoesOn replaces the program in the middle of an installation by a second
// build with another version, and later goes back, with processes of the built programs.
func TestUpgrade_installationGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program twice")
	}
	s := newSite(t)
	s.config.Listen = porttest.Reserve(t)
	dir := t.TempDir()
	program := buildVersion(t, filepath.Join(dir, "landfall"), "upgrade-1")
	next := buildVersion(t, filepath.Join(dir, "landfall-2"), "upgrade-2")
	config := programConfig(t, s, nil)
	supervise(t, program, config)
	address := "http://" + s.config.Listen
	ready := upgrade.ReadyAt(address, http.DefaultClient)
	require.Eventually(t, func() bool { return ready(t.Context()) == nil }, time.Minute, 50*time.Millisecond)

	run := func(arguments ...string) (string, error) {
		restart := "kill -TERM $(cut -d ' ' -f 2 " + s.config.DataDir + "/landfall.lock)"
		text, err := exec.CommandContext(t.Context(), program, append([]string{"upgrade", "--program", program,
			"--config", config, "--restart", restart}, arguments...)...).CombinedOutput()
		t.Logf("%s", text)
		return string(text), err
	}
	in := &crashTest{applianceProcess: &applianceProcess{address: address}, site: s, number: 1}
	in.create(t)
	ctx, cancel := context.WithTimeout(t.Context(), installationLimit)
	defer cancel()
	groupEnded, operatorEnded := in.begin(ctx, 120)
	for writing := false; !writing; {
		select {
		case event := <-in.groupEvents:
			in.recordEvent(event)
			writing = event.Kind == simulate.EventStage && event.Stage == models.HostStageWritingImageToDisk
		case err := <-groupEnded:
			t.Fatalf("the installation ended before the upgrade: %v", err)
		}
	}
	phase := in.phase.Load()
	text, err := run(next)
	require.NoError(t, err)
	require.Contains(t, text, "The appliance is ready with Landfall upgrade-2.")
	select {
	case err := <-operatorEnded:
		t.Fatalf("the installation ended during the upgrade: %v", err)
	default:
	}
	t.Logf("upgraded in the phase %v, ready in the phase %v", phase, in.phase.Load())
	require.NoError(t, <-operatorEnded)
	require.NoError(t, <-groupEnded)
	state, err := dataversion.Read(s.config.DataDir)
	require.NoError(t, err)
	require.Equal(t, "upgrade-2", state.Program)
	backups, err := filepath.Glob(filepath.Join(s.config.DataDir, dataversion.BackupDir, "before-upgrade-*"))
	require.NoError(t, err)
	require.Len(t, backups, 1)

	text, err = run("--rollback")
	require.NoError(t, err)
	require.Contains(t, text, "The appliance is ready with Landfall upgrade-1.")
	got, err := in.api.Installer.V2GetCluster(t.Context(), &installer.V2GetClusterParams{ClusterID: in.clusterID})
	require.NoError(t, err)
	require.Equal(t, models.ClusterStatusInstalled, *got.Payload.Status)
}
