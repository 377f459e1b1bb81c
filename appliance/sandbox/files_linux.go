package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// enterFiles makes a file system that contains only the system's programs, the child's program and
// its directory, each under its own path, and enters it. The process must be alone in a mount
// namespace.
func enterFiles(r *request) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	// The new root covers the child's directory, which stays accessible by its descriptor.
	dir, err := unix.Open(r.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	defer unix.Close(dir)
	root := r.Dir
	program := -1
	if r.Program != "" {
		if program, err = unix.Open(r.Program, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open the program: %w", err)
		}
		defer unix.Close(program)
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=755"); err != nil {
		return fmt.Errorf("mount a new root: %w", err)
	}
	for _, path := range systemPaths() {
		if err := mirror(root, path, readOnly|unix.MS_REC); err != nil {
			return err
		}
	}
	for _, path := range devices() {
		if err := mirror(root, path, 0); err != nil {
			return err
		}
	}
	if program >= 0 {
		source := fmt.Sprintf("/proc/self/fd/%d", program)
		if err := bind(source, filepath.Join(root, r.Program), false, readOnly); err != nil {
			return err
		}
	}
	if err := bind(fmt.Sprintf("/proc/self/fd/%d", dir), filepath.Join(root, r.Dir), true, 0); err != nil {
		return err
	}
	for _, empty := range []string{"proc", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, empty), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := unix.Mount("proc", filepath.Join(root, "proc"), "proc",
		unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// pivot_root(".", ".") puts the old root on top of the new one (pivot_root(2)).
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		""); err != nil {
		return fmt.Errorf("protect the new root: %w", err)
	}
	return os.Chdir(r.Dir)
}

// mirror binds a path of the system below the new root, or copies a symbolic link. It skips missing
// paths.
func mirror(root, path string, flags uintptr) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	target := filepath.Join(root, path)
	if info.Mode()&fs.ModeSymlink == 0 {
		return bind(path, target, info.IsDir(), flags)
	}
	link, err := os.Readlink(path)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.Symlink(link, target))
}

// readOnly is the flag of [bind] for files that the child must not change.
const readOnly = unix.MS_RDONLY

// bind makes a file or directory accessible at another path. With MS_REC, it includes what is
// mounted below the source.
func bind(source, target string, directory bool, flags uintptr) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	var err error
	if directory {
		err = os.MkdirAll(target, 0o755)
	} else if _, err = os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|flags&unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", source, err)
	}
	if flags&readOnly == 0 {
		return nil
	}
	err = unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
	if err != nil && !errors.Is(err, unix.ENOSYS) { // before Linux 5.12; other rules protect the files there
		return fmt.Errorf("protect %s: %w", source, err)
	}
	return nil
}
