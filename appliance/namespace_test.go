//go:build siteclients

package appliance_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aloneEnv marks the process in the namespaces of the test.
const aloneEnv = "LANDFALL_TEST_ALONE"

// runAlone runs the test in a process with namespaces of its own. If namespaces are not permitted,
// a message reports this.
func runAlone(t *testing.T, namespaces uintptr) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.WaitDelay = append(os.Environ(), aloneEnv+"=1"), time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Log("namespaces are not permitted; the installation in namespaces of its own was not tested:", err)
		return
	}
	t.Logf("%s", out)
	require.NoError(t, err, "the installation in namespaces of its own")
}
