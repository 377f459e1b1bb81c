package replica

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"landfall/store/wal"
)

// A frame is the magic, the length of the head (4 bytes, big-endian), the head as JSON, the body,
// and the SHA-256 of all that. The body is encrypted if there are recipients. It is a sequence of
// parts: a kind (1 byte), the length of the rest (uvarint), and
//
//	commit  number and time in Unix nanoseconds (8 bytes each), operations
//	file    length of a change as JSON (uvarint), the change, the content unless it is an object
const (
	frameMagic = "LFR1"
	partCommit = 'c'
	partFile   = 'f'
	// headLimit and frameLimit are the largest sizes of a head and of a frame, in bytes.
	headLimit  = 4 << 20
	frameLimit = 1<<30 + headLimit
)

// head describes a frame.
type head struct {
	// First and Last are the numbers of the commits. Last is First-1 if there are none.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// From and To are the earliest and the latest time of the commits, or that of the frame.
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Objects  []string  `json:"objects,omitempty"`  // that the body refers to
	Previous string    `json:"previous,omitempty"` // SHA-256 of the frame before, in the generation
	Body     int64     `json:"body"`               // bytes
}

// fileChange is a change of a file beside the store.
type fileChange struct {
	Name    string `json:"name"`
	Removed bool   `json:"removed,omitempty"`
	// Offset is where the content begins. What was there is cut off.
	Offset int64  `json:"offset,omitempty"`
	Object string `json:"object,omitempty"` // SHA-256 of the content
	inline []byte
}

// body is the clear body of a frame.
type body struct {
	files   []fileChange
	commits []wal.Commit
}

func (b *body) encode() ([]byte, error) {
	var text []byte
	for _, each := range b.files {
		change, err := json.Marshal(each)
		if err != nil {
			return nil, err
		}
		part := append(binary.AppendUvarint(nil, uint64(len(change))), change...)
		text = appendPart(text, partFile, part, each.inline)
	}
	for _, each := range b.commits {
		part := binary.BigEndian.AppendUint64(nil, each.Number)
		part = binary.BigEndian.AppendUint64(part, uint64(each.Time.UnixNano()))
		text = appendPart(text, partCommit, part, each.Operations)
	}
	return text, nil
}

func appendPart(to []byte, kind byte, parts ...[]byte) []byte {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	to = binary.AppendUvarint(append(to, kind), uint64(size))
	for _, part := range parts {
		to = append(to, part...)
	}
	return to
}

var errBody = errors.New("its content is truncated")

func decodeBody(text []byte) (*body, error) {
	b := new(body)
	for len(text) > 0 {
		kind := text[0]
		part, rest, ok := cut(text[1:])
		if !ok {
			return nil, errBody
		}
		text = rest
		switch kind {
		case partFile:
			described, content, ok := cut(part)
			var change fileChange
			if !ok || json.Unmarshal(described, &change) != nil || !fs.ValidPath(change.Name) {
				return nil, errBody
			}
			change.inline = content
			b.files = append(b.files, change)
		case partCommit:
			if len(part) < 16 {
				return nil, errBody
			}
			b.commits = append(b.commits, wal.Commit{Number: binary.BigEndian.Uint64(part),
				Time: time.Unix(0, int64(binary.BigEndian.Uint64(part[8:]))), Operations: part[16:]})
		default:
			return nil, fmt.Errorf("a newer Landfall wrote it, with parts of kind %q", kind)
		}
	}
	return b, nil
}

// cut returns what follows a length, and the rest.
func cut(text []byte) (part, rest []byte, ok bool) {
	size, n := binary.Uvarint(text)
	if n <= 0 || size > uint64(len(text)-n) {
		return nil, nil, false
	}
	text = text[n:]
	return text[:size], text[size:], true
}

// encodeFrame returns a frame, and its SHA-256.
func encodeFrame(h head, stored []byte) (frame []byte, sum string, err error) {
	h.Body = int64(len(stored))
	text, err := json.Marshal(h)
	if err != nil {
		return nil, "", err
	}
	frame = binary.BigEndian.AppendUint32([]byte(frameMagic), uint32(len(text)))
	frame = append(append(frame, text...), stored...)
	hash := sha256.Sum256(frame)
	return append(frame, hash[:]...), hex.EncodeToString(hash[:]), nil
}

// frame is a frame that was read.
type frame struct {
	head
	stored []byte // the body, which may be encrypted
	sum    string
	size   int64
	offset int64 // in its file
}

// errFrame reports that no complete frame begins at a place.
var errFrame = errors.New("no complete frame with the right checksum begins there")

// errShort is an errFrame for a frame in which the file ends.
var errShort = fmt.Errorf("%w, because the file ends", errFrame)

// readFrame reads the next frame. Its error is io.EOF at the end, and errFrame for a damaged one.
func readFrame(from io.Reader) (*frame, error) {
	beginning := make([]byte, len(frameMagic)+4)
	if _, err := io.ReadFull(from, beginning); err != nil {
		return nil, incomplete(err, io.EOF)
	}
	length := binary.BigEndian.Uint32(beginning[len(frameMagic):])
	if string(beginning[:len(frameMagic)]) != frameMagic || length > headLimit {
		return nil, errFrame
	}
	f := new(frame)
	text := make([]byte, length)
	if _, err := io.ReadFull(from, text); err != nil {
		return nil, incomplete(err, errShort)
	}
	if json.Unmarshal(text, &f.head) != nil || f.Body < 0 || f.Body > frameLimit {
		return nil, errFrame
	}
	// A damaged length must not reserve much memory, so the memory grows with what is read.
	var rest bytes.Buffer
	if n, err := io.CopyN(&rest, from, f.Body+sha256.Size); n < f.Body+sha256.Size {
		return nil, incomplete(err, errShort)
	}
	f.stored = rest.Bytes()[:f.Body]
	hash := sha256.New()
	for _, part := range [][]byte{beginning, text, f.stored} {
		hash.Write(part) // never fails
	}
	sum := hash.Sum(nil)
	if !bytes.Equal(sum, rest.Bytes()[f.Body:]) {
		return nil, errFrame
	}
	f.sum, f.size = hex.EncodeToString(sum), int64(len(beginning)+len(text)+rest.Len())
	return f, nil
}

// hole is a place of a file at which no whole frame begins.
type hole struct {
	path   string
	offset int64
	short  bool // the file ends in the frame
}

// readFrames reads all frames of a file, and the places at which it is damaged. A damaged frame
// does not hide the ones after it.
func readFrames(path string) (frames []*frame, damaged []hole, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	for at := 0; at < len(text); {
		f, err := readFrame(bytes.NewReader(text[at:]))
		if err == nil {
			f.offset = int64(at)
			frames = append(frames, f)
			at += int(f.size)
			continue
		}
		if !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) {
			return nil, nil, err
		}
		damaged = append(damaged, hole{path, int64(at), errors.Is(err, errShort)})
		next := bytes.Index(text[at+1:], []byte(frameMagic))
		for next >= 0 {
			if _, err := readFrame(bytes.NewReader(text[at+1+next:])); err == nil {
				break
			}
			further := bytes.Index(text[at+2+next:], []byte(frameMagic))
			if further < 0 {
				next = -1
				break
			}
			next += 1 + further
		}
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return frames, damaged, nil
}

// incomplete returns end for an empty rest, errShort for an incomplete one, and other errors as
// they are.
func incomplete(err, end error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errShort
	case errors.Is(err, io.EOF):
		return end
	}
	return err
}

// errOffset reports that a change does not fit the file.
var errOffset = errors.New("the change does not fit")

// applyFile applies a change of a file below dir. content is nil unless the change is an object.
func applyFile(dir string, change fileChange, content io.Reader) (err error) {
	path := filepath.Join(dir, filepath.FromSlash(change.Name))
	if change.Removed {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if content == nil {
		content = bytes.NewReader(change.inline)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Sync(), file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < change.Offset {
		return fmt.Errorf("%w: the file has %d bytes, and the change begins at %d", errOffset, info.Size(),
			change.Offset)
	}
	if err := file.Truncate(change.Offset); err != nil {
		return err
	}
	if _, err := file.Seek(change.Offset, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return err
}
