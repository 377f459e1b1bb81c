//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == hostile {
		attack(os.Args[2:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hostile is the argument with which a test starts itself as a hostile child.
const hostile = "hostile-child"

// findings is what a hostile child could do: for each attempt "", or why it failed.
type findings map[string]string

// attack tries what a hostile child would try. The arguments are a file of the appliance and the
// address of a TCP server.
func attack(args []string) {
	secret, address, parent := args[0], args[1], args[2]
	got := findings{}
	try := func(name string, attempt func() error) {
		got[name] = ""
		if err := attempt(); err != nil {
			got[name] = err.Error()
		}
	}
	try("read", func() error { _, err := os.ReadFile(secret); return err })
	try("list", func() error { _, err := os.ReadDir(filepath.Dir(secret)); return err })
	try("write", func() error { return os.WriteFile(secret+".mine", nil, 0o600) })
	try("write-tmp", func() error { return os.WriteFile("/tmp/landfall-hostile", nil, 0o600) })
	try("connect", func() error { _, err := net.Dial("tcp", address); return err })
	try("listen", func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err })
	try("unix", func() error { _, err := net.Listen("unix", "socket"); return err })
	try("environment", func() error { _, err := os.ReadFile("/proc/" + parent + "/environ"); return err })
	try("memory", func() error { _, err := os.Open("/proc/" + parent + "/mem"); return err })
	pid, _ := strconv.Atoi(parent)
	try("signal", func() error { return syscall.Kill(pid, 0) })
	try("ptrace", func() error { return syscall.PtraceAttach(pid) })
	try("mount", func() error { return syscall.Mount("none", ".", "tmpfs", 0, "") })
	try("namespace", func() error { return syscall.Unshare(syscall.CLONE_NEWUSER) })
	try("capability", func() error {
		header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		if err := unix.Capget(&header, &data[0]); err != nil {
			return err
		}
		if data == [2]unix.CapUserData{} {
			return errors.New("none")
		}
		return nil
	})
	try("own", func() error {
		if err := os.MkdirAll("a/b", 0o700); err != nil {
			return err
		}
		if err := os.WriteFile("a/file", []byte("x"), 0o600); err != nil {
			return err
		}
		return os.Rename("a/file", "a/b/file")
	})
	try("own-path", func() error { return os.WriteFile(filepath.Join(os.Getenv("HOME"), "by-path"), nil, 0o600) })
	try("shell", func() error { return exec.Command("/bin/sh", "-c", "echo x > by-shell").Run() })
	got["env"], got["fds"] = strings.Join(os.Environ(), " "), strings.Join(descriptors(), " ")
	got["uid"] = strconv.Itoa(os.Getuid())
	text, _ := json.Marshal(got)
	os.Stdout.Write(text)
}

// descriptors lists the open descriptors of this process without its own standard descriptors and
// those of Go's runtime.
func descriptors() (open []string) {
	for fd := 3; fd < 256; fd++ {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			open = append(open, strconv.Itoa(fd))
		}
	}
	return open
}

type testSandbox struct {
	*testing.T
	*Sandbox
	dir, data string
	log       *bytes.Buffer
}

func open(t *testing.T, change ...func(*Options)) *testSandbox {
	base := t.TempDir()
	s := &testSandbox{T: t, dir: filepath.Join(base, "data", "work", "run"), data: filepath.Join(base, "data"),
		log: &bytes.Buffer{}}
	require.NoError(t, os.MkdirAll(s.dir, 0o700))
	options := Options{Dir: filepath.Dir(s.dir), Logger: slog.New(slog.NewTextHandler(s.log, nil))}
	for _, c := range change {
		c(&options)
	}
	var err error
	s.Sandbox, err = New(options)
	require.NoError(t, err)
	return s
}

// run runs this test program in the sandbox with arguments.
func (s *testSandbox) run(args ...string) (string, error) {
	s.Helper()
	program, err := os.Executable()
	require.NoError(s, err)
	return s.runProgram(program, args...)
}

func (s *testSandbox) runProgram(program string, args ...string) (string, error) {
	s.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(s, s.Give(s.dir))
	cmd, err := s.Command(s.Context(), Command{Program: program, Args: args, Dir: s.dir,
		Env: []string{"HOME=" + s.View(s.dir)}})
	require.NoError(s, err)
	var output, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &failure
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("%w: %s", err, failure.String())
	}
	return output.String(), nil
}

func (s *testSandbox) active(ids ...MeasureID) bool {
	for _, m := range s.Measures() {
		for _, id := range ids {
			if m.ID == id && m.Active {
				return true
			}
		}
	}
	return false
}

// TestSandbox_hostileChild runs a hostile child. Each attempt must fail if a measure against it is
// active. Without such a measure, the report must say so.
func TestSandbox_hostileChild(t *testing.T) {
	t.Setenv("LANDFALL_SECRET", "hunter2")
	s := open(t)
	t.Log(s.Measures())
	secret := filepath.Join(s.data, "site.key")
	require.NoError(t, os.WriteFile(secret, []byte("key"), 0o600))
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	inherited, err := os.Open(secret)
	require.NoError(t, err)
	defer inherited.Close()
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, inherited.Fd(), syscall.F_SETFD, 0) // inheritable
	require.Zero(t, errno)

	output, err := s.run(hostile, secret, server.Addr().String(), strconv.Itoa(os.Getpid()))
	require.NoError(t, err)
	var got findings
	require.NoError(t, json.Unmarshal([]byte(output), &got), output)
	t.Log(got)
	for attempt, against := range map[string][]MeasureID{
		"read": {Files, Landlock, OtherUser}, "list": {Files, Landlock, OtherUser},
		"write": {Files, Landlock, OtherUser}, "write-tmp": {Files, Landlock},
		"connect": {NoNetwork, Calls}, "listen": {Calls}, "unix": {Calls},
		"environment": {Files, Landlock, OtherUser}, "memory": {Files, Landlock, OtherUser},
		"signal": {Processes, OtherUser}, "ptrace": {Calls, Landlock, Processes},
		"mount": {Calls, Privileges}, "namespace": {Calls}, "capability": {Privileges},
	} {
		if s.active(against...) {
			require.NotEmpty(t, got[attempt], attempt)
		} else {
			t.Logf("%s: none of %v is active here, and the report says so: %q", attempt, against, got[attempt])
		}
	}
	require.NoFileExists(t, secret+".mine")
	for _, allowed := range []string{"own", "own-path", "shell"} {
		require.Empty(t, got[allowed], allowed)
	}
	require.FileExists(t, filepath.Join(s.dir, "a", "b", "file"))
	require.FileExists(t, filepath.Join(s.dir, "by-path"))
	require.FileExists(t, filepath.Join(s.dir, "by-shell"))
	require.Equal(t, "HOME="+s.View(s.dir), got["env"])
	if s.View(s.dir) == s.dir {
		require.Empty(t, got["fds"])
	}
	if s.active(OtherUser) {
		require.Equal(t, strconv.Itoa(nobody), got["uid"])
	}
}

// TestSandbox_eachPlan runs the hostile child with each set of namespaces that this machine allows.
func TestSandbox_eachPlan(t *testing.T) {
	for _, attempt := range open(t).attempts() {
		t.Run(fmt.Sprintf("%+v %+v", attempt.namespaces, attempt.user), func(t *testing.T) {
			s := open(t)
			got, err := s.tryWith(attempt)
			if err != nil {
				t.Logf("This machine does not allow the plan: %v", err)
				return
			}
			for _, id := range measureIDs {
				if why, tried := got[id]; tried && why == "" {
					attempt.required = append(attempt.required, id)
				}
			}
			s.trial = func() plan { return attempt }
			secret := filepath.Join(s.data, "site.key")
			require.NoError(t, os.WriteFile(secret, []byte("key"), 0o600))
			output, err := s.run(hostile, secret, "127.0.0.1:1", strconv.Itoa(os.Getpid()))
			require.NoError(t, err)
			var found findings
			require.NoError(t, json.Unmarshal([]byte(output), &found), output)
			require.Empty(t, found["own"]+found["own-path"]+found["shell"])
			if got[Landlock] == "" {
				require.NotEmpty(t, found["read"])
			}
		})
	}
}

func TestSandbox_script(t *testing.T) {
	s := open(t)
	script := filepath.Join(s.data, "program")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"$1\" && cat \"$0\"\n"), 0o755))
	output, err := s.runProgram(script, "hello")
	require.NoError(t, err)
	require.Contains(t, output, "hello\n#!/bin/sh\n")
	_, err = s.runProgram(filepath.Join(s.data, "missing"))
	require.ErrorContains(t, err, "no such file")
}

// TestSandbox_childEndsWithItsChildren ends a child that leaves a process behind.
func TestSandbox_childEndsWithItsChildren(t *testing.T) {
	s := open(t)
	own := strconv.Itoa(100_000 + os.Getpid()) // seconds, and a mark by which the test finds the process
	output, err := s.runProgram("/bin/sh", "-c", "sleep "+own+" > /dev/null 2>&1 & echo $!")
	require.NoError(t, err)
	if !s.active(Processes) {
		t.Log("The report says that other processes are not separated.")
		pid, err := strconv.Atoi(strings.TrimSpace(output))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		return
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range processes {
		text, err := os.ReadFile(path)
		if err == nil {
			require.NotEqual(t, "sleep\x00"+own+"\x00", string(text), path)
		}
	}
}

// TestSandbox_childEndsWithItsParent ends the thread that started a child.
func TestSandbox_childEndsWithItsParent(t *testing.T) {
	s := open(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	s.Measures()
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		cmd, err := s.Sandbox.Command(context.WithoutCancel(t.Context()), Command{Program: "/bin/sh",
			Args: []string{"-c", "while :; do sleep 1; done"}, Dir: s.dir})
		if err == nil {
			cmd.Stdout = write
			err = cmd.Start()
		}
		if err != nil {
			t.Error(err)
		}
		write.Close()
	}()
	_, err = read.Read(make([]byte, 1)) // ends when no process has the pipe any more
	require.Error(t, err)
}

func TestSandbox_limits(t *testing.T) {
	s := open(t)
	require.True(t, s.active(Limits), s.Measures())
	output, err := s.runProgram("/bin/sh", "-c", "ulimit -c; ulimit -f")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("0\n%d\n", maxFileBytes/512), output)
}

func TestSandbox_measuresAreLogged(t *testing.T) {
	s := open(t)
	measures := s.Measures()
	require.Len(t, measures, len(measureIDs))
	s.Measures()
	require.Equal(t, 1, strings.Count(s.log.String(), "sandbox of openshift-install"))
	for _, m := range measures {
		require.Equal(t, m.Active, m.Reason == "", m)
		require.NotEmpty(t, m.Explanation)
		require.Contains(t, s.log.String(), string(m.ID))
	}
}

func TestSandbox_measureThatStopsWorking(t *testing.T) {
	s := open(t)
	p := s.trial()
	p.namespaces, p.user, p.required = namespaces{}, owner{}, []MeasureID{OtherUser}
	s.trial = func() plan { return p }
	_, err := s.runProgram("/bin/true")
	require.ErrorContains(t, err, "the measure other-user does not work any more")
}

func TestNew_user(t *testing.T) {
	if os.Geteuid() != 0 {
		s, err := New(Options{User: "no such user"})
		require.NoError(t, err, "the user matters for root only")
		require.Equal(t, owner{}, s.user)
		return
	}
	for name, text := range map[string]string{"no-such-user": "does not exist", "root": "is root", "0": "is root"} {
		_, err := New(Options{User: name})
		require.ErrorContains(t, err, text)
	}
	s, err := New(Options{User: strconv.Itoa(nobody)})
	require.NoError(t, err)
	require.Equal(t, owner{nobody, nobody}, s.user)
}

func TestGive_changesNoOtherFiles(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "directory")))
	before, err := os.Stat(outside)
	require.NoError(t, err)
	err = give(dir, owner{nobody, nobody})
	if os.Geteuid() == 0 {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, fs.ErrPermission)
	}
	after, err := os.Stat(outside)
	require.NoError(t, err)
	require.Equal(t, before.Sys().(*syscall.Stat_t).Uid, after.Sys().(*syscall.Stat_t).Uid)
}

// TestNew_relativeDir has the trial's directory in a relative data directory, which is the default.
func TestNew_relativeDir(t *testing.T) {
	dir := t.TempDir()
	active := func(dir string) (ids []MeasureID) {
		s, err := New(Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		for _, m := range s.Measures() {
			if m.Active {
				ids = append(ids, m.ID)
			}
		}
		return ids
	}
	absolute := active(dir)
	t.Chdir(filepath.Dir(dir))
	require.Equal(t, absolute, active(filepath.Base(dir)))
}
