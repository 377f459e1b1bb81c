package iso9660

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Image is what Write lays out.
type Image struct {
	VolumeID string    // at most 32 characters
	Time     time.Time // of the volume and of all files
	System   []byte    // contents of the system area, at most 32 KiB
	Files    []File    // their directories are made
}

// File is a file of an Image.
type File struct {
	Path string // relative, as images/ignition.img
	Data []byte
}

// Write writes a level 1 volume with Rock Ridge names. The same image gives the same bytes. It is
// meant for small images, whose contents are at hand in memory; nothing in it is bootable.
func Write(w io.Writer, img Image) error {
	if len(img.VolumeID) > 32 {
		return fmt.Errorf("the volume identifier %q has more than 32 characters", img.VolumeID)
	}
	if len(img.System) > descriptorStart {
		return fmt.Errorf("the system area has %d bytes, %d were given", descriptorStart, len(img.System))
	}
	l := layout{image: img, root: &node{dir: true, plain: "\x00"}}
	for _, f := range img.Files {
		if err := l.root.add(f); err != nil {
			return err
		}
	}
	l.place()
	return l.write(w)
}

// node is a file or directory to be written.
type node struct {
	name     string
	plain    string // with the version, as in the record
	dir      bool
	data     []byte
	size     int // bytes of the file or of the directory's records
	parent   *node
	children []*node // sorted by plain name, as ECMA-119 9.3 wants it
	sector   uint32
	number   uint16 // of a directory in the path table
}

func (n *node) add(f File) error {
	if !fs.ValidPath(f.Path) || f.Path == "." {
		return fmt.Errorf("%q is no path of a file in an image", f.Path)
	}
	dir := n
	if d := path.Dir(f.Path); d != "." {
		for _, name := range strings.Split(d, "/") {
			child, err := dir.insert(&node{name: name, plain: plainName(name), dir: true})
			if err != nil {
				return err
			}
			dir = child
		}
	}
	name := path.Base(f.Path)
	plain := plainName(name)
	if !strings.Contains(plain, ".") {
		plain += "."
	}
	_, err := dir.insert(&node{name: name, plain: plain + ";1", data: f.Data, size: len(f.Data)})
	return err
}

// insert adds a child, or finds the directory of that name.
func (n *node) insert(child *node) (*node, error) {
	i, found := slices.BinarySearchFunc(n.children, child.plain, func(a *node, plain string) int { return strings.Compare(a.plain, plain) })
	if found {
		if c := n.children[i]; c.dir && child.dir && c.name == child.name {
			return c, nil
		}
		return nil, fmt.Errorf("%s and %s have the same short name %s", n.children[i].name, child.name, child.plain)
	}
	child.parent = n
	n.children = slices.Insert(n.children, i, child)
	return child, nil
}

// layout is an image with every part in its sector.
type layout struct {
	image     Image
	root      *node
	dirs      []*node // in the order of the path table: by level, parent, name
	files     []*node
	pathTable uint32 // sector of the little-endian one; the big-endian one follows
	tableSize int    // bytes
	sectors   uint32
}

func sectors(size int) uint32 { return uint32((size + SectorSize - 1) / SectorSize) }

func (l *layout) place() {
	l.root.parent = l.root
	l.dirs = []*node{l.root}
	for i := 0; i < len(l.dirs); i++ {
		l.dirs[i].number = uint16(i + 1)
		for _, c := range l.dirs[i].children {
			if c.dir {
				l.dirs = append(l.dirs, c)
			} else {
				l.files = append(l.files, c)
			}
		}
	}
	l.pathTable = descriptorStart/SectorSize + 2
	l.tableSize = len(l.table(binary.LittleEndian))
	next := l.pathTable + 2*sectors(l.tableSize)
	for _, d := range l.dirs {
		d.sector = next
		d.size = len(d.records(l.image.Time))
		next += sectors(d.size)
	}
	for _, f := range l.files {
		f.sector = next
		next += sectors(len(f.data))
	}
	l.sectors = next
}

func (l *layout) write(w io.Writer) error {
	parts := [][]byte{
		append(slices.Clone(l.image.System), make([]byte, descriptorStart-len(l.image.System))...),
		l.primary(),
		append([]byte("\xffCD001\x01"), make([]byte, SectorSize-7)...),
		l.table(binary.LittleEndian),
		l.table(binary.BigEndian),
	}
	for _, d := range l.dirs {
		parts = append(parts, d.records(l.image.Time))
	}
	for _, f := range l.files {
		parts = append(parts, f.data)
	}
	var padding [SectorSize]byte
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
		if over := len(p) % SectorSize; over > 0 {
			if _, err := w.Write(padding[over:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// primary is the primary volume descriptor, ECMA-119 8.4.
func (l *layout) primary() []byte {
	b := make([]byte, SectorSize)
	copy(b, "\x01CD001\x01")
	fill := func(from, to int, s string) { copy(b[from:to], s+strings.Repeat(" ", to-from)) }
	fill(8, 40, "LINUX")
	fill(40, 72, l.image.VolumeID)
	both32(b[80:], l.sectors)
	both16(b[120:], 1)
	both16(b[124:], 1)
	both16(b[128:], SectorSize)
	both32(b[132:], uint32(l.tableSize))
	binary.LittleEndian.PutUint32(b[140:], l.pathTable)
	binary.BigEndian.PutUint32(b[148:], l.pathTable+sectors(l.tableSize))
	copy(b[156:], l.root.record(l.image.Time, "\x00", nil))
	fill(190, 813, "")
	stamp := l.image.Time.UTC().Format("20060102150405") + "00\x00"
	const never = "0000000000000000\x00"
	copy(b[813:], stamp+stamp+never+never+"\x01")
	return b
}

// table is the path table in one byte order, ECMA-119 9.4.
func (l *layout) table(order binary.ByteOrder) []byte {
	var b bytes.Buffer
	for _, d := range l.dirs {
		head := make([]byte, 8)
		head[0] = byte(len(d.plain))
		order.PutUint32(head[2:], d.sector)
		order.PutUint16(head[6:], d.parent.number)
		b.Write(head)
		b.WriteString(d.plain)
		if len(d.plain)%2 == 1 {
			b.WriteByte(0)
		}
	}
	return b.Bytes()
}

// records is the contents of a directory. A record never crosses a sector.
func (n *node) records(t time.Time) []byte {
	var b []byte
	put := func(rec []byte) {
		if room := SectorSize - len(b)%SectorSize; room < len(rec) {
			b = append(b, make([]byte, room)...)
		}
		b = append(b, rec...)
	}
	self := n.attributes()
	if n.parent == n {
		// SP says that there are system use fields, ER that they are Rock Ridge (SUSP 5.3, 5.5).
		self = slices.Concat([]byte("SP\x07\x01\xbe\xef\x00"), self, []byte("ER\x12\x01\x0a\x00\x00\x01RRIP_1991A"))
	}
	put(n.record(t, "\x00", self))
	put(n.parent.record(t, "\x01", n.parent.attributes()))
	for _, c := range n.children {
		name := append([]byte{'N', 'M', byte(5 + len(c.name)), 1, 0}, c.name...)
		put(c.record(t, c.plain, append(name, c.attributes()...)))
	}
	return append(b, make([]byte, (SectorSize-len(b)%SectorSize)%SectorSize)...)
}

// attributes is the PX entry: mode, links, owner (RRIP 4.1.1, the form of 1.10).
func (n *node) attributes() []byte {
	b := append([]byte("PX\x24\x01"), make([]byte, 32)...)
	mode, links := uint32(0o100444), uint32(1)
	if n.dir {
		mode, links = 0o040555, 2
	}
	both32(b[4:], mode)
	both32(b[12:], links)
	return b
}

// record is a directory record, ECMA-119 9.1.
func (n *node) record(t time.Time, plain string, systemUse []byte) []byte {
	head := 33 + len(plain) + (len(plain)+1)%2
	b := make([]byte, head, head+len(systemUse)+1)
	both32(b[2:], n.sector)
	both32(b[10:], uint32(n.size))
	t = t.UTC()
	copy(b[18:], []byte{byte(t.Year() - 1900), byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()), byte(t.Second()), 0})
	if n.dir {
		b[25] = 2
	}
	both16(b[28:], 1)
	b[32] = byte(len(plain))
	copy(b[33:], plain)
	b = append(b, systemUse...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	b[0] = byte(len(b))
	return b
}

// both32 and both16 write a number in both byte orders, ECMA-119 7.2.3 and 7.3.3.
func both32(b []byte, v uint32) {
	binary.LittleEndian.PutUint32(b, v)
	binary.BigEndian.PutUint32(b[4:], v)
}

func both16(b []byte, v uint16) {
	binary.LittleEndian.PutUint16(b, v)
	binary.BigEndian.PutUint16(b[2:], v)
}
