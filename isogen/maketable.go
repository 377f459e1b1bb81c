package isogen

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"landfall/isogen/iso9660"
)

const rootfsPath = "images/pxeboot/rootfs.img"

// MakeTable returns the table for a minimal ISO of the live ISO in r, which has size bytes. It is
// meant for live ISOs that were published without a table. The minimal ISO is the live ISO without
// the sectors of the root file system: rootfs.img is empty, and the data behind it moves up. All
// positions and sizes are adapted: directory records and volume sizes of every tree, partitions,
// and the old headers of the embed areas. So the minimal ISO boots by every method by which the
// live ISO boots.
//
// MakeTable reads the remaining sectors, about 150 MB of a real live ISO, for the digest in the
// table. It returns a *NoMinimalError if it does not support the layout of the live ISO.
func MakeTable(ctx context.Context, r io.ReaderAt, size int64) ([]byte, error) {
	v, err := iso9660.Open(r, size)
	if err != nil {
		return nil, fmt.Errorf("reading the live ISO: %w", err)
	}
	t, err := cutRootfs(ctx, r, size, v)
	if err != nil {
		return nil, err
	}
	if t.maker, err = tableMaker(r, size, v); err != nil {
		return nil, err
	}
	return t.encode()
}

// tableMaker returns the maker string of a table: the names of this program and of the ISO. The ISO
// is identified by a digest of its size and structures. These contain the name and the times of the
// build and the position of every file.
func tableMaker(r io.ReaderAt, size int64, v *iso9660.Volume) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, size)
	for _, s := range v.Structures {
		if _, err := io.Copy(h, io.NewSectionReader(r, s.Offset, s.Size)); err != nil {
			return "", fmt.Errorf("reading %s: %w", s.What, err)
		}
	}
	return fmt.Sprintf("landfall %x", h.Sum(nil)), nil
}

// cut describes an ISO without a range of sectors. Positions are those in the live ISO.
type cut struct {
	r          io.ReaderAt
	size       int64            // of the live ISO, bytes
	start, end int64            // the removed range, bytes
	changed    map[int64][]byte // changed sectors by number
}

func cutRootfs(ctx context.Context, r io.ReaderAt, size int64, v *iso9660.Volume) (*table, error) {
	rootfs := v.Find(rootfsPath)
	if rootfs == nil || rootfs.Dir || rootfs.Size == 0 {
		return nil, noTable("the ISO has no " + rootfsPath)
	}
	c := &cut{r: r, size: size, start: rootfs.Offset, end: wholeSectors(rootfs.Offset + rootfs.Size),
		changed: map[int64][]byte{}}
	if err := c.check(v, rootfs); err != nil {
		return nil, err
	}
	for _, edit := range []func() error{
		func() error { return c.moveFiles(v, rootfs) },
		c.movePartitions,
		c.moveTablePartitions,
		c.moveHeaders,
		func() error { return c.clearTable(v) },
	} {
		if err := edit(); err != nil {
			return nil, err
		}
	}
	return c.table(ctx)
}

func noTable(reason string) error {
	return &NoMinimalError{Reason: "no table can be generated for this ISO: " + reason,
		Remedy: "use a full image, or a live ISO that contains a table (published since the end of 2021)"}
}

// check returns an error for a layout whose positions this package cannot adapt.
func (c *cut) check(v *iso9660.Volume, rootfs *iso9660.Entry) error {
	if c.size%iso9660.SectorSize != 0 || c.end > c.size {
		return noTable("the size of the ISO is not a whole number of sectors")
	}
	for _, s := range v.Structures {
		if s.Offset+s.Size > c.start {
			return noTable(fmt.Sprintf("%s lies after the root file system", s.What))
		}
	}
	if v.BootCatalog >= c.start {
		return noTable("the boot catalog lies after the root file system")
	}
	for _, e := range v.BootEntries(c.r) {
		if e.Offset >= c.start {
			return noTable("a boot loader lies after the root file system")
		}
	}
	for _, tree := range append([]*iso9660.Volume{v}, v.Supplementary...) {
		for e := range tree.All() {
			same := e.Offset == rootfs.Offset && e.Size == rootfs.Size
			inside := e.Size > 0 && e.Offset < c.end && e.Offset+e.Size > c.start
			if e.Split && e.Offset >= c.start || inside && !same {
				return noTable("the file " + e.Name +
					" lies in several pieces or shares sectors with the root file system")
			}
		}
	}
	head, err := c.read(0, 4*iso9660.SectorSize)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(head[512:], []byte("PM")) || bytes.HasPrefix(head[2048:], []byte("PM")) {
		return noTable("the ISO has an Apple partition map")
	}
	return nil
}

func (c *cut) read(at, n int64) ([]byte, error) {
	b := make([]byte, n)
	if k, err := c.r.ReadAt(b, at); k < len(b) {
		return nil, fmt.Errorf("reading %d bytes at %d of the live ISO: %w", n, at, err)
	}
	return b, nil
}

// change records bytes that differ in the minimal ISO.
func (c *cut) change(at int64, data []byte) error {
	for len(data) > 0 {
		number, skip := at/iso9660.SectorSize, at%iso9660.SectorSize
		sector := c.changed[number]
		if sector == nil {
			var err error
			if sector, err = c.read(number*iso9660.SectorSize, iso9660.SectorSize); err != nil {
				return err
			}
			c.changed[number] = sector
		}
		n := copy(sector[skip:], data)
		data = data[n:]
		at += int64(n)
	}
	return nil
}

// moved converts a position in the live ISO to the position in the minimal ISO.
func (c *cut) moved(at int64) int64 {
	switch {
	case at >= c.end:
		return at - (c.end - c.start)
	case at > c.start:
		return c.start
	}
	return at
}

// moveFiles adapts the directory records (ECMA-119 9.1.3 and 9.1.4: first sector and size in both
// byte orders) and the volume sizes in sectors (8.4.8).
func (c *cut) moveFiles(v *iso9660.Volume, rootfs *iso9660.Entry) error {
	const sector, volumeSize = 2, 80
	for _, tree := range append([]*iso9660.Volume{v}, v.Supplementary...) {
		if err := c.change(tree.Descriptor+volumeSize,
			iso9660.Both32(uint32(c.moved(tree.Size)/iso9660.SectorSize))); err != nil {
			return err
		}
		for e := range tree.All() {
			if e.Dir || e.Offset < c.start {
				continue
			}
			size := e.Size
			if e.Offset == rootfs.Offset {
				size = 0
			}
			data := append(iso9660.Both32(uint32(c.moved(e.Offset)/iso9660.SectorSize)),
				iso9660.Both32(uint32(size))...)
			if err := c.change(e.Record+sector, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sizes of the parts of partition tables in bytes. Numbers in partition tables are little-endian
// and count blocks.
const (
	block        = 512
	systemArea   = 16 * iso9660.SectorSize
	mbrTable     = 446
	mbrEntry     = 16
	gptHeaderMin = 92
	gptEntryMin  = 128
	maxGPTEntry  = 4096
	maxGPT       = 64 << 10
)

func (c *cut) movedBlock(n uint64) uint64 { return uint64(c.moved(int64(n)*block) / block) }

// movePartitions adapts the partitions in the master boot record of isohybrid images.
func (c *cut) movePartitions() error {
	mbr, err := c.read(0, block)
	if err != nil {
		return err
	}
	if mbr[510] != 0x55 || mbr[511] != 0xaa {
		return nil
	}
	for at := mbrTable; at < mbrTable+4*mbrEntry; at += mbrEntry {
		const kind, first, count = 4, 8, 12
		start := uint64(binary.LittleEndian.Uint32(mbr[at+first:]))
		blocks := uint64(binary.LittleEndian.Uint32(mbr[at+count:]))
		if blocks == 0 || mbr[at+kind] == 0 && mbr[at] == 0 {
			continue
		}
		newStart := c.movedBlock(start)
		binary.LittleEndian.PutUint32(mbr[at+first:], uint32(newStart))
		binary.LittleEndian.PutUint32(mbr[at+count:], uint32(c.movedBlock(start+blocks)-newStart))
	}
	return c.change(0, mbr)
}

// moveTablePartitions adapts the GUID partition table and, if present, its copy at the end (UEFI
// specification, 5.3.2 and 5.3.3).
func (c *cut) moveTablePartitions() error {
	header, err := c.read(block, block)
	if err != nil || string(header[:8]) != "EFI PART" {
		return err
	}
	if err := c.moveTable(block, header); err != nil {
		return err
	}
	copyAt := int64(binary.LittleEndian.Uint64(header[32:]))
	if copyAt <= 1 || copyAt > (c.size-block)/block || copyAt*block < c.end {
		return nil
	}
	if header, err = c.read(copyAt*block, block); err != nil || string(header[:8]) != "EFI PART" {
		return err
	}
	return c.moveTable(copyAt*block, header)
}

func (c *cut) moveTable(at int64, header []byte) error {
	const headerSize, headerSum, own, other, lastUsable, entriesAt, entryCount, entrySize, entriesSum = 12, 16,
		24, 32, 48, 72, 80, 84, 88
	number32 := func(i int) int64 { return int64(binary.LittleEndian.Uint32(header[i:])) }
	length, count, each := number32(headerSize), number32(entryCount), number32(entrySize)
	array := binary.LittleEndian.Uint64(header[entriesAt:])
	if length < gptHeaderMin || length > block || each < gptEntryMin || each > maxGPTEntry || count*each > maxGPT ||
		array > uint64(c.size/block) {
		return noTable("the partition table is damaged")
	}
	// The first array is in the system area, its copy after all files. No other edit changes them.
	if first := int64(array) * block; at == block && first+count*each > systemArea || at != block && first < c.end {
		return noTable("the partition table lies between files")
	}
	entries, err := c.read(int64(array)*block, count*each)
	if err != nil {
		return err
	}
	for e := entries; len(e) > 0; e = e[each:] {
		const kind, first, last = 16, 32, 40
		if bytes.Equal(e[:kind], make([]byte, kind)) {
			continue
		}
		behind := binary.LittleEndian.Uint64(e[last:]) + 1
		binary.LittleEndian.PutUint64(e[first:], c.movedBlock(binary.LittleEndian.Uint64(e[first:])))
		binary.LittleEndian.PutUint64(e[last:], c.movedBlock(behind)-1)
	}
	for _, i := range []int{own, other, entriesAt} {
		binary.LittleEndian.PutUint64(header[i:], c.movedBlock(binary.LittleEndian.Uint64(header[i:])))
	}
	binary.LittleEndian.PutUint64(header[lastUsable:], c.movedBlock(binary.LittleEndian.Uint64(header[lastUsable:])+
		1)-1)
	binary.LittleEndian.PutUint32(header[entriesSum:], crc32.ChecksumIEEE(entries))
	clear(header[headerSum : headerSum+4])
	binary.LittleEndian.PutUint32(header[headerSum:], crc32.ChecksumIEEE(header[:length]))
	return errors.Join(c.change(at, header), c.change(int64(array)*block, entries))
}

// moveHeaders adapts the positions in the headers in the system area of images of 2020 and 2021.
func (c *cut) moveHeaders() error {
	area, err := c.read(kargsHeaderOffset, kargsHeaderLength+headerLength)
	if err != nil {
		return err
	}
	move := func(b []byte) {
		binary.LittleEndian.PutUint64(b, uint64(c.moved(int64(binary.LittleEndian.Uint64(b)))))
	}
	found := false
	if kargs := area[:kargsHeaderLength]; bytes.HasPrefix(kargs, []byte(kargsMark)) {
		found = true
		for i := 16; i < len(kargs); i += 8 { // after the mark and the size of the areas
			move(kargs[i:])
		}
	}
	if embed := area[kargsHeaderLength:]; bytes.HasPrefix(embed, []byte(headerMark)) {
		found = true
		move(embed[len(headerMark):])
	}
	if !found {
		return nil
	}
	return c.change(kargsHeaderOffset, area)
}

// clearTable clears the space for a table, so that the table can be written later.
func (c *cut) clearTable(v *iso9660.Volume) error {
	e := v.Find(tablePath)
	if e == nil || e.Dir || e.Size > maxTable {
		return nil
	}
	return c.change(e.Offset, make([]byte, e.Size))
}

// table returns the remaining sectors as ranges of unchanged sectors and the changed sectors
// between them.
func (c *cut) table(ctx context.Context) (*table, error) {
	t := &table{}
	for at := int64(0); at < c.size; {
		if at == c.start {
			at = c.end
			continue
		}
		if sector := c.changed[at/iso9660.SectorSize]; sector != nil {
			t.between = append(t.between, sector...)
			at += iso9660.SectorSize
			continue
		}
		end := at + iso9660.SectorSize
		for end < c.size && end != c.start && c.changed[end/iso9660.SectorSize] == nil {
			end += iso9660.SectorSize
		}
		t.ranges = append(t.ranges, tableRange{minimal: c.moved(at), full: at, length: end - at})
		at = end
	}
	t.size = c.moved(c.size)
	return t, t.digest(ctx, c.r)
}

// digest sets the digest of the minimal ISO of the live ISO in r.
func (t *table) digest(ctx context.Context, r io.ReaderAt) error {
	h := sha256.New()
	for _, e := range t.layout() {
		var part io.Reader = bytes.NewReader(e.data)
		if e.base {
			part = io.NewSectionReader(r, e.from, e.length)
		}
		for left := e.length; left > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := io.CopyN(h, part, min(left, 4<<20))
			if err != nil {
				return fmt.Errorf("reading the live ISO: %w", err)
			}
			left -= n
		}
	}
	h.Sum(t.sum[:0])
	return nil
}
