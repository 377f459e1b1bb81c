package appliance_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// insideNamespace marks the process of the test in its namespaces.
const insideNamespace = "LANDFALL_TEST_NAMESPACE"

// TestRegistry_installsInNamespace installs a cluster in a network namespace with nothing but the
// loopback, from an archive on a read-only file system that is unmounted and mounted again after
// the installation has begun.
func TestRegistry_installsInNamespace(t *testing.T) {
	if os.Getenv(insideNamespace) == "" {
		runInNamespace(t)
		return
	}
	out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput()
	require.NoError(t, err, "%s", out)
	b := newBareSite(t)
	stick := filepath.Join(t.TempDir(), "mounted")
	require.NoError(t, os.Mkdir(stick, 0o700))
	plugIn := func() {
		require.NoError(t, syscall.Mount(b.folder, stick, "", syscall.MS_BIND, ""))
		require.NoError(t, syscall.Mount("", stick, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	}
	plugIn()
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(stick, syscall.MNT_DETACH)) })
	require.ErrorIs(t, os.WriteFile(filepath.Join(stick, "a"), nil, 0o600), syscall.EROFS)
	b.config.Registry.Media = []string{stick}
	address, _ := b.start(t)
	requireServed(t, address)
	id := b.readyClusterOf(t, address, "", "", 100)
	pressInstall(t, address, id)
	eventuallySlow(t, "the host writes its disk", func() bool {
		return *clusterAt(t, address, id).Status == models.ClusterStatusInstalling &&
			clusterAt(t, address, id).Hosts[0].Progress.CurrentStage == models.HostStageWritingImageToDisk
	})
	manifest := "http://" + registryHost(t, address) + "/v2/openshift/release-images/manifests/" + b.release.Digest
	requireAnswer(t, manifest, http.StatusOK)
	require.NoError(t, syscall.Unmount(stick, syscall.MNT_DETACH))
	requireAnswer(t, manifest, http.StatusServiceUnavailable)
	require.Equal(t, models.ClusterStatusInstalling, *clusterAt(t, address, id).Status)
	plugIn()
	requireAnswer(t, manifest, http.StatusOK)
	require.True(t, proveRelease(t, address, b.release.Version).Complete)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
}

// runInNamespace runs the calling test in a network namespace and a mount namespace.
func runInNamespace(t *testing.T) {
	t.Helper()
	arguments := []string{"--net", "--mount"}
	if os.Geteuid() != 0 {
		arguments = append(arguments, "--user", "--map-root-user")
	}
	if out, err := exec.Command("unshare", append(arguments, "true")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "namespaces are not permitted; no cluster was installed in one: %v %s\n", err, out)
		t.SkipNow()
	}
	program := exec.CommandContext(t.Context(), "unshare", append(arguments, os.Args[0], "-test.v",
		"-test.run", "^"+t.Name()+"$")...)
	program.Env = append(os.Environ(), insideNamespace+"=1")
	out, err := program.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}
