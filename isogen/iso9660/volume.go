// Package iso9660 reads and writes ISO 9660 volumes as far as CoreOS live images use them: names in
// Rock Ridge or plain level 1 form, the same files once more under Joliet names, files that lie in
// one piece, and an El Torito boot catalog.
//
// Positions and sizes are bytes (int64) everywhere, so volumes beyond 4 GiB need no care. The
// format is ECMA-119 (ISO 9660), SUSP 1.12 and RRIP 1.12 (Rock Ridge), the Joliet specification of
// 1995 and El Torito 1.0.
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
	maxDirectoryBytes = 16 << 20 // continuation areas included
	maxName           = 255      // bytes of a Rock Ridge name, as Linux has it
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

// Volume is a volume of an image. Open returns the primary one.
type Volume struct {
	ID         string // volume identifier without its padding
	Size       int64  // bytes the volume takes; the image may be longer
	Descriptor int64  // where the volume descriptor is, bytes
	Root       *Entry

	// What only the primary volume has.
	Supplementary []*Volume // the same files under other names: Joliet, ISO 9660:1999
	BootCatalog   int64     // where the El Torito boot catalog is, bytes; 0 if there is none
	Structures    []Range   // what the format takes for itself: the system area, descriptors, path tables, directories
}

// Range is a run of bytes of an image.
type Range struct {
	Offset, Size int64
	What         string // for people
}

// Overlaps tells whether the ranges share a byte.
func (r Range) Overlaps(offset, size int64) bool {
	return r.Size > 0 && size > 0 && r.Offset < offset+size && offset < r.Offset+r.Size
}

// Entry is a file or a directory.
type Entry struct {
	Name     string // Rock Ridge name if there is one, else the plain one without its version
	Dir      bool
	Offset   int64    // where the contents begin, bytes
	Size     int64    // bytes
	Record   int64    // where the (first) directory record is, bytes
	Split    bool     // in several records, as level 3 allows
	Children []*Entry // of a directory, in the order of the image

	plain bool // Name is the plain, upper-case, shortened one
}

// Open reads the descriptors and the directory trees of the image in r, which has size bytes. The
// errors are ErrNotISO, *TruncatedError, *FormatError or what r's ReadAt returned.
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

// Links returns every entry, of the volume and of the supplementary ones, whose contents are those
// of the file e: e itself, its Joliet twin, hard links. No record comes twice.
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

// All yields the root and every entry below it, parents before children.
func (v *Volume) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		v.Root.all("", func(_ string, e *Entry) bool { return yield(e) })
	}
}

// Files yields every file with its path, in the order of the tree.
func (v *Volume) Files() iter.Seq2[string, *Entry] {
	return func(yield func(string, *Entry) bool) {
		v.Root.all("", func(path string, e *Entry) bool { return e.Dir || yield(path, e) })
	}
}

// FileAt returns the first file, and its path, that holds all of a run of bytes; nil if none does.
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
