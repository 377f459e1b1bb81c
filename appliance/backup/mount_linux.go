package backup

import "golang.org/x/sys/unix"

// isMountRoot asks the kernel whether a directory is the root of a mount. known is false for
// kernels before 5.8.
func isMountRoot(dir string) (root, known bool) {
	var info unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, 0, 0, &info)
	return info.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0,
		err == nil && info.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
}
