package iso9660

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// Image describes a volume for Write.
type Image struct {
	VolumeID string    // at most 32 characters; Joliet uses the first 16
	Time     time.Time // time of the volume and of all files
	System   []byte    // contents of the system area, at most 32 KiB
	Files    []File    // the files; their directories are created automatically
	Joliet   bool      // add a second tree, with Joliet names
	Boot     []Boot    // entries of the El Torito boot catalog; nil: no catalog
}

// File is a file of an Image.
type File struct {
	Path string // relative, such as images/ignition.img
	Data []byte
	Link string // path of an earlier file with the same contents; Data is then ignored
}

// Boot is an entry of the boot catalog.
type Boot struct {
	Platform Platform
	File     string // path of the boot image
}

// Write writes a level 1 volume with Rock Ridge names. Equal descriptions result in equal bytes.
// Write is meant for small images whose contents are in memory.
func Write(w io.Writer, img Image) error {
	if len(img.VolumeID) > 32 {
		return fmt.Errorf("the volume identifier %q has more than 32 characters", img.VolumeID)
	}
	if len(img.System) > descriptorStart {
		return fmt.Errorf("the system area has %d bytes, but the description contains %d", descriptorStart,
			len(img.System))
	}
	l := layout{image: img, contents: map[string]*content{}, trees: []*tree{{root: &node{dir: true, id: "\x00"}}}}
	if img.Joliet {
		l.trees = append(l.trees, &tree{joliet: true, root: &node{dir: true, id: "\x00"}})
	}
	for _, f := range img.Files {
		if err := l.add(f); err != nil {
			return err
		}
	}
	for _, b := range img.Boot {
		if l.contents[b.File] == nil {
			return fmt.Errorf("the boot image %q is not in the image", b.File)
		}
	}
	l.place()
	return l.write(w)
}

// content is the content of a file. Hard links share it.
type content struct {
	data   []byte
	sector uint32
}

// tree is one of the directory trees of an image.
type tree struct {
	joliet    bool
	root      *node
	dirs      []*node // in path table order: by level, parent, name
	pathTable uint32  // sector of the little-endian table; the big-endian table follows
	tableSize int     // bytes
}

// node is a file or directory to be written.
type node struct {
	name     string
	id       string // the name in the record, with the version
	dir      bool
	content  *content // of a file
	size     int      // bytes of a directory's records
	parent   *node
	children []*node // sorted by id (ECMA-119 9.3)
	sector   uint32  // of a directory
	number   uint16  // of a directory in the path table
}

// maxWrittenName is the maximum length of a name. It leaves enough of a record's 254 bytes for the
// other fields, so that no continuation is needed.
const maxWrittenName = 160

// id returns the form of a name in the tree's records.
func (t *tree) id(name string, dir bool) (string, error) {
	if !t.joliet {
		if len(name) > maxWrittenName {
			return "", fmt.Errorf("the name %s is too long for a directory record", name)
		}
		plain := plainName(name)
		if dir {
			return plain, nil
		}
		if !strings.Contains(plain, ".") {
			plain += "."
		}
		return plain + ";1", nil
	}
	if !dir {
		name += ";1"
	}
	units := utf16.Encode([]rune(name))
	if len(units) > 66 {
		return "", fmt.Errorf("the name %s has more than the 64 characters of Joliet", name)
	}
	var b []byte
	for _, u := range units {
		b = binary.BigEndian.AppendUint16(b, u)
	}
	return string(b), nil
}

func (l *layout) add(f File) error {
	if !fs.ValidPath(f.Path) || f.Path == "." {
		return fmt.Errorf("%q is not a valid path of a file in an image", f.Path)
	}
	c := &content{data: f.Data}
	if f.Link != "" {
		if c = l.contents[f.Link]; c == nil {
			return fmt.Errorf("%s is a link to %q, which must be an earlier file of the image", f.Path, f.Link)
		}
	} else {
		l.files = append(l.files, c)
	}
	for _, t := range l.trees {
		if err := t.add(f.Path, c); err != nil {
			return err
		}
	}
	l.contents[f.Path] = c
	return nil
}

func (t *tree) add(file string, c *content) error {
	dir := t.root
	names := strings.Split(file, "/")
	for i, name := range names {
		last := i == len(names)-1
		id, err := t.id(name, !last)
		if err != nil {
			return err
		}
		child := &node{name: name, id: id, dir: !last}
		if last {
			child.content = c
		}
		if dir, err = dir.insert(child); err != nil {
			return err
		}
	}
	return nil
}

// insert adds a child, or returns the existing directory with that name.
func (n *node) insert(child *node) (*node, error) {
	i, found := slices.BinarySearchFunc(n.children, child.id, func(a *node,
		id string) int {
		return strings.Compare(a.id, id)
	})
	if found {
		if c := n.children[i]; c.dir && child.dir && c.name == child.name {
			return c, nil
		}
		return nil, fmt.Errorf("%s and %s have the same short name %s", n.children[i].name, child.name, child.id)
	}
	child.parent = n
	n.children = slices.Insert(n.children, i, child)
	return child, nil
}

// layout is an image with the sectors of all its parts.
type layout struct {
	image    Image
	trees    []*tree // the primary one first
	files    []*content
	contents map[string]*content // by path
	catalog  uint32              // sector of the boot catalog, if there is one
	sectors  uint32
}

func sectors(size int) uint32 { return uint32((size + SectorSize - 1) / SectorSize) }

func (l *layout) place() {
	next := uint32(descriptorStart/SectorSize + len(l.trees) + 1)
	if len(l.image.Boot) > 0 {
		l.catalog = next + 1
		next += 2 // the descriptor and the catalog
	}
	for _, t := range l.trees {
		next = t.place(next, l.image.Time)
	}
	for _, f := range l.files {
		f.sector = next
		next += sectors(len(f.data))
	}
	l.sectors = next
}

// place assigns sectors to the structures of the tree. It returns the sector after them.
func (t *tree) place(next uint32, stamp time.Time) uint32 {
	t.root.parent = t.root
	t.dirs = []*node{t.root}
	for i := 0; i < len(t.dirs); i++ {
		t.dirs[i].number = uint16(i + 1)
		for _, c := range t.dirs[i].children {
			if c.dir {
				t.dirs = append(t.dirs, c)
			}
		}
	}
	t.pathTable = next
	t.tableSize = len(t.table(binary.LittleEndian))
	next += 2 * sectors(t.tableSize)
	for _, d := range t.dirs {
		d.sector = next
		d.size = len(d.records(stamp, t.joliet))
		next += sectors(d.size)
	}
	return next
}

func (l *layout) write(w io.Writer) error {
	parts := [][]byte{
		append(slices.Clone(l.image.System), make([]byte, descriptorStart-len(l.image.System))...),
		l.descriptor(l.trees[0]),
	}
	if l.catalog > 0 {
		parts = append(parts, l.bootRecord())
	}
	for _, t := range l.trees[1:] {
		parts = append(parts, l.descriptor(t))
	}
	parts = append(parts, append([]byte("\xffCD001\x01"), make([]byte, SectorSize-7)...))
	if l.catalog > 0 {
		parts = append(parts, l.bootCatalog())
	}
	for _, t := range l.trees {
		parts = append(parts, t.table(binary.LittleEndian), t.table(binary.BigEndian))
		for _, d := range t.dirs {
			parts = append(parts, d.records(l.image.Time, t.joliet))
		}
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

// descriptor returns the primary volume descriptor (ECMA-119 8.4) or Joliet's supplementary one
// (8.5).
func (l *layout) descriptor(t *tree) []byte {
	b := make([]byte, SectorSize)
	copy(b, "\x01CD001\x01")
	fill := func(from, to int, s string) {
		if !t.joliet {
			copy(b[from:to], s+strings.Repeat(" ", to-from))
			return
		}
		for i := from; i+1 < to; i += 2 {
			c := byte(' ')
			if k := (i - from) / 2; k < len(s) {
				c = s[k]
			}
			b[i], b[i+1] = 0, c
		}
	}
	if t.joliet {
		b[0] = supplementaryVolume
		copy(b[88:], "%/E")
	}
	fill(8, 40, "LINUX")
	fill(40, 72, l.image.VolumeID)
	both32(b[80:], l.sectors)
	both16(b[120:], 1)
	both16(b[124:], 1)
	both16(b[128:], SectorSize)
	both32(b[132:], uint32(t.tableSize))
	binary.LittleEndian.PutUint32(b[140:], t.pathTable)
	binary.BigEndian.PutUint32(b[148:], t.pathTable+sectors(t.tableSize))
	copy(b[156:], t.root.record(l.image.Time, "\x00", nil))
	fill(190, 813, "")
	stamp := l.image.Time.UTC().Format("20060102150405") + "00\x00"
	const never = "0000000000000000\x00"
	copy(b[813:], stamp+stamp+never+never+"\x01")
	return b
}

// bootRecord returns the descriptor with the position of the boot catalog, El Torito 2.0.
func (l *layout) bootRecord() []byte {
	b := make([]byte, SectorSize)
	copy(b, "\x00CD001\x01EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(b[71:], l.catalog)
	return b
}

// bootCatalog returns the validation entry, the initial entry, and a section for each further
// entry, El Torito 2.1 to 2.4.
func (l *layout) bootCatalog() []byte {
	b := make([]byte, SectorSize)
	entry := func(at int, boot Boot) {
		c := l.contents[boot.File]
		load := min((len(c.data)+511)/512, 0xFFFF)
		if boot.Platform == BIOS {
			load = 4 // boot loaders request this size and load the rest themselves
		}
		b[at] = 0x88
		binary.LittleEndian.PutUint16(b[at+6:], uint16(load))
		binary.LittleEndian.PutUint32(b[at+8:], c.sector)
	}
	b[0], b[1], b[30], b[31] = 1, byte(l.image.Boot[0].Platform), 0x55, 0xAA
	binary.LittleEndian.PutUint16(b[28:], -checksum(b[:32]))
	entry(32, l.image.Boot[0])
	for i, boot := range l.image.Boot[1:] {
		at := 64 + 64*i
		b[at], b[at+1], b[at+2] = 0x90, byte(boot.Platform), 1
		if i == len(l.image.Boot)-2 {
			b[at] = 0x91
		}
		entry(at+32, boot)
	}
	return b
}

// table returns the path table in one byte order, ECMA-119 9.4.
func (t *tree) table(order binary.ByteOrder) []byte {
	var b bytes.Buffer
	for _, d := range t.dirs {
		head := make([]byte, 8)
		head[0] = byte(len(d.id))
		order.PutUint32(head[2:], d.sector)
		order.PutUint16(head[6:], d.parent.number)
		b.Write(head)
		b.WriteString(d.id)
		if len(d.id)%2 == 1 {
			b.WriteByte(0)
		}
	}
	return b.Bytes()
}

// records returns the contents of a directory. A record must not cross a sector boundary.
func (n *node) records(t time.Time, joliet bool) []byte {
	var b []byte
	put := func(rec []byte) {
		if room := SectorSize - len(b)%SectorSize; room < len(rec) {
			b = append(b, make([]byte, room)...)
		}
		b = append(b, rec...)
	}
	if joliet { // Joliet has no system use fields
		put(n.record(t, "\x00", nil))
		put(n.parent.record(t, "\x01", nil))
		for _, c := range n.children {
			put(c.record(t, c.id, nil))
		}
		return append(b, make([]byte, (SectorSize-len(b)%SectorSize)%SectorSize)...)
	}
	self := n.attributes()
	if n.parent == n {
		// SP declares system use fields, ER declares them to be Rock Ridge (SUSP 5.3, 5.5).
		self = slices.Concat([]byte("SP\x07\x01\xbe\xef\x00"), self, []byte("ER\x12\x01\x0a\x00\x00\x01RRIP_1991A"))
	}
	put(n.record(t, "\x00", self))
	put(n.parent.record(t, "\x01", n.parent.attributes()))
	for _, c := range n.children {
		name := append([]byte{'N', 'M', byte(5 + len(c.name)), 1, 0}, c.name...)
		put(c.record(t, c.id, append(name, c.attributes()...)))
	}
	return append(b, make([]byte, (SectorSize-len(b)%SectorSize)%SectorSize)...)
}

// attributes returns the PX entry: mode, links, owner (RRIP 4.1.1, in the form of 1.10).
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

// record returns a directory record, ECMA-119 9.1.
func (n *node) record(t time.Time, id string, systemUse []byte) []byte {
	head := 33 + len(id) + (len(id)+1)%2
	b := make([]byte, head, head+len(systemUse)+1)
	sector, size := n.sector, n.size
	if !n.dir {
		sector, size = n.content.sector, len(n.content.data)
	}
	both32(b[2:], sector)
	both32(b[10:], uint32(size))
	t = t.UTC()
	copy(b[18:], []byte{byte(t.Year() - 1900), byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()),
		byte(t.Second()), 0})
	if n.dir {
		b[25] = 2
	}
	both16(b[28:], 1)
	b[32] = byte(len(id))
	copy(b[33:], id)
	b = append(b, systemUse...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	b[0] = byte(len(b))
	return b
}

// Both32 returns a number in both byte orders, ECMA-119 7.3.3.
func Both32(v uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, v), v)
}

func both32(b []byte, v uint32) { copy(b, Both32(v)) }

// both16 writes a number in both byte orders, ECMA-119 7.2.3.

func both16(b []byte, v uint16) {
	binary.LittleEndian.PutUint16(b, v)
	binary.BigEndian.PutUint16(b[2:], v)
}
