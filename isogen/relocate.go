package isogen

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"landfall/isogen/iso9660"
)

// MaxPayload is the maximum size of a packed payload, in bytes.
const MaxPayload = 64 << 20

// embed returns the patches that add a packed payload to the base: in the embed area if it fits,
// otherwise at the end of the image. An area that is only a part of a file cannot be moved, such as
// the area in the combined boot image of s390x. embed then returns a *TooLargeError.
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
		extent{start: b.area.offset, length: b.area.length}, // erases the previous payload
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
		// Bytes 1 to 17 of a record: sectors of extended attributes, first sector and size, both in
		// both byte orders (ECMA-119 9.1.2 to 9.1.4).
		data := append([]byte{0}, iso9660.Both32(uint32(at/iso9660.SectorSize))...)
		patches = append(patches, patch(link.Record+1, append(data, iso9660.Both32(uint32(length))...)))
	}
	for _, v := range append([]*iso9660.Volume{b.volume}, b.volume.Supplementary...) {
		// The size of the volume in sectors (ECMA-119 8.4.8).
		patches = append(patches, patch(v.Descriptor+80, iso9660.Both32(uint32((at+length)/iso9660.SectorSize))))
	}
	return patches, nil
}

// relocatedDescription returns the patch that removes the length of the area from
// coreos/igninfo.json, if the file contains it. Without a length, the area is the whole file.
func (b *Base) relocatedDescription() ([]extent, error) {
	if b.area.info == nil {
		return nil, nil
	}
	data, err := json.Marshal(map[string]string{"file": b.area.name})
	if err != nil {
		return nil, fmt.Errorf("describing the embed area: %w", err)
	}
	blanks := int(b.area.info.Size) - len(data)
	if blanks < 0 { // only if JSON can encode the name in fewer bytes
		return nil, &EmbedAreaError{areaDescription, "the file is too small for the new description"}
	}
	return []extent{patch(b.area.info.Offset, append(data, strings.Repeat(" ", blanks)...))}, nil
}

// patch returns the extent that writes data at an offset.
func patch(at int64, data []byte) extent {
	return extent{start: at, length: int64(len(data)), data: data}
}

// wholeSectors rounds a size up to whole sectors.
func wholeSectors(size int64) int64 {
	return (size + iso9660.SectorSize - 1) / iso9660.SectorSize * iso9660.SectorSize
}
