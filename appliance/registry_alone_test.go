//go:build siteclients

package appliance_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// stick is a file system that is mounted at a folder, read-only, while it is plugged in.
type stick struct{ source, folder string }

// newStick moves the files of a folder to a file system of their own.
func newStick(t *testing.T, folder string) stick {
	t.Helper()
	s := stick{t.TempDir(), folder}
	require.NoError(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	require.NoError(t, syscall.Mount("stick", s.source, "tmpfs", 0, "size=256m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(s.source, syscall.MNT_DETACH)) })
	require.NoError(t, os.CopyFS(s.source, os.DirFS(folder)))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		require.NoError(t, os.Remove(filepath.Join(folder, entry.Name())))
	}
	return s
}

func (s stick) plugIn(t *testing.T) {
	t.Helper()
	require.NoError(t, syscall.Mount(s.source, s.folder, "", syscall.MS_BIND, ""))
	require.NoError(t, syscall.Mount("", s.folder, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	require.ErrorIs(t, os.WriteFile(filepath.Join(s.folder, "written"), nil, 0o600), syscall.EROFS)
}

func (s stick) pullOut(t *testing.T) {
	t.Helper()
	require.NoError(t, syscall.Unmount(s.folder, syscall.MNT_DETACH))
}

// TestRegistry_aloneInItsNetwork installs a cluster of simulated hosts from one archive on a
// read-only file system, with an otherwise empty configuration, without another registry, in a
// network namespace with nothing else in it. After the press on Install, the medium is removed and
// comes back, twice.
func TestRegistry_aloneInItsNetwork(t *testing.T) {
	if os.Getenv(aloneEnv) == "" {
		runAlone(t, syscall.CLONE_NEWNS|syscall.CLONE_NEWNET)
		return
	}
	require.NoError(t, exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").Run())
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	require.Len(t, interfaces, 1, "the network has more than the loopback interface")
	b := newBareSite(t)
	require.NoError(t, sharedEnvironment.environment.registry.Close())
	sharedEnvironment.environment.registry = nil
	s := newStick(t, b.folder)
	s.plugIn(t)
	address, stop := b.start(t)
	requireServed(t, address)
	id := b.readyCluster(t, address, "", "")
	manifest := "http://" + registryHost(t, address) + "/v2/openshift/release-images/manifests/" + b.release.Digest
	pulledOut := func() {
		s.pullOut(t)
		requireAnswer(t, manifest, http.StatusServiceUnavailable)
		s.plugIn(t)
		requireAnswer(t, manifest, http.StatusOK)
	}
	pressInstall(t, address, id)
	pulledOut()
	installing := []string{models.ClusterStatusInstalling, models.ClusterStatusFinalizing,
		models.ClusterStatusInstalled}
	eventually(t, "the installation runs", func() bool {
		status := *clusterAt(t, address, id).Status
		if status == models.ClusterStatusReady { // the preparation met the missing medium
			pressInstall(t, address, id)
		}
		return slices.Contains(installing, status)
	})
	pulledOut()
	requireStatus(t, address, id, models.ClusterStatusInstalled)
	stop()
	s.pullOut(t)
}
