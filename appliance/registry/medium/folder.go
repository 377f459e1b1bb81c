package medium

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// FolderIdentity returns the identity of the index that a scan of a folder would have. It does not
// read the files.
func FolderIdentity(ctx context.Context, at string, progress func()) (string, error) {
	listed, err := listFolder(ctx, Location{Path: at, Container: Folder}, progress)
	if err != nil {
		return "", err
	}
	listed.close()
	return listed.identity, nil
}

// listFolder lists a folder. Files are opened below the folder only: a symbolic link on a stick
// must not lead to a file of this machine.
func listFolder(ctx context.Context, location Location, progress func()) (*listing, error) {
	root, err := os.OpenRoot(location.Path)
	if err != nil {
		return nil, err
	}
	l := &listing{close: func() { _ = root.Close() }} // it was only read
	l.readAt = func(file int, p []byte, offset int64) error {
		defer progress()
		opened, err := root.Open(l.files[file])
		if err != nil {
			return err
		}
		_, err = io.ReadFull(io.NewSectionReader(opened, offset, int64(len(p))), p)
		return errors.Join(err, opened.Close())
	}
	headers := sha256.New()
	err = fs.WalkDir(root.FS(), ".", func(name string, item fs.DirEntry, err error) error {
		progress()
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case errors.Is(err, fs.ErrPermission):
			l.problems = append(l.problems, Problem{Text: fmt.Sprintf("%s can't be read: permission denied. Give the "+
				"user of the appliance the right to read it", path.Join(path.Base(location.Path), name))})
			return fs.SkipDir
		case err != nil:
			return err
		case item.IsDir():
			if name == "." {
				return nil
			}
			if item.Name() == "_uploads" || item.Name() == "lost+found" {
				return fs.SkipDir
			}
			return nil
		case len(l.entries) >= maxEntries:
			return fmt.Errorf("the folder has more than %d files", maxEntries)
		case item.Type()&fs.ModeSymlink != 0:
			target, err := root.Readlink(name)
			if err != nil || path.IsAbs(target) {
				return nil
			}
			l.entries = append(l.entries, entry{name: name, link: cleanName(path.Join(path.Dir(name), target))})
			return nil
		case !item.Type().IsRegular():
			return nil
		}
		info, err := item.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since the folder was read
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(headers, "%s\n%d\n%d\n", name, info.Size(), info.ModTime().UnixNano())
		l.entries = append(l.entries, entry{name: name, modified: info.ModTime(),
			extent: Extent{File: len(l.files), Size: info.Size()}})
		l.files = append(l.files, name)
		return nil
	})
	if err != nil {
		l.close()
		return nil, fmt.Errorf("read the folder %s: %w", location.Path, err)
	}
	l.identity = hex.EncodeToString(headers.Sum(nil))
	return l, nil
}
