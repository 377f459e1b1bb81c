package isogen

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"landfall/isogen/iso9660"
)

// MaxPayload is how large a payload may be when it is packed, bytes.
const MaxPayload = 64 << 20

// embed is what to lay over the base so that it carries a packed payload: in the embed area if it
// fits there, else at the image's end. An area that is only a part of a file cannot move, as in the
// combined boot image of s390x; the error is a *TooLargeError then.
func (b *Base) embed(packed []byte) ([]extent, error) {
	size := int64(len(packed))
	switch {
	case size <= b.area.length:
		return []extent{{start: b.area.offset, length: b.area.length, data: packed}}, nil
	case !b.area.whole():
		return nil, &TooLargeError{Packed: size, Limit: b.area.length, File: b.area.name}
	}
	at, length := wholeSectors(b.size), wholeSectors(size)
	if (at+length)/iso9660.SectorSize > math.MaxUint32 {
		return nil, &TooLargeError{Packed: size, Limit: b.area.length, File: b.area.name}
	}
	description, err := b.relocatedDescription()
	if err != nil {
		return nil, err
	}
	patches := append(description,
		extent{start: b.area.offset, length: b.area.length}, // what was embedded before
		extent{start: at, length: length, data: packed})
	if at > b.size {
		patches = append(patches, extent{start: b.size, length: at - b.size})
	}
	if b.area.header {
		data := binary.LittleEndian.AppendUint64(nil, uint64(at))
		patches = append(patches, patch(headerOffset+int64(len(headerMark)), binary.LittleEndian.AppendUint64(data,
			uint64(length))))
	}
	for _, link := range b.volume.Links(b.area.file) {
		// A record's bytes 1 to 17: sectors of extended attributes, the first sector and the size,
		// both in either byte order (ECMA-119 9.1.2 to 9.1.4).
		data := append([]byte{0}, iso9660.Both32(uint32(at/iso9660.SectorSize))...)
		patches = append(patches, patch(link.Record+1, append(data, iso9660.Both32(uint32(length))...)))
	}
	for _, v := range append([]*iso9660.Volume{b.volume}, b.volume.Supplementary...) {
		// The volume's size in sectors (ECMA-119 8.4.8).
		patches = append(patches, patch(v.Descriptor+80, iso9660.Both32(uint32((at+length)/iso9660.SectorSize))))
	}
	return patches, nil
}

// relocatedDescription rewrites coreos/igninfo.json if it says the area's length: without it the
// area is the whole file, wherever that is.
func (b *Base) relocatedDescription() ([]extent, error) {
	if b.area.info == nil {
		return nil, nil
	}
	data, err := json.Marshal(map[string]string{"file": b.area.name})
	if err != nil {
		return nil, fmt.Errorf("describing the embed area: %w", err)
	}
	blanks := int(b.area.info.Size) - len(data)
	if blanks < 0 { // it says the length besides, so its name must be one that JSON has two ways for
		return nil, &EmbedAreaError{areaDescription, "it has no room for being rewritten"}
	}
	return []extent{patch(b.area.info.Offset, append(data, strings.Repeat(" ", blanks)...))}, nil
}

func patch(at int64, data []byte) extent {
	return extent{start: at, length: int64(len(data)), data: data}
}

// wholeSectors rounds a size up.
func wholeSectors(size int64) int64 {
	return (size + iso9660.SectorSize - 1) / iso9660.SectorSize * iso9660.SectorSize
}
