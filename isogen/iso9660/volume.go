// Package iso9660 reads and writes ISO 9660 volumes, with the features that CoreOS live images use:
// Rock Ridge or plain level 1 names, a second tree with Joliet names, contiguous files, and an El
// Torito boot catalog.
//
// All positions and sizes are in bytes (int64), so volumes above 4 GiB need no special handling.
// The formats are ECMA-119 (ISO 9660), SUSP 1.12 and RRIP 1.12 (Rock Ridge), the Joliet
// specification of 1995 and El Torito 1.0.
package iso9660

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// SectorSize is the size of a logical sector and block in bytes. ISO 9660 allows other block sizes,
// but no live image uses them, and this package does not support them.
const SectorSize = 2048

// descriptorStart is the offset of the volume descriptors in bytes. The system area is before it.
const descriptorStart = 16 * SectorSize

// Limits that protect the reader's time and memory from damaged or malicious volumes. A live image
// has about 30 entries.
const (
	maxDescriptors    = 64
	maxEntries        = 1 << 16
	maxDepth          = 32
	maxDirectoryBytes = 16 << 20 // includes continuation areas
	maxName           = 255      // bytes of a Rock Ridge name, the limit of Linux
)

// ErrNotISO reports data without ISO 9660 volume descriptors.
var ErrNotISO = errors.New("not an ISO 9660 image")

// TruncatedError reports that an image is shorter than its structures require.
type TruncatedError struct {
	Size int64  // actual size in bytes
	Want int64  // required size in bytes
	What string // structure that ends after the image
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("the file has %d bytes, but %s needs %d", e.Size, e.What, e.Want)
}

// FormatError reports an invalid structure.
type FormatError struct {
	Offset  int64 // start of the structure, bytes
	Problem string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("damaged at byte %d: %s", e.Offset, e.Problem)
}

// Volume is a volume of an image. Open returns the primary volume.
type Volume struct {
	ID         string // volume identifier without padding
	Size       int64  // bytes; the image may be longer
	Descriptor int64  // offset of the volume descriptor, bytes
	Root       *Entry

	// The fields below are set in the primary volume only.
	Supplementary []*Volume // the same files under other names: Joliet, ISO 9660:1999
	BootCatalog   int64     // offset of the El Torito boot catalog in bytes, or 0
	// Structures are the parts of the image that are not files: the system area, descriptors, path
	// tables, directories.
	Structures []Range
}

// Range is a range of bytes of an image.
type Range struct {
	Offset, Size int64
	What         string // description for messages
}

// Overlaps reports whether the ranges share a byte.
func (r Range) Overlaps(offset, size int64) bool {
	return r.Size > 0 && size > 0 && r.Offset < offset+size && offset < r.Offset+r.Size
}

// Entry is a file or a directory.
type Entry struct {
	Name     string // Rock Ridge name; without one, the plain name without its version
	Dir      bool
	Offset   int64    // start of the contents, bytes
	Size     int64    // bytes
	Record   int64    // offset of the (first) directory record, bytes
	Split    bool     // the file has several records, as level 3 allows
	Children []*Entry // entries of a directory, in the order of the image

	plain bool // Name is the plain name: upper case and shortened
}

// Open reads the descriptors and the directory trees of the image in r, which has size bytes. Its
// errors are ErrNotISO, *TruncatedError, *FormatError and those of r's ReadAt.
func Open(r io.ReaderAt, size int64) (*Volume, error) {
	d := decoder{r: r, size: size}
	descriptors, err := d.descriptors()
	if err != nil {
		return nil, err
	}
	d.note(0, descriptorStart, "the system area")
	d.note(descriptorStart, int64(len(descriptors))*SectorSize, "the volume descriptors")
	v, err := d.volume(descriptors[0], descriptorStart)
	if err != nil {
		return nil, err
	}
	for i, b := range descriptors {
		at := descriptorStart + int64(i)*SectorSize
		switch {
		case b[0] == bootRecord && strings.TrimRight(string(b[7:39]), "\x00 ") == "EL TORITO SPECIFICATION" &&
			v.BootCatalog == 0:
			v.BootCatalog = int64(binary.LittleEndian.Uint32(b[71:])) * SectorSize
		case b[0] == supplementaryVolume:
			other, err := d.volume(b, at)
			if err != nil {
				return nil, err
			}
			v.Supplementary = append(v.Supplementary, other)
		}
	}
	v.Structures = d.structures
	return v, nil
}

// Find returns the entry at a slash-separated path, or nil. It ignores case. In an image that has
// only plain names, it matches the 8.3 form of the path ("igninfo.json" finds IGNINFO.JSO).
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

// plainName returns the level 1 form of a name without the version: eight and three characters,
// upper case, all but letters, digits and underscore replaced (ECMA-119 7.5, 10.1).
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

// Links returns all entries with the contents of the file e, in all trees: e itself, its Joliet
// entry and hard links. It returns each record once.
func (v *Volume) Links(e *Entry) []*Entry {
	var links []*Entry
	seen := map[int64]bool{}
	for _, v := range append([]*Volume{v}, v.Supplementary...) {
		for c := range v.All() {
			if !c.Dir && c.Offset == e.Offset && c.Size == e.Size && !seen[c.Record] {
				seen[c.Record] = true
				links = append(links, c)
			}
		}
	}
	return links
}

// All returns an iterator over the root and all entries below it, parents before children.
func (v *Volume) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		v.Root.all("", func(_ string, e *Entry) bool { return yield(e) })
	}
}

// Files returns an iterator over all files with their paths, in the order of the tree.
func (v *Volume) Files() iter.Seq2[string, *Entry] {
	return func(yield func(string, *Entry) bool) {
		v.Root.all("", func(path string, e *Entry) bool { return e.Dir || yield(path, e) })
	}
}

// FileAt returns the first file that contains a range of bytes, and its path, or nil.
func (v *Volume) FileAt(offset, size int64) (*Entry, string) {
	for path, e := range v.Files() {
		if offset >= e.Offset && offset+size <= e.Offset+e.Size {
			return e, path
		}
	}
	return nil, ""
}

func (e *Entry) all(path string, yield func(string, *Entry) bool) bool {
	if !yield(path, e) {
		return false
	}
	for _, c := range e.Children {
		if !c.all(join(path, c.Name), yield) {
			return false
		}
	}
	return true
}
