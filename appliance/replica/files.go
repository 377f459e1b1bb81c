package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"landfall/appliance/backup"
	"landfall/appliance/keyring"
)

const (
	// inlineLimit is the largest content of a file that is a part of a frame, in bytes.
	inlineLimit = 64 << 10
	// memoryLimit is the largest content that is held in memory while it is hashed, in bytes.
	memoryLimit = 4 << 20
	// growing is the beginning of the names of files that are only appended to, except that the
	// rest of a failed write is cut off.
	growing = "audit/"
	// tailSize is the size of the end of a growing file that shows whether it was only appended to.
	tailSize = 64 << 10
	// spoolPattern is the pattern of the names of temporary files in the data directory.
	spoolPattern = ".replica-*"
)

// known is what was seen of a file.
type known struct {
	size     int64
	modified time.Time
	tail     [sha256.Size]byte // SHA-256 of the last bytes up to size; of a growing file only
}

// tail keeps the last bytes that are written to it.
type tail []byte

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = slices.Delete(*t, 0, max(0, len(*t)-tailSize))
	return len(p), nil
}

// readTail returns the last bytes up to a size.
func readTail(file io.ReaderAt, size int64) (tail, error) {
	return io.ReadAll(io.NewSectionReader(file, max(0, size-tailSize), min(size, tailSize)))
}

// files finds the changes of the files beside the store.
type files struct {
	source  *backup.Source
	withKey bool
	known   map[string]known // by name
}

// newFiles remembers the present files. A snapshot that is taken afterwards has at least these
// states of them.
func newFiles(source *backup.Source, withKey bool) (*files, error) {
	f := &files{source: source, withKey: withKey}
	var err error
	if f.known, err = f.look(); err != nil {
		return nil, err
	}
	for name, seen := range f.known {
		if strings.HasPrefix(name, growing) {
			if seen.tail, err = f.sumOfTail(name, seen.size); err != nil {
				return nil, err
			}
			f.known[name] = seen
		}
	}
	return f, nil
}

func (f *files) open(name string) (*os.File, error) {
	return os.Open(filepath.Join(f.source.Dir, filepath.FromSlash(name)))
}

func (f *files) sumOfTail(name string, size int64) (sum [sha256.Size]byte, err error) {
	file, err := f.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return sum, nil // the next call of changes notices the removal
	}
	if err != nil {
		return sum, err
	}
	end, err := readTail(file, size)
	return sha256.Sum256(end), errors.Join(err, file.Close())
}

// look returns the present files.
func (f *files) look() (map[string]known, error) {
	names, err := f.source.FileNames()
	if err != nil {
		return nil, err
	}
	seen := map[string]known{}
	for _, name := range append(names, keyring.FileName) {
		info, err := os.Stat(filepath.Join(f.source.Dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		seen[name] = known{size: info.Size(), modified: info.ModTime()}
	}
	return seen, nil
}

// changes returns what has changed since the last call. put stores a large content.
func (f *files) changes(put func(io.Reader) (sum string, err error)) ([]fileChange, error) {
	seen, err := f.look()
	if err != nil {
		return nil, err
	}
	var all []fileChange
	for _, name := range slices.Sorted(maps.Keys(f.known)) {
		if _, ok := seen[name]; !ok {
			all = append(all, fileChange{Name: name, Removed: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		before, ok := f.known[name]
		now := seen[name]
		if ok && before.size == now.size && before.modified.Equal(now.modified) {
			seen[name] = before
			continue
		}
		changed, err := f.change(name, before, &now, put)
		if errors.Is(err, fs.ErrNotExist) {
			delete(seen, name) // the next call notices the removal
			continue
		}
		if err != nil {
			return nil, err
		}
		seen[name] = now
		all = append(all, changed...)
	}
	f.known = seen
	return all, nil
}

// change returns the change of a file, or of the keys. It sets the tail in now.
func (f *files) change(name string, before known, now *known, put func(io.Reader) (string, error)) (_ []fileChange,
	err error) {
	if name == keyring.FileName {
		keys, err := f.source.Keys(f.withKey)
		if err != nil {
			return nil, err
		}
		var all []fileChange
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			all = append(all, fileChange{Name: key, inline: keys[key]})
		}
		return all, nil
	}
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	change := fileChange{Name: name}
	grows := strings.HasPrefix(name, growing)
	var end tail
	if grows && now.size > before.size {
		shipped, err := readTail(file, before.size)
		if err != nil {
			return nil, err
		}
		if sha256.Sum256(shipped) == before.tail {
			change.Offset, end = before.size, shipped
		}
	}
	rest := io.NewSectionReader(file, change.Offset, now.size-change.Offset)
	content := io.Reader(rest)
	if grows {
		content = io.TeeReader(rest, &end)
	}
	if rest.Size() > inlineLimit {
		change.Object, err = put(content)
	} else {
		change.inline, err = io.ReadAll(content)
	}
	now.tail = sha256.Sum256(end)
	return []fileChange{change}, err
}

// objects stores contents in a session under their SHA-256.
type objects struct {
	session    Session
	recipients []age.Recipient
	dir        string            // for temporary files
	added      func(bytes int64) // called with the size of each new content
}

// put stores a content, unless the replica has it.
func (o *objects) put(ctx context.Context, content io.Reader) (sum string, err error) {
	hash := sha256.New()
	content = io.TeeReader(content, hash)
	beginning, err := io.ReadAll(io.LimitReader(content, memoryLimit))
	if err != nil {
		return "", err
	}
	var whole io.ReadSeeker = bytes.NewReader(beginning)
	if len(beginning) == memoryLimit {
		spool, err := os.CreateTemp(o.dir, spoolPattern)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
		if _, err := io.Copy(spool, io.MultiReader(bytes.NewReader(beginning), content)); err != nil {
			return "", err
		}
		whole = spool
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	if has, err := o.session.Has(ctx, sum); err != nil || has {
		return sum, err
	}
	size, err := whole.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = whole.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", err
	}
	if len(o.recipients) == 0 {
		err = o.session.Put(ctx, sum, whole)
	} else {
		_, err = backup.Pipe(func(to *io.PipeWriter) error { return backup.Encrypt(to, whole, o.recipients...) },
			func(encrypted io.Reader) (string, error) { return "", o.session.Put(ctx, sum, encrypted) })
	}
	if err != nil {
		return "", err
	}
	o.added(size)
	return sum, nil
}
