// Package ownertest gives files to other users, in tests of what root writes for them.
package ownertest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nobody is a user who owns nothing else.
const nobody = 65534

// Give gives a file, or a directory with all that is in it, to another user, and returns that user.
// Without the rights of root, this is the user of the test.
func Give(t testing.TB, path string) (owner int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	each(t, path, func(name string) error { return os.Lchown(name, nobody, nobody) })
	return nobody
}

// Require requires that a file, or a directory with all that is in it, belongs to a user.
func Require(t testing.TB, path string, owner int) {
	t.Helper()
	each(t, path, func(name string) error {
		info, err := os.Lstat(name)
		if err == nil {
			require.EqualValues(t, owner, info.Sys().(*syscall.Stat_t).Uid, name)
		}
		return err
	})
}

func each(t testing.TB, path string, do func(name string) error) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, do(name))
	}))
}
