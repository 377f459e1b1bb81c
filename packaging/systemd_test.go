//go:build systemd

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machineLimit limits a command in a machine; a service needs up to a minute to start again.
const machineLimit = 2 * time.Minute

// boot is the first process in the namespaces. It makes the root directory in its first argument a
// system, and becomes systemd.
const boot = `set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "$root/dev/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 "$root/dev/tty" c 5 0
mkdir "$root/dev/shm" "$root/dev/pts" "$root/old"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
: > "$root/dev/console"
cd "$root"
pivot_root . old
umount -l /old
ip link set lo up
exec env -i container=landfall-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --show-status=no
`

// machine is a Debian system whose first process is systemd, in namespaces of its own.
type machine struct {
	root string
	pid  int // of systemd
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	m := &machine{root: filepath.Join(t.TempDir(), "root")}
	output, err := exec.Command("cp", "-a", filepath.Join(cache, "landfall/debian"), m.root).CombinedOutput()
	require.NoError(t, err, "%s; .ci/install-debianroot makes the directory", output)
	group := newGroup(t)
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount", "--net", "--ipc", "--uts", "--cgroup",
		"/bin/sh", "-c", boot, "boot", m.root)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, os.WriteFile(filepath.Join(group.Name(), "cgroup.kill"), []byte("1"), 0o644))
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(failure.String())
		}
	})
	children := fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(children)
		if err == nil {
			m.pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil && m.try(t, "test -S /run/systemd/private") == nil
	}, machineLimit, 100*time.Millisecond, "systemd does not start")
	// The result is degraded if a unit of Debian failed, which is of no interest here.
	_ = m.try(t, "systemctl is-system-running --wait")
	return m
}

// newGroup returns an empty control group.
func newGroup(t *testing.T) *os.File {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if fields[2] != "cgroup2" {
			continue
		}
		path := filepath.Join(fields[1], fmt.Sprintf("landfall-test-%d", os.Getpid()))
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Skipf("this container permits no control groups: %v", err)
		}
		t.Cleanup(func() { removeGroup(t, path) })
		group, err := os.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { group.Close() })
		return group
	}
	t.Skip("this system has no file system cgroup2")
	return nil
}

// removeGroup removes a control group with the groups in it, as soon as their processes have ended.
func removeGroup(t *testing.T, path string) {
	require.Eventually(t, func() bool {
		var groups []string
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append([]string{name}, groups...)
			}
			return err
		})
		for _, group := range groups {
			if removeErr := os.Remove(group); removeErr != nil {
				err = removeErr
			}
		}
		return err == nil
	}, machineLimit, 100*time.Millisecond, "the control group is not empty")
}

func (m *machine) command(t *testing.T, script string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), machineLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(m.pid), "-p", "-m", "-n", "-i", "-u", "-C",
		"env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "sh", "-c", script)
	output, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

func (m *machine) try(t *testing.T, script string) error {
	_, err := m.command(t, script)
	return err
}

// run runs a script that must succeed, and returns its output.
func (m *machine) run(t *testing.T, script string) string {
	t.Helper()
	output, err := m.command(t, script)
	require.NoError(t, err, "%s\n%s", script, output)
	return output
}

// until waits until a script succeeds.
func (m *machine) until(t *testing.T, script string) {
	t.Helper()
	require.Eventually(t, func() bool { return m.try(t, script) == nil }, machineLimit, 200*time.Millisecond, script)
}

// service returns a property of landfall.service.
func (m *machine) service(t *testing.T, property string) string {
	t.Helper()
	return m.run(t, "systemctl show --property "+property+" --value landfall.service")
}

// answers fails unless the appliance answers. Clients wait for it while it starts.
func (m *machine) answers(t *testing.T) {
	t.Helper()
	require.Equal(t, "ok", m.run(t, "curl --silent --max-time 60 http://127.0.0.1:8090/livez"))
}

// logIn creates the first administrator.
func (m *machine) logIn(t *testing.T) {
	t.Helper()
	m.run(t, "echo a-long-password-1 > /root/password && landfall login --user anna --password-file /root/password "+
		"--setup-code /var/lib/landfall/setup-code")
}

const program = "../bin/landfall"

// putPackage builds a package of the real program with a version, and copies it into a machine.
func putPackage(t *testing.T, m *machine, version string) {
	t.Helper()
	b := build{root: "..", output: t.TempDir(), native: program, version: version, time: time.Unix(1750000000, 0).UTC(),
		programs: map[target]string{}, compression: "zstd:1"}
	architecture := target{"linux", runtime.GOARCH}
	b.programs[architecture] = program
	for _, name := range []string{licensesName, b.componentsName()} {
		require.NoError(t, os.WriteFile(b.file(name), nil, 0o644))
	}
	stage := t.TempDir()
	require.NoError(t, b.writeReference(t.Context(), stage))
	require.NoError(t, b.writePackage(architecture, stage, "deb"))
	found, err := filepath.Glob(b.file("*.deb"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, copyFile(found[0], filepath.Join(m.root, "root", version+".deb"), 0o644))
}

// A package is installed, started, upgraded and removed on a clean Debian system with systemd.
func TestDebian_installUpgradeRemove(t *testing.T) {
	m := newMachine(t)
	putPackage(t, m, "v1.0.0")
	putPackage(t, m, "v2.0.0")

	output := m.run(t, "dpkg -i /root/v1.0.0.deb")
	require.Contains(t, output, "systemctl enable --now landfall.socket landfall.service")
	require.Equal(t, "inactive", m.service(t, "ActiveState"), "a package must not start before it is configured")
	m.run(t, "id landfall && systemctl enable --now landfall.socket landfall.service")
	m.answers(t)
	require.Equal(t, "drwx------ landfall", m.run(t, "stat --format '%A %U' /var/lib/landfall"))
	require.Equal(t, "CapEff:\t0000000000000000\nNoNewPrivs:\t1",
		m.run(t, "grep -E '^(CapEff|NoNewPrivs)' /proc/"+m.service(t, "MainPID")+"/status"))
	require.Contains(t, m.service(t, "StatusText"), "Serving https://")

	t.Run("sandbox", func(t *testing.T) { checkSandbox(t, m) })
	t.Run("restart", func(t *testing.T) { checkRestart(t, m) })
	t.Run("watchdog", func(t *testing.T) { checkWatchdog(t, m) })

	// The first client starts a service that was stopped.
	m.run(t, "systemctl stop landfall.service")
	require.Equal(t, "inactive", m.service(t, "ActiveState"))
	m.answers(t)
	m.until(t, "systemctl is-active --quiet landfall.service") // the report may be later than the answer

	before := m.service(t, "MainPID")
	m.run(t, "echo '# of the site' >> /etc/landfall/config.yaml && dpkg -i /root/v2.0.0.deb")
	require.NotEqual(t, before, m.service(t, "MainPID"), "an upgrade restarts the service")
	m.answers(t)
	require.Equal(t, "2.0.0-1", m.run(t, "dpkg-query --show --showformat '${Version}' landfall"))
	m.run(t, "grep '# of the site' /etc/landfall/config.yaml")

	// A service that cannot start does not make the package unusable.
	m.run(t, "echo 'wrong: key' >> /etc/landfall/config.yaml && systemctl restart landfall.service || true")
	require.Contains(t, m.run(t, "dpkg -i /root/v2.0.0.deb"), "journalctl -u landfall says why")
	m.run(t, "sed -i '/^wrong/d' /etc/landfall/config.yaml && systemctl restart landfall.service")
	m.answers(t)

	m.run(t, "dpkg --remove landfall")
	require.Equal(t, "inactive\ninactive", m.run(t, "systemctl is-active landfall.service landfall.socket || true"))
	m.run(t, "test ! -e /usr/bin/landfall && grep '# of the site' /etc/landfall/config.yaml")
	require.Empty(t, m.run(t, "find /etc/systemd/system -name 'landfall*'"), "the service is still enabled")
	m.run(t, "dpkg -i /root/v2.0.0.deb && systemctl enable --now landfall.socket landfall.service")
	m.answers(t)
	require.Contains(t, m.run(t, "dpkg --purge landfall"), "the data of the site stays in /var/lib/landfall")
	m.run(t, "test ! -e /etc/landfall && test -s /var/lib/landfall/landfall.db")
}

// The sandbox of openshift-install must not be weaker in the service without a test that says so.
func checkSandbox(t *testing.T, m *machine) {
	m.logIn(t)
	require.Contains(t, m.run(t, "landfall doctor || true"),
		"active: processes, no-network, landlock, calls, privileges, limits; missing: other-user")
	m.run(t, "landfall site status")
}

// No client fails while the service restarts.
func checkRestart(t *testing.T, m *machine) {
	require.NotContains(t, m.run(t, "(for i in $(seq 100); do curl --silent --fail --max-time 60 --output /dev/null "+
		"http://127.0.0.1:8090/livez || echo failed; done) > /tmp/clients & "+
		"systemctl restart landfall.service; systemctl restart landfall.service; wait; cat /tmp/clients"), "failed")
}

// A process that stopped is started again.
func checkWatchdog(t *testing.T, m *machine) {
	drop := "/run/systemd/system/landfall.service.d"
	m.run(t, "mkdir -p "+drop+" && printf '[Service]\\nWatchdogSec=4s\\n' > "+drop+"/watchdog.conf && "+
		"systemctl daemon-reload && systemctl restart landfall.service")
	before := m.service(t, "MainPID")
	m.run(t, "kill -STOP "+before)
	m.until(t, `pid=$(systemctl show --property MainPID --value landfall.service) && `+
		`[ "$pid" != 0 ] && [ "$pid" != `+before+` ]`)
	require.Equal(t, "1", m.service(t, "NRestarts"), "systemd started it, and not the next client")
	require.Contains(t, m.run(t, "journalctl --unit landfall.service --output cat"), "SIGABRT: abort")
	m.answers(t)
	m.run(t, "rm -r "+drop+" && systemctl daemon-reload && systemctl restart landfall.service")
}

// Without a package manager, the program installs, updates and removes its service.
func TestDebian_serviceWithoutPackage(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, copyFile(program, filepath.Join(m.root, "root/landfall"), 0o755))
	require.Contains(t, m.run(t, "/root/landfall service status"), "no; landfall service install")
	m.run(t, "/root/landfall service install --now")
	m.answers(t)
	require.Contains(t, m.run(t, "landfall service status"), "active, enabled")
	before := m.service(t, "MainPID")
	m.run(t, "/root/landfall service install")
	require.NotEqual(t, before, m.service(t, "MainPID"), "an update restarts the service")
	m.answers(t)
	t.Run("upgrade", func(t *testing.T) { checkUpgrade(t, m) })
	m.run(t, "landfall service remove")
	require.Equal(t, "inactive\ninactive", m.run(t, "systemctl is-active landfall.service landfall.socket || true"))
	m.run(t, "test ! -e /usr/local/bin/landfall && test -s /var/lib/landfall/landfall.db")
	require.Empty(t, m.run(t, "find /etc/systemd/system -name 'landfall*'"))
	require.Contains(t, m.run(t, "/root/landfall service status"), "no; landfall service install")
}

// The upgrade of a service makes a backup, restarts the service, and can be undone. A program that
// can't serve is replaced by the former one.
func checkUpgrade(t *testing.T, m *machine) {
	m.logIn(t)
	sum := func(path string) string { return m.run(t, "sha256sum < "+path) }
	first, process := sum("/usr/local/bin/landfall"), m.service(t, "MainPID")
	// Bytes after the end of a program make another file that does the same.
	m.run(t, "cp /root/landfall /root/next && echo other >> /root/next")
	require.Contains(t, m.run(t, "landfall upgrade /root/next"), "The appliance is ready with Landfall")
	require.NotEqual(t, process, m.service(t, "MainPID"))
	require.Equal(t, sum("/root/next"), sum("/usr/local/bin/landfall"))
	require.Equal(t, first, sum("/usr/local/bin/landfall.previous"))
	require.NotEmpty(t, m.run(t, "find /var/lib/landfall/backups -name 'before-upgrade-*' -size +0"))
	m.answers(t)

	require.Contains(t, m.run(t, "landfall upgrade --rollback"), "The appliance is ready with Landfall")
	require.Equal(t, first, sum("/usr/local/bin/landfall"))
	m.answers(t)

	drop := "/run/systemd/system/landfall.service.d"
	m.run(t, "mkdir -p "+drop+" && printf '[Service]\nExecStartPre=/bin/sh -c \"! tail -c 7 /usr/local/bin/landfall | "+
		"grep broken\"\n' > "+drop+"/broken.conf && systemctl daemon-reload")
	m.run(t, "cp /root/landfall /root/broken && echo broken >> /root/broken")
	output, err := m.command(t, "landfall upgrade --timeout 10s /root/broken")
	require.Error(t, err, output)
	require.Contains(t, output, "was put back and is ready")
	require.Equal(t, first, sum("/usr/local/bin/landfall"))
	m.answers(t)
	m.run(t, "rm -r "+drop+" && systemctl daemon-reload")
}
