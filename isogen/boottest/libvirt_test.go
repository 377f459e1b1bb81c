//go:build boot && libvirt

package boottest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"
)

// libvirtDaemon is the path of the daemon in Debian, which is not always in PATH.
const libvirtDaemon = "/usr/sbin/libvirtd"

// newEmulator returns a machine emulated by a libvirt domain, in a session that ends with the test.
func newEmulator(t *testing.T, m identity) emulator {
	t.Helper()
	// The directory is not the test's directory, because the socket needs a short name and the
	// owner of the session needs access.
	dir, err := os.MkdirTemp("", "landfall-libvirt-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	l := &libvirt{identity: m, dir: dir, owner: sessionOwner(t)}
	l.xml, err = template.ParseFiles(filepath.Join("testdata", "domain.xml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(l.path("disk"), nil, 0o600))
	require.NoError(t, os.Truncate(l.path("disk"), diskBytes))
	require.NoError(t, l.give(dir, l.path("disk")))
	l.serve(t)
	l.follow(t)
	return l
}

// sessionOwner returns the user nobody if the tests run as root, because libvirt has no session for
// root. Otherwise it returns nil.
func sessionOwner(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// libvirt is a machine emulated by a domain.
type libvirt struct {
	identity
	dir   string
	owner *syscall.Credential
	xml   *template.Template

	mu     sync.Mutex
	image  string
	fromCD bool
	ended  chan ending // receives the ending of the running machine, or nil
}

func (l *libvirt) path(name string) string { return filepath.Join(l.dir, name) }

func (l *libvirt) shared() string { return l.dir }

func (l *libvirt) console() string { return l.path("console") }

// give makes the owner of the session the owner of files.
func (l *libvirt) give(paths ...string) error {
	for _, path := range paths {
		if l.owner == nil {
			return nil
		}
		if err := os.Chown(path, int(l.owner.Uid), int(l.owner.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// serve runs the daemon of the session. It passes the socket to the daemon, like systemd, so that
// clients need not wait for the daemon.
func (l *libvirt) serve(t *testing.T) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.path("socket"), Net: "unix"})
	require.NoError(t, err)
	listener.SetUnlinkOnClose(false)
	socket, err := listener.File()
	require.NoError(t, err)
	daemon := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0"`, libvirtDaemon)
	daemon.ExtraFiles = []*os.File{socket} // the third file descriptor, see sd_listen_fds(3)
	daemon.SysProcAttr = &syscall.SysProcAttr{Credential: l.owner}
	daemon.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=libvirtd.socket", "HOME="+l.dir)
	for _, kind := range []string{"RUNTIME_DIR", "CONFIG_HOME", "CACHE_HOME", "DATA_HOME"} {
		place := l.path(strings.ToLower(kind))
		require.NoError(t, os.Mkdir(place, 0o700))
		require.NoError(t, l.give(place))
		daemon.Env = append(daemon.Env, "XDG_"+kind+"="+place)
	}
	var output bytes.Buffer
	daemon.Stdout, daemon.Stderr = &output, &output
	require.NoError(t, daemon.Start(), howToInstall)
	require.NoError(t, socket.Close())
	require.NoError(t, listener.Close())
	t.Cleanup(func() {
		require.NoError(t, daemon.Process.Signal(syscall.SIGTERM))
		if err := daemon.Wait(); err != nil || t.Failed() {
			t.Logf("libvirtd ended (%v): %s", err, output.String())
		}
	})
}

// follow receives all events of the domain, starting with its definition.
func (l *libvirt) follow(t *testing.T) {
	t.Helper()
	events := l.command("event", "--domain", l.name, "--all", "--loop")
	out, err := events.StdoutPipe()
	require.NoError(t, err)
	var connected atomic.Bool
	var reading sync.WaitGroup
	require.NoError(t, l.define())
	require.NoError(t, events.Start())
	reading.Go(func() { l.listen(t, out, &connected) })
	t.Cleanup(func() {
		require.NoError(t, events.Process.Kill())
		reading.Wait()
		require.Error(t, events.Wait(), "virsh must run until it is killed")
	})
	require.Eventually(t, func() bool { return l.define() == nil && connected.Load() }, time.Minute,
		50*time.Millisecond,
		"libvirt sent no event of the domain")
}

func (l *libvirt) listen(t *testing.T, out io.Reader, connected *atomic.Bool) {
	how := ending("")
	defer func() { // no more events are received
		l.mu.Lock()
		defer l.mu.Unlock()
		l.end(stopped)
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		connected.Store(true)
		_, event, _ := strings.Cut(lines.Text(), "event ")
		kind, detail, _ := strings.Cut(event, " for domain '"+l.name+"'")
		switch {
		case kind == "'reboot'": // the machine is on again; the BMC decides what it boots next
			how = restarted
			if _, err := l.virsh("destroy", l.name); err != nil {
				t.Errorf("power off the machine: %v", err)
			}
		case strings.HasPrefix(detail, ": Stopped"):
			if how == "" {
				how = switchedOff
			}
			if strings.HasSuffix(detail, "Destroyed") && how != restarted {
				how = stopped
			}
			l.mu.Lock()
			l.end(how)
			l.mu.Unlock()
			how = ""
		}
	}
}

// end reports how the running machine was turned off. The caller holds the mutex.
func (l *libvirt) end(how ending) {
	if l.ended != nil {
		l.ended <- how
	}
	l.ended = nil
}

// command returns virsh with the session's URI.
func (l *libvirt) command(args ...string) *exec.Cmd {
	return exec.Command("virsh", append([]string{"--quiet", "--connect", "qemu:///session?socket=" + l.path("socket")},
		args...)...)
}

func (l *libvirt) virsh(args ...string) (string, error) {
	out, err := l.command(args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("virsh %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// describe writes a part of the domain's description to a file and returns the path.
func (l *libvirt) describe(part string) (string, error) {
	var text bytes.Buffer
	err := l.xml.ExecuteTemplate(&text, part, map[string]any{
		"Name": l.name, "UUID": l.uuid, "Serial": l.serial, "MAC": l.mac, "MemoryMiB": memoryMiB,
		"Processor": processor, "Dir": l.dir, "Code": firmwareCode, "Variables": firmwareVariables,
		"Image": l.image, "FromCD": l.fromCD,
	})
	if err != nil {
		return "", err
	}
	return l.path(part + ".xml"), os.WriteFile(l.path(part+".xml"), text.Bytes(), 0o600)
}

func (l *libvirt) define() error {
	path, err := l.describe("domain.xml")
	if err == nil {
		_, err = l.virsh("define", path)
	}
	return err
}

func (l *libvirt) start(fromCD bool) (<-chan ending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fromCD = fromCD
	if err := l.define(); err != nil {
		return nil, err
	}
	ended := make(chan ending, 1)
	if _, err := l.virsh("start", l.name); err != nil {
		return nil, err
	}
	l.ended = ended
	return ended, nil
}

func (l *libvirt) stop() error {
	_, err := l.virsh("destroy", l.name)
	if state, stateErr := l.virsh("domstate", l.name); stateErr == nil && state == "shut off" {
		return nil // the machine powered itself off in the meantime
	}
	return err
}

func (l *libvirt) insert(image string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if image != "" {
		if err := l.give(image); err != nil {
			return err
		}
	}
	l.image = image
	path, err := l.describe("cd")
	if err == nil {
		_, err = l.virsh("update-device", l.name, path, "--persistent", "--force")
	}
	return err
}

func (l *libvirt) inserted() (string, error) {
	drives, err := l.virsh("domblklist", l.name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(drives) {
		if columns := strings.Fields(line); len(columns) == 2 && columns[0] == "sda" && columns[1] != "-" {
			return columns[1], nil
		}
	}
	return "", nil
}
