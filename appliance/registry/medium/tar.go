package medium

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Limits of an archive, against damaged and malicious ones. An archive of 30 GiB has about 13,000
// entries.
const (
	maxEntries = 2_000_000
	maxName    = 4096 // bytes
)

// listTar reads the headers of a plain tar archive. It does not read the contents, except for the
// last byte of each, by which package tar notices that the file ends early.
func listTar(ctx context.Context, location Location, open Opener) (*listing, error) {
	file, err := open(location.Path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	in := &window{from: file, size: info.Size()}
	l := &listing{files: []string{""}, close: func() { _ = file.Close() }, // it was only read
		readAt: func(_ int, p []byte, offset int64) error {
			_, err := file.ReadAt(p, offset)
			return err
		}}
	headers := sha256.New()
	for members := tar.NewReader(in); ; {
		if err := ctx.Err(); err != nil {
			l.close()
			return nil, err
		}
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(l.entries) >= maxEntries {
			err = fmt.Errorf("it has more than %d entries", maxEntries)
		}
		if err != nil {
			if in.failed != nil { // the medium, not the archive
				l.close()
				return nil, fmt.Errorf("read %s at byte %d: %w", location.Path, in.at, in.failed)
			}
			l.problems = append(l.problems, tarProblem(location, in, err, &l.entries))
			break
		}
		fmt.Fprintf(headers, "%s\n%s\n%d\n%d\n%c\n", header.Name, header.Linkname, header.Size, in.at, header.Typeflag)
		l.addTar(location, header, in.at)
	}
	l.identity = hex.EncodeToString(headers.Sum(nil))
	return l, nil
}

// tarProblem describes where an archive is damaged. It removes the last entry if its content is not
// complete.
func tarProblem(location Location, in *window, err error, entries *[]entry) Problem {
	if n := len(*entries); n > 0 {
		if last := (*entries)[n-1]; last.extent.Offset+last.extent.Size > in.size {
			*entries = slices.Clip((*entries)[:n-1])
			return Problem{Cut: true, Text: fmt.Sprintf("%s is cut off at byte %d, in %s, which needs %d bytes more. "+
				"Copy it again; the entries before it are served", path.Base(location.Path), in.size, last.name,
				last.extent.Offset+last.extent.Size-in.size)}
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return Problem{Cut: true, Text: fmt.Sprintf("%s is cut off at byte %d. Copy it again; the entries before it "+
			"are served", path.Base(location.Path), in.size)}
	}
	return Problem{Damaged: true, Text: fmt.Sprintf("%s is damaged near byte %d (%s). Copy it again; the entries "+
		"before it are served",
		path.Base(location.Path), in.at, strings.TrimPrefix(err.Error(), "archive/tar: "))}
}

func (l *listing) addTar(location Location, header *tar.Header, offset int64) {
	name := cleanName(header.Name)
	if len(name) > maxName {
		return
	}
	switch header.Typeflag {
	case tar.TypeReg:
		if sparse(header) {
			l.problems = append(l.problems, Problem{Text: fmt.Sprintf("%s has the sparse file %s, which can't be "+
				"served where it lies. Write the archive without sparse files", path.Base(location.Path), name)})
			return
		}
		l.entries = append(l.entries, entry{name: name, modified: header.ModTime,
			extent: Extent{Offset: offset, Size: header.Size}})
	case tar.TypeLink:
		l.entries = append(l.entries, entry{name: name, link: cleanName(header.Linkname), modified: header.ModTime})
	case tar.TypeSymlink:
		l.entries = append(l.entries, entry{name: name, modified: header.ModTime,
			link: cleanName(path.Join(path.Dir(name), header.Linkname))})
	}
}

func sparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// windowSize is how many bytes the scan reads at once where it continues. The links of an archive
// are contiguous, so one read covers many of them. After a jump over a blob, a jump follows, so it
// reads jumpSize bytes.
const (
	windowSize = 64 << 10
	jumpSize   = 4 << 10
)

// window reads a file from a buffer that follows the position. The reader of package tar otherwise
// makes three system calls for each entry.
type window struct {
	from   io.ReaderAt
	size   int64
	at     int64 // position
	buffer []byte
	start  int64 // of the buffer in the file
	failed error // of the file, except io.EOF
}

// Read implements io.Reader.
func (w *window) Read(p []byte) (int, error) {
	if w.at >= w.size {
		return 0, io.EOF
	}
	if w.at < w.start || w.at >= w.start+int64(len(w.buffer)) {
		size := jumpSize
		if w.at == w.start+int64(len(w.buffer)) {
			size = windowSize
		}
		if w.buffer == nil {
			w.buffer = make([]byte, windowSize)
		}
		n, err := w.from.ReadAt(w.buffer[:size], w.at)
		if n == 0 {
			w.buffer = w.buffer[:0]
			if !errors.Is(err, io.EOF) {
				w.failed = err
			}
			return 0, err
		}
		w.buffer, w.start = w.buffer[:n], w.at
	}
	n := copy(p, w.buffer[w.at-w.start:])
	w.at += int64(n)
	return n, nil
}

// Seek implements io.Seeker.
func (w *window) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		w.at = offset
	case io.SeekCurrent:
		w.at += offset
	case io.SeekEnd:
		w.at = w.size + offset
	}
	if w.at < 0 {
		return 0, errors.New("the position is before the start of the file")
	}
	return w.at, nil
}
