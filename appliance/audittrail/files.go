package audittrail

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"landfall/appliance/durable"
	"landfall/appliance/sitekey"
)

const (
	suffix = ".jsonl"
	// nameDigits pads the number in a file's name, so that names sort like numbers.
	nameDigits = 20
	// fileShare is the share of one file in the space of the trail. Files are removed as a whole.
	fileShare = 16
	// minFile and maxFile are the smallest and the largest size at which a new file begins. A
	// backup copies each file as a whole. blockSize is the space of a small file.
	minFile   = 64 << 10
	maxFile   = 32 << 20
	blockSize = 4 << 10
	maxLine   = 1 << 20 // bytes; records are much shorter
)

// file is an open file of the trail. Tests replace it to simulate faults of disks.
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

func createFile(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// source is a file of the trail with the length of its records.
type source struct {
	path string
	size int64
	// whole is the length of a file whose last signed record can't be read. A list has the records
	// that can be read; for all else, the file has none.
	whole int64
}

// damagedSource returns the source of a file whose last signed record can't be read.
func damagedSource(path string) (source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return source{}, err
	}
	return source{path: path, whole: info.Size()}, nil
}

// segments writes the files of a trail. Each start of the appliance, and each write above a size,
// begins a new file, named by the number of its first record. Older files are never changed, only
// removed.
type segments struct {
	dir    string
	bytes  int64
	key    *sitekey.Key
	create func(path string) (file, error) // nil: createFile

	head Head // of the durable records
	open file // nil: none
	source
	torn bool // the file may contain bytes after size, from a failed write
}

// write appends records and syncs them. After an error, none of them counts as written.
func (s *segments) write(group []*entry) error {
	if s.open != nil && s.size < s.fileSize() {
		return s.append(group)
	}
	return s.begin(group)
}

// fileSize returns the size at which a new file begins.
func (s *segments) fileSize() int64 { return min(max(s.bytes/fileShare, minFile), maxFile) }

// begin writes records to a new file. The file begins with the public key, and with the removal of
// the oldest files if the space is used up.
func (s *segments) begin(group []*entry) (err error) {
	first := []*entry{}
	if group[0].record.Kind == Opened {
		first, group = group[:1], group[1:]
	} else {
		public := s.key.Public()
		first = append(first, &entry{record: Record{Kind: Continued, Time: group[0].record.Time, Key: &public}})
	}
	surplus, last, err := s.surplus()
	if err != nil {
		return err
	}
	if len(surplus) > 0 && last != (Head{}) {
		first = append(first, &entry{record: Record{
			Kind: Removed, Time: first[0].record.Time, Through: last.Sequence, Hash: last.Hash}})
	}
	previous := *s
	s.path = filepath.Join(s.dir, fmt.Sprintf("%0*d%s", nameDigits, s.head.Sequence+1, suffix))
	create := s.create
	if create == nil {
		create = createFile
	}
	if s.open, err = create(s.path); err != nil {
		*s = previous
		return err
	}
	s.size, s.torn = 0, false
	if err = s.append(slices.Concat(first, group)); err == nil {
		err = durable.SyncDir(s.dir)
	}
	if err != nil {
		err = errors.Join(err, s.open.Close(), os.Remove(s.path))
		*s = previous
		return err
	}
	// The records are durable. If an old file cannot be removed now, the next new file removes it.
	if previous.open != nil {
		_ = previous.open.Close()
	}
	for _, path := range surplus {
		_ = os.Remove(path)
	}
	return nil
}

// append writes records to the open file.
func (s *segments) append(group []*entry) error {
	if s.torn {
		if err := s.open.Truncate(s.size); err != nil {
			return err
		}
		s.torn = false
	}
	var text bytes.Buffer
	head := s.head
	for i, one := range group {
		record := &one.record
		record.Sequence, record.Previous = head.Sequence+1, cmp.Or(head.Hash, noHash)
		line, err := encode(record)
		if err == nil && i == len(group)-1 {
			line, err = sign(s.key, recordPurpose, line)
		}
		if err != nil {
			return err
		}
		head = Head{record.Sequence, hashOf(line)}
		text.Write(line)
		text.WriteByte('\n')
	}
	length := int64(text.Len())
	_, err := s.open.Write(text.Bytes())
	if err == nil {
		err = s.open.Sync()
	}
	if err != nil {
		s.torn = true
		return err
	}
	s.size += length
	s.head = head
	return nil
}

func (s *segments) close() error {
	if s.open == nil {
		return nil
	}
	return s.open.Close()
}

// surplus returns the oldest files that do not fit into the space beside a new file, and the head
// of the last of them.
func (s *segments) surplus() (paths []string, last Head, err error) {
	all, err := segmentPaths(s.dir)
	if err != nil {
		return nil, Head{}, err
	}
	sizes, total := make([]int64, len(all)), s.fileSize()
	for i, path := range all {
		info, err := os.Stat(path)
		if err != nil {
			return nil, Head{}, err
		}
		sizes[i] = max(info.Size(), blockSize)
		total += sizes[i]
	}
	for i := 0; i < len(all)-1 && total > s.bytes; i++ {
		paths = append(paths, all[i])
		total -= sizes[i]
	}
	for i := len(paths) - 1; i >= 0 && last == (Head{}); i-- {
		last, _, err = lastSigned(paths[i])
		switch {
		case damages(err): // the file is removed, and must not stop the trail before
			return paths, before(all[len(paths)]), nil
		case err != nil: // it may pass; a removal now would lack its record
			return nil, Head{}, err
		}
	}
	return paths, last, nil
}

// before returns the head before the first record of a file, or the zero value if that can't be
// read. Then the removal of the older files is not recorded, and a verification finds them missing.
func before(path string) (head Head) {
	_ = eachLine(source{path: path, size: maxLine}, func(line []byte) error {
		var first Record
		if json.Unmarshal(line, &first) == nil && first.Sequence == firstOf(path) {
			head = Head{first.Sequence - 1, first.Previous}
		}
		return errStop
	})
	return head
}

// newest returns the head of the records in the files of a directory, and the file that ends with
// it. Both are zero if there are no records.
func newest(dir string) (Head, source, error) {
	head, found, unread, err := newestReadable(dir)
	if err == nil && unread != nil {
		err = unread
	}
	return head, found, err
}

// unreadError reports that a file of the trail is damaged.
type unreadError struct {
	path string
	err  error
}

// Error implements error.
func (e *unreadError) Error() string {
	return fmt.Sprintf("the file %s can't be read: %v", e.path, e.err)
}

// Unwrap returns the cause.
func (e *unreadError) Unwrap() error { return e.err }

// damages reports whether the error of a read remains until someone replaces the medium or the
// file.
func damages(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG) || errors.Is(err, bufio.ErrTooLong)
}

// newestReadable does the same as newest, but looks into an older file if one is damaged. unread
// then names the newest damaged file.
func newestReadable(dir string) (_ Head, _ source, unread *unreadError, err error) {
	all, err := segmentPaths(dir)
	if err != nil {
		return Head{}, source{}, nil, err
	}
	for _, path := range slices.Backward(all) {
		head, size, err := lastSigned(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a file that could not be begun was removed
		case damages(err):
			unread = cmp.Or(unread, &unreadError{path, err})
		case err != nil:
			return Head{}, source{}, nil, err
		case size > 0:
			return head, source{path: path, size: size}, unread, nil
		}
	}
	return Head{}, source{}, unread, nil
}

// hashAt returns the hash of the record with a number, or "" if the files lack it. It reports
// whether the record was removed because of its age.
func (s *segments) hashAt(sequence uint64) (hash string, removed bool, err error) {
	all, err := segmentPaths(s.dir)
	if err != nil {
		return "", false, err
	}
	for _, path := range slices.Backward(all) {
		if firstOf(path) > sequence {
			continue
		}
		_, size, err := lastSigned(path)
		if err == nil {
			err = eachLine(source{path: path, size: size}, func(line []byte) error {
				if sequenceOf(line) == sequence {
					hash = hashOf(line)
					return errStop
				}
				return nil
			})
		}
		if damages(err) {
			err = &unreadError{path, err}
		}
		return hash, false, err
	}
	return "", true, nil
}

// segmentPaths returns the paths of a trail's files, the oldest first.
func segmentPaths(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, found := range entries {
		if path := filepath.Join(dir, found.Name()); firstOf(path) > 0 {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// firstOf returns the number of the first record of a file, from its name, or 0 for another file.
func firstOf(path string) uint64 {
	digits, ok := strings.CutSuffix(filepath.Base(path), suffix)
	if !ok || len(digits) != nameDigits {
		return 0
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// sequenceOf returns the number of a record, or 0 for another line.
func sequenceOf(line []byte) uint64 {
	digits, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return 0
	}
	end := bytes.IndexByte(digits, ',')
	if end < 0 {
		return 0
	}
	number, err := strconv.ParseUint(string(digits[:end]), 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// errStop ends eachLine and eachLineBackward without an error.
var errStop = errors.New("stop")

// lastSigned returns the last signed record of a file, and the length of the file up to its end.
// Bytes after it belong to a write that was not completed. The zero values mean that the file has
// no signed record.
func lastSigned(path string) (head Head, size int64, err error) {
	content, err := os.Open(path)
	if err != nil {
		return Head{}, 0, err
	}
	defer content.Close()
	info, err := content.Stat()
	if err != nil {
		return Head{}, 0, err
	}
	err = eachLineBackward(content, info.Size(), func(line []byte, end int64) error {
		if _, _, ok := unsign(line); !ok || !json.Valid(line) || sequenceOf(line) == 0 {
			return nil
		}
		head, size = Head{sequenceOf(line), hashOf(line)}, end
		return errStop
	})
	return head, size, err
}

// eachLine calls fn for each line of a file. Its error is fs.ErrNotExist if the file was removed
// because of the limit of space.
func eachLine(from source, fn func(line []byte) error) error {
	content, err := os.Open(from.path)
	if err != nil {
		return err
	}
	defer content.Close()
	return lines(io.LimitReader(content, from.size), fn)
}

func lines(content io.Reader, fn func(line []byte) error) error {
	scanner := bufio.NewScanner(content)
	scanner.Buffer(make([]byte, 64<<10), maxLine)
	for scanner.Scan() {
		if err := fn(scanner.Bytes()); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return scanner.Err()
}

// eachLineBackward calls fn for each complete line of a file, the last one first, with the offset
// after its line end.
func eachLineBackward(content io.ReaderAt, size int64, fn func(line []byte, end int64) error) error {
	const block = 64 << 10
	var rest []byte // the bytes from offset size on that belong to a line that begins earlier
	first := true
	for size > 0 {
		length := min(size, block)
		read := make([]byte, length, length+int64(len(rest)))
		if _, err := content.ReadAt(read, size-length); err != nil {
			return err
		}
		read = append(read, rest...)
		size -= length
		for {
			// the line before the last line end
			end := bytes.LastIndexByte(read, '\n')
			if end < 0 {
				break
			}
			if first { // drop an incomplete line
				read, first = read[:end+1], false
			}
			begin := bytes.LastIndexByte(read[:end], '\n') + 1
			if begin == 0 && size > 0 {
				break
			}
			err := fn(read[begin:end], size+int64(end)+1)
			if errors.Is(err, errStop) {
				return nil
			}
			if err != nil {
				return err
			}
			read = read[:begin]
		}
		if rest = read; len(rest) > maxLine {
			return fmt.Errorf("a line is longer than %d bytes: %w", maxLine, bufio.ErrTooLong)
		}
	}
	return nil
}
