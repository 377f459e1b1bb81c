package iso9660

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// decoder reads an image within the limits of this package.
type decoder struct {
	r          io.ReaderAt
	size       int64
	structures []Range
	entries    int
	bytes      int64

	// The fields below are the state for the current volume.
	seen   map[int64]bool // offsets of the directories read so far
	joliet bool           // names are UCS-2
	suspAt int            // bytes to skip at the start of each system use field (LEN_SKP of SUSP)
}

func (d *decoder) note(offset, size int64, what string) {
	d.structures = append(d.structures, Range{offset, size, what})
}

// read returns n bytes at an offset. Errors contain the name of the structure.
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

// The types of volume descriptors, ECMA-119 8.1.1.
const (
	bootRecord          = 0
	primaryVolume       = 1
	supplementaryVolume = 2
	terminator          = 255
)

// descriptors returns the volume descriptors, from the primary descriptor to the terminator.
func (d *decoder) descriptors() (all [][]byte, err error) {
	for i := range int64(maxDescriptors) {
		at := int64(descriptorStart + i*SectorSize)
		if i == 0 && d.size < at+SectorSize {
			return nil, fmt.Errorf("%w: the file has only %d bytes", ErrNotISO, d.size)
		}
		b, err := d.read(at, SectorSize, "the volume descriptors")
		if err != nil {
			return nil, err
		}
		if string(b[1:6]) != "CD001" {
			if i == 0 {
				return nil, fmt.Errorf("%w: no CD001 mark at byte %d", ErrNotISO, at+1)
			}
			return nil, &FormatError{at, "the volume descriptors do not end"}
		}
		if i == 0 && b[0] != primaryVolume {
			return nil, &FormatError{at, "the first volume descriptor is not the primary one"}
		}
		all = append(all, b)
		if b[0] == terminator {
			return all, nil
		}
	}
	return nil, &FormatError{descriptorStart, "too many volume descriptors"}
}

// volume reads the volume of a primary or supplementary descriptor, ECMA-119 8.4 and 8.5.
func (d *decoder) volume(b []byte, at int64) (*Volume, error) {
	if bs := binary.LittleEndian.Uint16(b[128:]); bs != SectorSize {
		return nil, &FormatError{at, fmt.Sprintf("the logical block size is %d; only %d is supported", bs, SectorSize)}
	}
	v := &Volume{Size: int64(binary.LittleEndian.Uint32(b[80:])) * SectorSize, Descriptor: at}
	if v.Size > d.size {
		return nil, &TruncatedError{Size: d.size, Want: v.Size, What: "the volume"}
	}
	d.joliet = b[0] == supplementaryVolume && isJoliet(b[88:120])
	v.ID = d.identifier(b[40:72])
	tableSize := int64(binary.LittleEndian.Uint32(b[132:]))
	for i, order := range []binary.ByteOrder{binary.LittleEndian, binary.LittleEndian, binary.BigEndian,
		binary.BigEndian} {
		if table := int64(order.Uint32(b[140+4*i:])) * SectorSize; table != 0 {
			d.note(table, tableSize, "a path table")
		}
	}
	root, err := parseRecord(b[156:190], at+156)
	if err != nil {
		return nil, err
	}
	v.Root = &Entry{Dir: true, Offset: root.offset, Size: root.size, Record: at + 156}
	d.seen, d.suspAt = map[int64]bool{}, 0
	return v, d.walk(v.Root, "", 0)
}

// isJoliet reports whether escapes contains an escape sequence of UCS-2, levels 1 to 3, as listed
// in the Joliet specification.
func isJoliet(escapes []byte) bool {
	return escapes[0] == '%' && escapes[1] == '/' && strings.IndexByte("@CE", escapes[2]) >= 0
}

// identifier returns the text of a field of fixed length.
func (d *decoder) identifier(b []byte) string {
	if d.joliet {
		return strings.TrimRight(ucs2(b), " \x00")
	}
	return strings.TrimRight(string(b), " \x00")
}

// ucs2 decodes big-endian two-byte characters.
func ucs2(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.BigEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}

func (d *decoder) walk(dir *Entry, path string, depth int) error {
	what := "the directory /" + path
	switch {
	case depth > maxDepth:
		return &FormatError{dir.Record, what + " is nested too deeply"}
	case d.seen[dir.Offset]:
		return &FormatError{dir.Record, what + " is contained in itself"}
	case d.bytes+dir.Size > maxDirectoryBytes:
		return &FormatError{dir.Record, what + " is too large"}
	}
	d.seen[dir.Offset] = true
	d.bytes += dir.Size
	d.note(dir.Offset, dir.Size, what)
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

// list reads the records of a directory into its children.
func (d *decoder) list(dir *Entry, b []byte, path string) error {
	var open *Entry // a file that the next record continues
	for i := 0; i < len(b); {
		if b[i] == 0 { // records do not cross sectors: the rest of the sector is empty
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
				return &FormatError{at, "the file /" + join(path, open.Name) +
					" has several parts, which is not supported"}
			}
			open.Size += rec.size
			open.Split = true
		} else if open, err = d.entry(rec, at); err != nil {
			return err
		} else {
			dir.Children = append(dir.Children, open)
		}
		if !open.Dir && open.Size > 0 && open.Offset+open.Size > d.size {
			return &TruncatedError{Size: d.size, Want: open.Offset + open.Size, What: "the file /" +
				join(path, open.Name)}
		}
		if !rec.continued {
			open = nil
		}
	}
	return nil
}

func (d *decoder) entry(rec record, at int64) (*Entry, error) {
	e := &Entry{Dir: rec.dir, Offset: rec.offset, Size: rec.size, Record: at}
	name := ""
	if !d.joliet {
		var err error
		if name, err = d.rockRidgeName(rec.systemUse, at); err != nil {
			return nil, err
		}
	}
	if name == "" {
		name = rec.name
		if e.plain = !d.joliet; d.joliet {
			name = ucs2([]byte(name))
		}
		name, _, _ = strings.Cut(name, ";")
		name = strings.TrimSuffix(name, ".")
	}
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return nil, &FormatError{at, fmt.Sprintf("%q is not a valid file name", name)}
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
	self      bool // the record is that of the directory itself or of its parent
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
