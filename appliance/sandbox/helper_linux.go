package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlockcall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// helperName is the name under which a program starts itself as the helper.
const helperName = "landfall-sandbox"

// Limits of a child.
const (
	maxFileBytes  = 1 << 30
	maxDataBytes  = 8 << 30
	maxCPUSeconds = 3600
)

// init becomes the helper if the process was started as such. It is not a function that main calls,
// because each program that contains this package must be able to be the helper, also a test.
func init() {
	if len(os.Args) > 1 && os.Args[0] == helperName {
		if err := help(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "level=fatal msg=\"start the sandbox: "+err.Error()+"\"")
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
}

// help gives up the rights of this process and then executes the program. In a trial it writes a
// report instead.
func help(text string, args []string) error {
	// Only the thread that executes the program matters: it becomes the program.
	runtime.LockOSThread()
	var r request
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	got, err := r.restrict()
	if err != nil {
		return err
	}
	if r.Program == "" {
		text, err := json.Marshal(got)
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(text)
		return err
	}
	for _, id := range r.Required {
		if why := got[id]; why != "" {
			return fmt.Errorf("the measure %s does not work any more: %s", id, why)
		}
	}
	return syscall.Exec(r.Program, append([]string{r.Program}, args...), os.Environ())
}

// restrict applies all measures. A failure to set up the namespaces is an error; other measures
// that fail are in the report.
func (r *request) restrict() (report, error) {
	got := report{}
	if r.Spaces.Own {
		got[Processes] = ""
		if !r.Network {
			got[NoNetwork] = ""
		}
	}
	if r.Network {
		got[NoNetwork] = "the configuration permits the network (installer.network)"
	}
	program := -1 // its descriptor, which stays open in the child, or -1
	if r.Spaces.Files {
		if err := enterFiles(r); err != nil {
			return nil, fmt.Errorf("make a file system: %w", err)
		}
		got[Files] = ""
	} else if r.User != (owner{}) && r.Program != "" {
		// The other user cannot reach the program by its path.
		var err error
		if program, err = unix.Open(r.Program, unix.O_RDONLY, 0); err != nil {
			return nil, fmt.Errorf("open the program: %w", err)
		}
		r.Program = fmt.Sprintf("/proc/self/fd/%d", program)
	}
	rules := accessRules(r)
	got[Limits] = reason(setLimits())
	got[Privileges] = reason(r.dropPrivileges())
	got[OtherUser] = r.changeUser()
	if got[OtherUser] != "" && r.User != (owner{}) {
		return nil, errors.New(got[OtherUser])
	}
	if err := closeDescriptors(program); err != nil {
		return nil, err
	}
	got[Landlock] = restrictFiles(rules, r.Network)
	got[Calls] = reason(filterCalls(r.Network)) // the last, because it forbids the calls above
	return got, nil
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func setLimits() error {
	return errors.Join(limit("core files", unix.RLIMIT_CORE, 0), limit("file size", unix.RLIMIT_FSIZE, maxFileBytes),
		limit("memory", unix.RLIMIT_DATA, maxDataBytes), limit("CPU time", unix.RLIMIT_CPU, maxCPUSeconds))
}

// limit sets a limit, or a smaller one that applies already.
func limit(what string, resource int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return fmt.Errorf("read the limit of %s: %w", what, err)
	}
	value = min(value, now.Max)
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
		return fmt.Errorf("set the limit of %s: %w", what, err)
	}
	return nil
}

// dropPrivileges removes the capabilities that a program would have after its start. Those of this
// process remain until then, because changeUser needs them.
func (r *request) dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil &&
		!errors.Is(err, unix.EINVAL) { // before Linux 4.3
		return fmt.Errorf("remove the ambient capabilities: %w", err)
	}
	if os.Geteuid() != 0 { // in a user namespace, the user is root too
		return nil
	}
	for capability := uintptr(0); ; capability++ {
		held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // there is no such capability
		}
		if err == nil && held == 1 {
			err = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		}
		if err != nil {
			return fmt.Errorf("remove the capability %d: %w", capability, err)
		}
	}
}

// changeUser changes the user and returns "", or why the user stays the same.
func (r *request) changeUser() string {
	if r.User == (owner{}) {
		return "the appliance does not run as root, or may not change the user"
	}
	uid, gid := r.User.UID, r.User.GID
	if err := errors.Join(syscall.Setgroups([]int{gid}), syscall.Setresgid(gid, gid, gid),
		syscall.Setresuid(uid, uid, uid)); err != nil {
		return "change the user: " + err.Error()
	}
	// The change of the user cleared the signal.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return "bind the child to its parent: " + err.Error()
	}
	return ""
}

// systemPaths are the files of the system that programs need: libraries, interpreters, time zones
// and certificates.
func systemPaths() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/group",
		"/etc/hosts", "/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd",
		"/etc/pki", "/etc/ssl"}
}

func devices() []string {
	return []string{"/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"}
}

func accessRules(r *request) []landlock.Rule {
	var rules []landlock.Rule
	for _, path := range systemPaths() {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			rules = append(rules, landlock.RODirs(path).IgnoreIfMissing())
		} else if err == nil {
			rules = append(rules, landlock.ROFiles(path).IgnoreIfMissing())
		}
	}
	// The stand-in for openshift-install in simulated releases is this program.
	own := []string{"/proc/self/exe"}
	if r.Program != "" {
		own = append(own, r.Program)
	}
	directory := landlock.RWDirs(".")
	if version, err := landlockcall.LandlockGetABIVersion(); err == nil && version > 1 {
		directory = directory.WithRefer() // to move files between its subdirectories
	}
	return append(rules, directory, landlock.ROFiles(own...), landlock.RWFiles(devices()...).IgnoreIfMissing())
}

// restrictFiles applies Landlock's rules. It returns "", or why they do not apply.
func restrictFiles(rules []landlock.Rule, network bool) string {
	if version, err := landlockcall.LandlockGetABIVersion(); err != nil || version < 1 {
		return "the kernel has no Landlock"
	}
	config := landlock.V11.BestEffort()
	if network {
		return reason(config.RestrictPaths(rules...))
	}
	return reason(config.Restrict(rules...))
}

// closeDescriptors lets the program inherit only the standard descriptors and one more.
func closeDescriptors(keep int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the open files: %w", err)
	}
	for _, entry := range entries {
		var fd int
		if _, err := fmt.Sscanf(entry.Name(), "%d", &fd); err != nil || slices.Contains([]int{0, 1, 2, keep}, fd) {
			continue
		}
		// The descriptor of the directory itself is closed by now.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil &&
			!errors.Is(err, unix.EBADF) {
			return fmt.Errorf("close the file %d: %w", fd, err)
		}
	}
	return nil
}
