package release

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// outputLimit limits the size in bytes of each file that is read from a run of openshift-install.
// Real ignition configs have a few MiB.
const outputLimit = 64 << 20

// workDir is the directory of a run. A hostile openshift-install can leave anything there, so all
// accesses stay in the directory, and only regular files are read.
type workDir struct {
	path string
	root *os.Root
}

func newWorkDir(parent string) (*workDir, error) {
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &workDir{dir, root}, nil
}

// remove removes the directory.
func (w *workDir) remove() error { return errors.Join(w.root.Close(), os.RemoveAll(w.path)) }

func (w *workDir) read(name string) ([]byte, error) {
	// Without O_NONBLOCK, opening a named pipe would wait for a writer.
	file, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, outputLimit+1))
	if err == nil && len(data) > outputLimit {
		err = fmt.Errorf("%s is larger than %d MiB", name, outputLimit>>20)
	}
	return data, err
}

// write replaces a file. It does not write into an existing file, which could have other names.
func (w *workDir) write(name string, data []byte) error {
	if err := w.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if err := w.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// names lists the files of a directory, sorted.
func (w *workDir) names(directory string) ([]string, error) {
	entries, err := fs.ReadDir(w.root.FS(), directory)
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, err
}
