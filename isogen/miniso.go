package isogen

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"

	"landfall/isogen/iso9660"
)

// A minimal ISO is the live ISO without its root file system. CoreOS Assembler builds both and
// writes a table to coreos/miniso.dat of the live ISO, from which coreos-installer generates the
// minimal ISO. The table lists the ranges of the live ISO that the minimal ISO contains, and the
// bytes between them, compressed by xz (coreos-installer, src/miniso.rs). Numbers have bincode's
// "varint" encoding, little-endian.
//
//	8 bytes    "MINISO\0\0"
//	number     version of the format, 1
//	string     version of the program that wrote the table: its length and its bytes
//	number     number of ranges, and for each range, in the order of the minimal ISO,
//	           its sector in the minimal ISO, its sector in the live ISO and its length in bytes
//	32 bytes   SHA-256 of the minimal ISO
//	number     length of the xz stream, which follows
const (
	tableMark    = "MINISO\x00\x00"
	tableVersion = 1
)

// The limits of a table, in bytes. coreos-installer rejects a table above 1 MiB. The bytes between
// the ranges are directories and small files, less than 1 MB in real images.
const (
	maxTable   = 1 << 20
	maxBetween = 16 << 20
)

// TableError reports that a table for the minimal ISO is damaged or belongs to another ISO.
type TableError struct {
	Where   string // coreos/miniso.dat or the path of a file beside the base
	Problem string
}

func (e *TableError) Error() string {
	return fmt.Sprintf("the table for the minimal ISO, %s, cannot be used: %s", e.Where, e.Problem)
}

// table describes the content of a minimal ISO.
type table struct {
	maker   string       // name of the program that wrote the table
	ranges  []tableRange // by position in the minimal ISO
	between []byte       // the bytes of the minimal ISO outside the ranges
	size    int64        // of the minimal ISO, bytes
	sum     [sha256.Size]byte
}

// tableRange is a part of the live ISO that the minimal ISO contains. Its fields are in bytes.
type tableRange struct {
	minimal, full, length int64
}

// errTruncated reports that a table is truncated.
var errTruncated = errors.New("the table is truncated")

// tableDecoder decodes a table from its start.
type tableDecoder struct{ rest []byte }

func (d *tableDecoder) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(d.rest)) {
		return nil, errTruncated
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b, nil
}

// number decodes a number. A value below 251 is one byte. Larger values have 2, 4 or 8 bytes after
// a byte 251, 252 or 253.
func (d *tableDecoder) number() (uint64, error) {
	b, err := d.bytes(1)
	if err != nil {
		return 0, err
	}
	width := uint64(0)
	switch b[0] {
	default:
		return uint64(b[0]), nil
	case 251:
		width = 2
	case 252:
		width = 4
	case 253:
		width = 8
	case 254, 255:
		return 0, fmt.Errorf("a number starts with the unsupported byte %d", b[0])
	}
	var wide [8]byte
	if b, err = d.bytes(width); err != nil {
		return 0, err
	}
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:]), nil
}

// parseTable parses a table for the minimal ISO of a live ISO of fullSize bytes. It ignores the
// bytes of b after the table, such as the rest of the reserved space. Its memory is limited by the
// length of b and by maxBetween.
func parseTable(b []byte, fullSize int64) (*table, error) {
	if len(b) > maxTable {
		return nil, fmt.Errorf("the table has %d bytes; the limit is %d", len(b), maxTable)
	}
	d := tableDecoder{b}
	if mark, err := d.bytes(uint64(len(tableMark))); err != nil || string(mark) != tableMark {
		return nil, errors.New("the mark at the start of the table is missing")
	}
	version, err := d.number()
	if err != nil {
		return nil, err
	}
	if version != tableVersion {
		return nil, fmt.Errorf("the table has version %d of the format; only version %d is supported", version,
			tableVersion)
	}
	length, err := d.number()
	if err != nil {
		return nil, err
	}
	maker, err := d.bytes(length)
	if err != nil {
		return nil, err
	}
	t := &table{maker: string(maker)}
	if err := t.parseRanges(&d, fullSize); err != nil {
		return nil, err
	}
	sum, err := d.bytes(sha256.Size)
	if err != nil {
		return nil, err
	}
	copy(t.sum[:], sum)
	if length, err = d.number(); err != nil {
		return nil, err
	}
	packed, err := d.bytes(length)
	if err != nil {
		return nil, err
	}
	return t, t.unpack(packed)
}

// parseRanges parses the ranges. In the minimal ISO, they must be ordered and disjoint. In the live
// ISO, they must lie within the ISO.
func (t *table) parseRanges(d *tableDecoder, fullSize int64) error {
	count, err := d.number()
	if err != nil {
		return err
	}
	const shortest = 3 // minimum size of a range in the table, bytes
	if count > uint64(len(d.rest)/shortest) {
		return errTruncated
	}
	t.ranges = make([]tableRange, 0, count)
	end := int64(0)
	for range count {
		var n [3]uint64
		for i := range n {
			if n[i], err = d.number(); err != nil {
				return err
			}
		}
		sectors := uint64(fullSize)/iso9660.SectorSize + 1
		if n[0] > sectors || n[1] > sectors || n[2] > uint64(fullSize) {
			return fmt.Errorf("the range of %d bytes at sector %d, for sector %d of the minimal ISO, is outside of "+
				"the live ISO, which has %d "+
				"bytes", n[2], n[1], n[0], fullSize)
		}
		r := tableRange{int64(n[0]) * iso9660.SectorSize, int64(n[1]) * iso9660.SectorSize, int64(n[2])}
		switch {
		case r.length == 0 || r.full > fullSize-r.length:
			return fmt.Errorf("the range of %d bytes at sector %d is outside of the live ISO, which has %d bytes", n[2],
				n[1], fullSize)
		case r.minimal < end:
			return fmt.Errorf("the ranges are out of order or overlap at sector %d of the minimal ISO", n[0])
		}
		end = r.minimal + r.length
		t.ranges = append(t.ranges, r)
	}
	return nil
}

// unpack decompresses the bytes outside the ranges. They fill the gaps between the ranges; the rest
// follows the last range.
func (t *table) unpack(packed []byte) error {
	b, _, err := unxz(packed, maxBetween)
	if err != nil {
		return fmt.Errorf("the compressed part cannot be unpacked: %w", err)
	}
	covered, end := int64(0), int64(0)
	for _, r := range t.ranges {
		covered += r.length
		end = r.minimal + r.length
	}
	t.size = covered + int64(len(b))
	if t.size < end {
		return fmt.Errorf("the compressed part has %d bytes, but the ranges leave gaps of at least %d",
			len(b), end-covered)
	}
	if t.size%iso9660.SectorSize != 0 {
		return fmt.Errorf("the size of the minimal ISO, %d bytes, is not a whole number of sectors", t.size)
	}
	t.between = b
	return nil
}

// layout returns the minimal ISO as extents.
func (t *table) layout() []extent {
	var layout []extent
	at, rest := int64(0), t.between
	fill := func(n int64) {
		if n > 0 {
			layout = append(layout, extent{start: at, length: n, data: rest[:n:n]})
			at += n
			rest = rest[n:]
		}
	}
	for _, r := range t.ranges {
		fill(r.minimal - at)
		layout = append(layout, extent{start: at, length: r.length, base: true, from: r.full})
		at += r.length
	}
	fill(t.size - at)
	return layout
}

// encode returns the encoded table, which parseTable can read.
func (t *table) encode() ([]byte, error) {
	var packed bytes.Buffer
	// The checksum is CRC-32, as in all xz streams of coreos-installer.
	dictionary := min(max(len(t.between), lzma.MinDictCap), 1<<20)
	z, err := xz.WriterConfig{DictCap: dictionary, CheckSum: xz.CRC32}.NewWriter(&packed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(t.between); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	b := appendNumber([]byte(tableMark), tableVersion)
	b = append(appendNumber(b, uint64(len(t.maker))), t.maker...)
	b = appendNumber(b, uint64(len(t.ranges)))
	for _, r := range t.ranges {
		b = appendNumber(b, uint64(r.minimal/iso9660.SectorSize))
		b = appendNumber(b, uint64(r.full/iso9660.SectorSize))
		b = appendNumber(b, uint64(r.length))
	}
	b = append(b, t.sum[:]...)
	b = append(appendNumber(b, uint64(packed.Len())), packed.Bytes()...)
	if len(b) > maxTable {
		return nil, fmt.Errorf("the table for the minimal ISO would have %d bytes, more than the %d that are allowed",
			len(b), maxTable)
	}
	return slices.Clip(b), nil
}

func appendNumber(b []byte, n uint64) []byte {
	switch {
	case n < 251:
		return append(b, byte(n))
	case n < 1<<16:
		return binary.LittleEndian.AppendUint16(append(b, 251), uint16(n))
	case n < 1<<32:
		return binary.LittleEndian.AppendUint32(append(b, 252), uint32(n))
	}
	return binary.LittleEndian.AppendUint64(append(b, 253), n)
}
