// Package durable writes files that are complete after a crash of the program or the machine.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces a file. After a crash, the file has either its former content or the new one.
func WriteFile(path string, content []byte, mode fs.FileMode) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if rest := os.Remove(file.Name()); !errors.Is(rest, fs.ErrNotExist) {
				err = errors.Join(err, rest)
			}
		}
	}()
	if _, err = file.Write(content); err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes new, renamed and removed names in a directory durable.
func SyncDir(dir string) error {
	directory, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
