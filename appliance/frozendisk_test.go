//go:build siteclients

package appliance_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// diskBytes is the size of the disk with the data of the appliance. Its image is a sparse file.
const diskBytes = 512 << 20

// TestInstallation_survivesHungDisk freezes the file system of the appliance's data in the middle
// of an installation for longer than a host may be silent. Each write waits until the disk
// continues.
func TestInstallation_survivesHungDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root can mount a disk; the installation on a disk that hangs was not tested")
		return
	}
	if os.Getenv(aloneEnv) == "" {
		runAlone(t, syscall.CLONE_NEWNS)
		return
	}
	if out, err := exec.CommandContext(t.Context(), "losetup", "--find").CombinedOutput(); err != nil {
		t.Logf("loop devices are not permitted; the installation on a disk that hangs was not tested: %s", out)
		return
	}
	in := newInterruptedInstallation(t, func(s *site) {
		s.config.DataDir = filepath.Join(mountDisk(t), "data")
	})
	in.run(t, func(wait func()) {
		release := freeze(t, filepath.Dir(in.site.config.DataDir))
		wait()
		release()
	})
}

// mountDisk mounts a new disk and returns its folder. The end of the mount namespace unmounts it,
// also if the process is killed, and the kernel then releases the loop device.
func mountDisk(t *testing.T) (folder string) {
	t.Helper()
	require.NoError(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	folder, image := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, diskBytes))
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, folder}} {
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(folder, 0)) })
	return folder
}

// freezer freezes a file system until its standard input ends. A frozen file system stays frozen
// without a mount and without a process, so this program runs in a session of its own: it releases
// the file system even if the test is killed.
const freezer = `fsfreeze --freeze "$0" && echo frozen
read -r line
fsfreeze --unfreeze "$0"`

// freeze freezes the file system at a folder. The returned function releases it.
func freeze(t *testing.T, folder string) (release func()) {
	t.Helper()
	command := exec.Command("sh", "-c", freezer, folder)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Stderr = os.Stderr
	hold, err := command.StdinPipe()
	require.NoError(t, err)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		require.NoError(t, hold.Close())
		require.NoError(t, command.Wait(), "release the disk")
	}
	t.Cleanup(release)
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "frozen\n", line)
	return release
}
