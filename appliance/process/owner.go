package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// BecomeOwner makes a process of root one of the owner of a directory, for a command that changes
// the data of a program that runs as this user. The program could not open files that root has
// made. The process keeps the groups of the given files, because the program may have its right to
// read them by a group that its service names. A process of another user stays as it is.
func BecomeOwner(dir string, files ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	owner, err := statOf(dir)
	if err != nil {
		return fmt.Errorf("find the owner of the data directory: %w", err)
	}
	if owner.Uid == 0 {
		return nil
	}
	groups := groupsOf(owner.Uid)
	for _, path := range files {
		if file, err := statOf(path); err == nil && file.Gid != 0 {
			groups = append(groups, int(file.Gid))
		}
	}
	if err = syscall.Setgroups(groups); err == nil {
		err = syscall.Setgid(int(owner.Gid))
	}
	if err == nil {
		err = syscall.Setuid(int(owner.Uid))
	}
	if err != nil {
		return fmt.Errorf("the data directory %s belongs to user %d, and this process can't become that user (%w); "+
			"run the command as user %[2]d", dir, owner.Uid, err)
	}
	return nil
}

// GiveToOwner gives files, and directories with all that is in them, to the owner of a directory,
// if the process is one of root: the program that runs as the owner must be able to read and change
// them. They stay as they are where root can't give them, as on a file system of another machine or
// in a container that does not know the owner.
//
// The owner can replace files in the directory by symbolic links meanwhile. So that root gives away
// nothing else, links that lead out of the directory are errors.
func GiveToOwner(dir string, paths ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	for _, path := range paths {
		err := give(root, path, info.Sys().(*syscall.Stat_t))
		if err != nil && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("give files to the owner of the data directory: %w", err)
		}
	}
	return nil
}

// give gives a file, or a directory with all that is in it, to an owner. It lies in the root, or
// beside it.
func give(root *os.Root, path string, owner *syscall.Stat_t) error {
	name, err := filepath.Rel(root.Name(), path)
	if err != nil || !filepath.IsLocal(name) {
		beside, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return err
		}
		defer beside.Close()
		root, name = beside, filepath.Base(path)
	}
	return fs.WalkDir(root.FS(), name, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(name, int(owner.Uid), int(owner.Gid))
	})
}

func statOf(path string) (*syscall.Stat_t, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return info.Sys().(*syscall.Stat_t), nil
}

// groupsOf returns the groups of a user. A user of a container may not be in its list of users.
func groupsOf(uid uint32) (groups []int) {
	known, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil
	}
	ids, err := known.GroupIds()
	if err != nil {
		return nil
	}
	for _, id := range ids {
		if number, err := strconv.Atoi(id); err == nil {
			groups = append(groups, number)
		}
	}
	return groups
}
