package audittrail

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
)

// Unread is a part of a file of the trail that can't be read, because the disk or the file is
// damaged.
type Unread struct {
	File   string `json:"file"`
	From   int64  `json:"from"` // the first byte
	To     int64  `json:"to"`   // the byte after the last one
	Reason string `json:"reason"`
}

// String returns a clause.
func (u Unread) String() string {
	return fmt.Sprintf("the bytes %d to %d of %s can't be read (%s)", u.From, u.To-1, u.File, u.Reason)
}

// readFile is an open file of the trail that is read. Tests replace it to simulate faults of disks.
type readFile interface {
	io.ReaderAt
	io.Closer
}

// salvage reads a file that may be damaged. Unreadable parts become empty lines, so a reader of
// lines finds the records before and after it.
type salvage struct {
	io.ReaderAt
	path   string
	unread []Unread // the last part of the file first, as it is read backward
}

// pageSize is the unit in which the kernel reads a file.
const pageSize = 4 << 10

// ReadAt implements io.ReaderAt.
func (s *salvage) ReadAt(p []byte, offset int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, offset)
	if !damages(err) {
		return n, err
	}
	for at := int64(len(p)); at > 0; {
		begin := max(0, (offset+at-1)/pageSize*pageSize-offset)
		page := p[begin:at]
		_, err := s.ReaderAt.ReadAt(page, offset+begin)
		switch {
		case damages(err):
			copy(page, bytes.Repeat([]byte{'\n'}, len(page)))
			s.note(offset+begin, offset+at, err)
		case err != nil:
			return 0, err
		}
		at = begin
	}
	return len(p), nil
}

// note notes a part that can't be read.
func (s *salvage) note(from, to int64, err error) {
	if last := len(s.unread) - 1; last >= 0 && s.unread[last].From == to {
		s.unread[last].From = from
		return
	}
	s.unread = append(s.unread, Unread{s.path, from, to, reasonOf(err)})
}

// reasonOf returns the text of an error without the path.
func reasonOf(err error) string {
	if failed, ok := err.(*fs.PathError); ok {
		return failed.Err.Error()
	}
	return err.Error()
}
