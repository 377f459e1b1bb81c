package release

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sandbox"
	"landfall/appliance/simulate/registry"
)

// inSandbox gives a library a sandbox, as the appliance does.
func inSandbox(t *testing.T, l *Library) *Library {
	box, err := sandbox.New(sandbox.Options{Dir: l.workDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	l.sandbox = box
	return l
}

func TestGenerate_inSandbox(t *testing.T) {
	l, pushed := standIn(t, registry.Payload{})
	inSandbox(t, l)
	p, err := l.Payload(t.Context(), pushed.Release, "x86_64", nil)
	require.NoError(t, err)
	inst, release, err := l.Installer(t.Context(), p, nil, nil)
	require.NoError(t, err)
	defer release()
	g, err := l.Generate(t.Context(), inst, GenerateRequest{ReleaseImage: p.Image, InstallConfig: []byte(threeNodes),
		Manifests: map[string][]byte{"manifests/mine.yaml": []byte("kind: Mine\n")}, WithoutMachines: true})
	require.NoError(t, err)
	require.Equal(t, "demo", g.ClusterName)
	require.Contains(t, string(g.Files[BootstrapIgnition]), "/opt/openshift/manifests/mine.yaml")
	requireNoUnfinishedFiles(t, l)
}

func TestGenerate_sandboxEndsWithTheContext(t *testing.T) {
	l := inSandbox(t, newSite(t).library())
	ctx, cancel := context.WithCancel(t.Context())
	inst := script(t, `touch started; sleep 600`)
	require.NoError(t, os.Chmod(inst.Path, 0o755))
	failed := make(chan error)
	go func() {
		_, err := l.Generate(ctx, inst, GenerateRequest{})
		failed <- err
	}()
	require.Eventually(t, func() bool {
		found, err := filepath.Glob(filepath.Join(l.workDir(), "*", "started"))
		return err == nil && len(found) == 1
	}, waitFor, tick)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	requireNoUnfinishedFiles(t, l)
}

// TestGenerate_hostileOutput runs a program that leaves links and pipes in its directory, so that
// the appliance reads or writes other files.
func TestGenerate_hostileOutput(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "site.key")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for name, c := range map[string]struct {
		lines     string
		manifests map[string][]byte
		failure   string // "" if the run succeeds
	}{
		"link as output": {good + `; rm "$4/master.ign"; ln -s ` + secret + ` "$4/master.ign"`, nil, "escapes"},
		"pipe as output": {good + `; rm "$4/master.ign"; mkfifo "$4/master.ign"`, nil, "is not a file"},
		"directory":      {good + `; rm "$4/master.ign"; mkdir "$4/master.ign"`, nil, "is not a file"},
		"endless output": {good + `; truncate -s 1G "$4/master.ign"`, nil, "is larger than 64 MiB"},
		"link as directory": {good + `; rm -r "$4/manifests"; ln -s ` + filepath.Dir(secret) + ` "$4/manifests"`,
			map[string][]byte{"manifests/site.key": []byte("x")}, "manifests"},
		"link as manifest": {good + `; ln -sf ` + secret + ` "$4/manifests/mine.yaml"`,
			map[string][]byte{"manifests/mine.yaml": []byte("x")}, ""},
		"other name as manifest": {good + `; ln -f ` + secret + ` "$4/manifests/mine.yaml" || true`,
			map[string][]byte{"manifests/mine.yaml": []byte("x")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newSite(t).library()
			g, err := l.Generate(t.Context(), script(t, `rm -rf "$4"/*; `+c.lines), GenerateRequest{Manifests: c.manifests})
			if c.failure == "" {
				require.NoError(t, err)
				require.NotContains(t, string(g.Files[MasterIgnition]), "secret")
			} else {
				require.ErrorContains(t, err, c.failure)
			}
			data, err := os.ReadFile(secret)
			require.NoError(t, err)
			require.Equal(t, "secret", string(data))
			requireNoUnfinishedFiles(t, l)
		})
	}
}
