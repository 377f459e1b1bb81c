package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbiddenCalls are system calls that a generator of files never needs, and that changed or
// inspected other processes, the kernel or the machine in past attacks.
func forbiddenCalls() []uint32 {
	return []uint32{
		unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_ADJTIMEX, unix.SYS_BPF, unix.SYS_CHROOT, unix.SYS_CLOCK_ADJTIME,
		unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
		unix.SYS_FSOPEN, unix.SYS_FSPICK, unix.SYS_INIT_MODULE, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_IO_URING_SETUP, unix.SYS_KCMP, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD, unix.SYS_KEYCTL,
		unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_OPEN_TREE,
		unix.SYS_PERF_EVENT_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIVOT_ROOT, unix.SYS_PROCESS_MADVISE,
		unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PTRACE, unix.SYS_QUOTACTL, unix.SYS_REBOOT,
		unix.SYS_REQUEST_KEY, unix.SYS_SETDOMAINNAME, unix.SYS_SETHOSTNAME, unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY,
		unix.SYS_SWAPOFF, unix.SYS_SWAPON, unix.SYS_SYSLOG, unix.SYS_UMOUNT2, unix.SYS_UNSHARE, unix.SYS_USERFAULTFD,
	}
}

// Offsets in struct seccomp_data (linux/seccomp.h) of little-endian machines.
const (
	offsetCall     = 0
	offsetArch     = 4
	offsetArgument = 16
)

// x32 marks system calls of the x32 ABI, whose other numbers would circumvent the filter.
const x32 = 0x40000000

func auditArch() (uint32, error) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, nil
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, nil
	}
	return 0, errors.New("the filter of system calls is only for x86_64 and aarch64")
}

// filterCalls forbids system calls for this thread and the program that it executes.
func filterCalls(network bool) error {
	arch, err := auditArch()
	if err != nil {
		return err
	}
	filter := callFilter(arch, network)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0,
		0); err != nil {
		return fmt.Errorf("install the filter of system calls: %w", err)
	}
	runtime.KeepAlive(filter)
	return nil
}

// callFilter returns the filter as a program for the kernel (seccomp(2)).
func callFilter(arch uint32, network bool) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	// unless skips instructions if the comparison of the loaded value fails.
	unless := func(comparison uint16, value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | comparison, K: value, Jf: skip}
	}
	result := func(value uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value} }
	fail := func(errno unix.Errno) unix.SockFilter { return result(unix.SECCOMP_RET_ERRNO | uint32(errno)) }
	allow := result(unix.SECCOMP_RET_ALLOW)

	filter := []unix.SockFilter{
		load(offsetArch), {Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: arch, Jt: 1},
		result(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetCall),
		unless(unix.BPF_JGE, x32, 1), fail(unix.ENOSYS),
	}
	for _, call := range forbiddenCalls() {
		filter = append(filter, unless(unix.BPF_JEQ, call, 1), fail(unix.EPERM))
	}
	// Programs use clone instead of clone3, whose arguments a filter cannot see.
	filter = append(filter, unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), fail(unix.ENOSYS),
		unless(unix.BPF_JEQ, unix.SYS_CLONE, 4), load(offsetArgument),
		unless(unix.BPF_JSET, unix.CLONE_NEWUSER|unix.CLONE_NEWNS, 1), fail(unix.EPERM), allow)
	if !network {
		// Netlink sockets list the network devices; some programs do this at their start.
		filter = append(filter, unless(unix.BPF_JEQ, unix.SYS_SOCKET, 4), load(offsetArgument),
			unless(unix.BPF_JEQ, unix.AF_NETLINK, 1), allow, fail(unix.EACCES))
	}
	return append(filter, allow)
}
