// Package iso9660 reads and writes ISO 9660 volumes as far as CoreOS live images use them: one
// primary volume, names in Rock Ridge or plain level 1 form, files that lie in one piece.
//
// Positions and sizes are bytes (int64) everywhere, so volumes beyond 4 GiB need no care. The format
// is ECMA-119 (ISO 9660), SUSP 1.12 and RRIP 1.12 (Rock Ridge).
package iso9660

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// SectorSize is the size of a logical sector and block, bytes. ISO 9660 allows other block sizes;
// no live image uses them and they are refused.
const SectorSize = 2048

// descriptorStart is where the volume descriptors begin, bytes; the system area is before it.
const descriptorStart = 16 * SectorSize

// Limits that keep a damaged or hostile volume from taking the reader's time and memory. A live
// image has some 30 entries.
const (
	maxDescriptors    = 64
	maxEntries        = 1 << 16
	maxDepth          = 32
	maxDirectoryBytes = 16 << 20
)

// ErrNotISO says that there are no ISO 9660 volume descriptors.
var ErrNotISO = errors.New("not an ISO 9660 image")

// TruncatedError says that the image has fewer bytes than its own structures speak of.
type TruncatedError struct {
	Size int64  // bytes there are
	Want int64  // bytes there should be
	What string // what reaches beyond the end
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("it has %d bytes where %s needs %d", e.Size, e.What, e.Want)
}

// FormatError says that a structure makes no sense.
type FormatError struct {
	Offset  int64 // where the structure begins, bytes
	Problem string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("damaged at byte %d: %s", e.Offset, e.Problem)
}

// Volume is the primary volume of an image.
type Volume struct {
	ID   string // volume identifier without its padding
	Size int64  // bytes the volume takes; the image may be longer
	Root *Entry
}

// Entry is a file or a directory.
type Entry struct {
	Name     string // Rock Ridge name if there is one, else the plain one without its version
	Dir      bool
	Offset   int64    // where the contents begin, bytes
	Size     int64    // bytes
	Record   int64    // where the (first) directory record is, bytes
	Children []*Entry // of a directory, in the order of the image

	plain bool // Name is the plain, upper-case, shortened one
}

// Open reads the descriptors and the whole directory tree of the image in r, which has size bytes.
// The errors are ErrNotISO, *TruncatedError, *FormatError or what r's ReadAt returned.
func Open(r io.ReaderAt, size int64) (*Volume, error) {
	d := decoder{r: r, size: size, seen: map[int64]bool{}}
	pvd, err := d.primaryDescriptor()
	if err != nil {
		return nil, err
	}
	const at = descriptorStart
	if bs := binary.LittleEndian.Uint16(pvd[128:]); bs != SectorSize {
		return nil, &FormatError{at, fmt.Sprintf("the logical block size is %d, only %d is supported", bs, SectorSize)}
	}
	v := &Volume{
		ID:   strings.TrimRight(string(pvd[40:72]), " \x00"),
		Size: int64(binary.LittleEndian.Uint32(pvd[80:])) * SectorSize,
	}
	if v.Size > size {
		return nil, &TruncatedError{Size: size, Want: v.Size, What: "the volume"}
	}
	root, err := parseRecord(pvd[156:190], at+156)
	if err != nil {
		return nil, err
	}
	v.Root = &Entry{Dir: true, Offset: root.offset, Size: root.size, Record: at + 156}
	return v, d.walk(v.Root, "", 0)
}

// Find returns the entry at a slash-separated path, or nil. Letter case does not matter, and where
// the image has plain names only, the path is matched in its 8.3 form ("igninfo.json" finds
// IGNINFO.JSO).
func (v *Volume) Find(path string) *Entry {
	e := v.Root
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if e = e.child(name); e == nil {
			return nil
		}
	}
	return e
}

func (e *Entry) child(name string) *Entry {
	for _, c := range e.Children {
		if strings.EqualFold(c.Name, name) || c.plain && c.Name == plainName(name) {
			return c
		}
	}
	return nil
}

// plainName is the level 1 form of a name: eight and three characters, upper case, others than
// letters, digits and underscore replaced, without the version (ECMA-119 7.5, 10.1).
func plainName(name string) string {
	base, ext := name, ""
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		base, ext = name[:dot], name[dot+1:]
	}
	clean := func(s string, limit int) string {
		s = strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r == '_' {
				return r
			}
			return '_'
		}, strings.ToUpper(s))
		return s[:min(len(s), limit)]
	}
	if ext == "" {
		return clean(base, 8)
	}
	return clean(base, 8) + "." + clean(ext, 3)
}

// decoder holds what a walk over the tree needs and what bounds it.
type decoder struct {
	r       io.ReaderAt
	size    int64
	seen    map[int64]bool // offsets of the directories met so far
	entries int
	bytes   int64
	suspAt  int // bytes to skip at the start of each system use field, SUSP's LEN_SKP
}

// read returns n bytes at an offset; what is named if they are not there.
func (d *decoder) read(off, n int64, what string) ([]byte, error) {
	if off < 0 || n < 0 || off > d.size-n {
		return nil, &TruncatedError{Size: d.size, Want: off + n, What: what}
	}
	b := make([]byte, n)
	if k, err := d.r.ReadAt(b, off); int64(k) < n {
		if errors.Is(err, io.EOF) {
			return nil, &TruncatedError{Size: off + int64(k), Want: off + n, What: what}
		}
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return b, nil
}

func (d *decoder) primaryDescriptor() ([]byte, error) {
	var primary []byte
	for i := range int64(maxDescriptors) {
		at := int64(descriptorStart + i*SectorSize)
		if i == 0 && d.size < at+SectorSize {
			return nil, fmt.Errorf("%w: it has only %d bytes", ErrNotISO, d.size)
		}
		b, err := d.read(at, SectorSize, "its volume descriptors")
		if err != nil {
			return nil, err
		}
		if string(b[1:6]) != "CD001" {
			if i == 0 {
				return nil, fmt.Errorf("%w: no CD001 mark at byte %d", ErrNotISO, at+1)
			}
			return nil, &FormatError{at, "the volume descriptors do not end"}
		}
		switch {
		case b[0] == 1 && i == 0:
			primary = b
		case b[0] == 255 && primary != nil:
			return primary, nil
		case primary == nil:
			return nil, &FormatError{at, "the first volume descriptor is not the primary one"}
		}
	}
	return nil, &FormatError{descriptorStart, "too many volume descriptors"}
}

func (d *decoder) walk(dir *Entry, path string, depth int) error {
	what := "the directory /" + path
	switch {
	case depth > maxDepth:
		return &FormatError{dir.Record, what + " is nested too deeply"}
	case d.seen[dir.Offset]:
		return &FormatError{dir.Record, what + " leads back to a directory met before"}
	case d.bytes+dir.Size > maxDirectoryBytes:
		return &FormatError{dir.Record, what + " is too large"}
	}
	d.seen[dir.Offset] = true
	d.bytes += dir.Size
	b, err := d.read(dir.Offset, dir.Size, what)
	if err != nil {
		return err
	}
	if err := d.list(dir, b, path); err != nil {
		return err
	}
	for _, c := range dir.Children {
		if !c.Dir {
			continue
		}
		if err := d.walk(c, join(path, c.Name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// list turns the records of one directory into its children.
func (d *decoder) list(dir *Entry, b []byte, path string) error {
	var open *Entry // a file whose next record continues it
	for i := 0; i < len(b); {
		if b[i] == 0 { // records do not cross sectors; the rest of this one is empty
			i = (i/SectorSize + 1) * SectorSize
			continue
		}
		at := dir.Offset + int64(i)
		rec, err := parseRecord(b[i:], at)
		if err != nil {
			return err
		}
		i += rec.length
		if rec.self {
			if path == "" && at == dir.Offset {
				d.suspAt = suspSkip(rec.systemUse)
			}
			continue
		}
		if d.entries++; d.entries > maxEntries {
			return &FormatError{at, "too many entries"}
		}
		if open != nil {
			if rec.offset != open.Offset+open.Size {
				return &FormatError{at, "the file /" + join(path, open.Name) + " lies in several places, which is not supported"}
			}
			open.Size += rec.size
		} else if open, err = d.entry(rec, at); err != nil {
			return err
		} else {
			dir.Children = append(dir.Children, open)
		}
		if !open.Dir && open.Size > 0 && open.Offset+open.Size > d.size {
			return &TruncatedError{Size: d.size, Want: open.Offset + open.Size, What: "the file /" + join(path, open.Name)}
		}
		if !rec.continued {
			open = nil
		}
	}
	return nil
}

func (d *decoder) entry(rec record, at int64) (*Entry, error) {
	e := &Entry{Dir: rec.dir, Offset: rec.offset, Size: rec.size, Record: at}
	name, err := d.rockRidgeName(rec.systemUse)
	if err != nil {
		return nil, err
	}
	if name == "" {
		e.plain = true
		name, _, _ = strings.Cut(rec.name, ";")
		name = strings.TrimSuffix(name, ".")
	}
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return nil, &FormatError{at, fmt.Sprintf("%q is no file name", name)}
	}
	e.Name = name
	return e, nil
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// record is a directory record, ECMA-119 9.1.
type record struct {
	length    int
	offset    int64
	size      int64
	name      string
	self      bool // the directory itself or its parent
	dir       bool
	continued bool // the next record continues this file
	systemUse []byte
}

func parseRecord(b []byte, at int64) (record, error) {
	length := int(b[0])
	if length < 34 || length > len(b) || 33+int(b[32]) > length || b[32] == 0 {
		return record{}, &FormatError{at, "a directory record has an impossible length"}
	}
	if b[26] != 0 || b[27] != 0 {
		return record{}, &FormatError{at, "a file is interleaved, which is not supported"}
	}
	n := int(b[32])
	r := record{
		length:    length,
		offset:    (int64(binary.LittleEndian.Uint32(b[2:])) + int64(b[1])) * SectorSize,
		size:      int64(binary.LittleEndian.Uint32(b[10:])),
		name:      string(b[33 : 33+n]),
		dir:       b[25]&0x02 != 0,
		continued: b[25]&0x80 != 0,
	}
	r.self = r.name == "\x00" || r.name == "\x01"
	r.systemUse = b[min(33+n+(n+1)%2, length):length]
	return r, nil
}

// All yields the root and every entry below it, parents before children.
func (v *Volume) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) { v.Root.all(yield) }
}

func (e *Entry) all(yield func(*Entry) bool) bool {
	if !yield(e) {
		return false
	}
	for _, c := range e.Children {
		if !c.all(yield) {
			return false
		}
	}
	return true
}
