package isogen

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"landfall/isogen/iso9660"
)

// ErrNoEmbedArea says that an ISO has no place for an Ignition config.
var ErrNoEmbedArea = errors.New("it has no Ignition embed area (coreos/igninfo.json, images/ignition.img or a coreiso+ header)")

// EmbedAreaError says that an ISO describes its embed area wrongly.
type EmbedAreaError struct {
	Where   string // the description: a path in the ISO or the name of the header
	Problem string
}

func (e *EmbedAreaError) Error() string {
	return fmt.Sprintf("its description of the Ignition embed area, %s, is wrong: %s", e.Where, e.Problem)
}

// area is the part of an ISO that is set aside for a packed payload, bytes.
type area struct {
	offset, length int64
}

// maxDescription bounds the JSON descriptions in an ISO; real ones have less than 1 KiB.
const maxDescription = 64 << 10

// The header that images of 2020 and 2021 carry in the last 24 bytes of the system area: a mark, the
// area's offset and its length, both 64-bit little-endian.
const (
	headerMark   = "coreiso+"
	headerOffset = 32744
	headerLength = 24
)

// findArea looks where coreos-installer does, and then for the header that it once used.
func findArea(r io.ReaderAt, size int64, v *iso9660.Volume) (area, error) {
	if info := v.Find("coreos/igninfo.json"); info != nil {
		return describedArea(r, v, info)
	}
	if img := v.Find("images/ignition.img"); img != nil && !img.Dir {
		return checked(area{img.Offset, img.Size}, size, "images/ignition.img")
	}
	header := make([]byte, headerLength)
	if _, err := r.ReadAt(header, headerOffset); err != nil {
		return area{}, fmt.Errorf("reading the system area: %w", err)
	}
	if string(header[:len(headerMark)]) != headerMark {
		return area{}, ErrNoEmbedArea
	}
	a := area{int64(binary.LittleEndian.Uint64(header[8:])), int64(binary.LittleEndian.Uint64(header[16:]))}
	return checked(a, size, "the coreiso+ header")
}

// describedArea reads coreos/igninfo.json: the file that holds the area and, where the area is only
// a part of it, offset and length in it.
func describedArea(r io.ReaderAt, v *iso9660.Volume, e *iso9660.Entry) (area, error) {
	const where = "coreos/igninfo.json"
	if e.Dir || e.Size > maxDescription {
		return area{}, &EmbedAreaError{where, "it is not a small file"}
	}
	b := make([]byte, e.Size)
	if n, err := r.ReadAt(b, e.Offset); n < len(b) {
		return area{}, fmt.Errorf("reading %s: %w", where, err)
	}
	var info struct {
		File   string `json:"file"`
		Offset *int64 `json:"offset"`
		Length *int64 `json:"length"`
	}
	if err := json.Unmarshal(b, &info); err != nil {
		return area{}, &EmbedAreaError{where, err.Error()}
	}
	img := v.Find(info.File)
	if info.File == "" || img == nil || img.Dir {
		return area{}, &EmbedAreaError{where, fmt.Sprintf("there is no file %q", info.File)}
	}
	offset, length := int64(0), img.Size
	if info.Offset != nil {
		offset = *info.Offset
		length -= offset
	}
	if info.Length != nil {
		length = *info.Length
	}
	if offset < 0 || length < 0 || offset > img.Size || length > img.Size-offset {
		return area{}, &EmbedAreaError{where, fmt.Sprintf("%d bytes at %d are outside of %s, which has %d", length, offset, info.File, img.Size)}
	}
	return checked(area{img.Offset + offset, length}, v.Size, where)
}

func checked(a area, size int64, where string) (area, error) {
	switch {
	case a.offset < 0 || a.length < 0 || a.offset > size || a.length > size-a.offset:
		return area{}, &EmbedAreaError{where, fmt.Sprintf("%d bytes at %d are outside of the ISO, which has %d", a.length, a.offset, size)}
	case a.length == 0:
		return area{}, &EmbedAreaError{where, "the area is empty"}
	}
	return a, nil
}
