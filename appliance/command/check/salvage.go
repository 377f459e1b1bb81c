package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"landfall/appliance/integrity"
	"landfall/store"
	"landfall/store/wal"
)

// salvage copies what can be read of a data directory and repairs the copy. The report lists what
// is damaged in the original. After an error nothing is left of the copy.
func salvage(ctx context.Context, from, to string) (_ *integrity.Report, err error) {
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not an empty directory; name a new one, so that nothing is overwritten", to)
	}
	inside, err := filepath.Rel(absolute(from), absolute(to))
	if err == nil && filepath.IsLocal(inside) {
		return nil, fmt.Errorf("%s is inside %s; name a directory outside of it", to, from)
	}
	report, err := offline(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(to))
		}
	}()
	unread, err := copyReadable(ctx, os.DirFS(from), to)
	if err != nil {
		return nil, fmt.Errorf("copy the data directory: %w", err)
	}
	report.Problems = append(report.Problems, unread...)
	report.Whole = len(report.Problems) == 0
	return report, repair(ctx, to, true)
}

func absolute(path string) string {
	if found, err := filepath.Abs(path); err == nil {
		return found
	}
	return path
}

// copyReadable copies what can be read of a directory, and returns the rest. Sockets are left out.
func copyReadable(ctx context.Context, from fs.FS, to string) (unread []integrity.Problem, err error) {
	return unread, fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, failure error) (err error) {
		path, meaning := filepath.Join(to, filepath.FromSlash(name)), "the copy lacks it"
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case name == "." && failure != nil:
			return failure
		case failure != nil: // a directory, whose other entries follow
		case entry.IsDir():
			return os.MkdirAll(path, 0o700)
		case entry.Type() == fs.ModeSymlink:
			var target string
			if target, failure = fs.ReadLink(from, name); failure == nil {
				return os.Symlink(target, path)
			}
		case !entry.Type().IsRegular():
			return nil
		case isDatabase(name):
			meaning = "the copy has zeros in place of the bytes that can't be read"
			failure, err = copyFile(ctx, from, name, path)
		default:
			if failure, err = copyFile(ctx, from, name, path); err == nil && failure != nil {
				err = os.RemoveAll(path)
			}
		}
		if err == nil && failure != nil {
			unread = append(unread, integrity.Problem{
				Problem: store.Problem{Kind: store.ProblemFile, Where: name, Reason: failure.Error()},
				Meaning: meaning, Remedy: "restore it from a backup, or enter or import again what is missing"})
		}
		return err
	})
}

// isDatabase reports whether the store reads a file in blocks with checksums, which tell zeros from
// data.
func isDatabase(name string) bool {
	return name == store.FileName || slices.Contains(wal.FileNames[:], name)
}

// unreadBlock is the space that is left out after a read error, in bytes.
const unreadBlock = 4 << 10

// copyFile copies a file, and returns the first failure of a read as unread. In the database and
// logs, it leaves zeros in place of bytes that can't be read. The copy of another file ends there.
func copyFile(ctx context.Context, from fs.FS, name, path string) (unread, err error) {
	source, err := from.Open(name)
	if err != nil {
		return err, nil
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err, nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	content, part := source.(io.ReaderAt), make([]byte, 1<<20)
	for at := int64(0); at < info.Size() && (unread == nil || isDatabase(name)); {
		if err = ctx.Err(); err != nil {
			break
		}
		n, failure := content.ReadAt(part[:min(int64(len(part)), info.Size()-at)], at)
		if _, err = file.WriteAt(part[:n], at); err != nil {
			break
		}
		if at += int64(n); failure != nil {
			if unread == nil {
				unread = failure
			}
			at += unreadBlock - at%unreadBlock
		}
	}
	if err == nil {
		err = file.Truncate(info.Size())
	}
	return unread, errors.Join(err, file.Close())
}
