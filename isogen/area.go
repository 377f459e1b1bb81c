package isogen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"landfall/isogen/iso9660"
)

// ErrNoEmbedArea says that an ISO has no place for an Ignition config.
var ErrNoEmbedArea = errors.New("it has no Ignition embed area (coreos/igninfo.json, images/ignition.img or a " +
	"coreiso+ header)")

// EmbedAreaError says that an ISO describes its embed area, or its areas for kernel arguments,
// wrongly.
type EmbedAreaError struct {
	Where   string // the description: a path in the ISO or the name of the header
	Problem string
}

func (e *EmbedAreaError) Error() string {
	return fmt.Sprintf("its description of an embed area, %s, is wrong: %s", e.Where, e.Problem)
}

// area is the part of an ISO that is set aside for a packed payload.
type area struct {
	offset, length int64 // bytes

	where  string         // its description
	file   *iso9660.Entry // that it lies in; nil if it lies in none
	name   string         // of that file, its path in the ISO
	header bool           // whether there is a coreiso+ header, which says the same
	info   *iso9660.Entry // coreos/igninfo.json if it says the length, which then changes with it
}

// whole tells whether the area is a file of its own, which may lie elsewhere as well.
func (a area) whole() bool {
	return a.file != nil && a.offset == a.file.Offset && a.length == a.file.Size && !a.file.Split
}

// maxDescription bounds the JSON descriptions in an ISO; real ones have less than 1 KiB.
const maxDescription = 64 << 10

// The header that images of 2020 and 2021 carry in the last 24 bytes of the system area: a mark,
// the area's offset and its length, both 64-bit little-endian.
const (
	headerMark   = "coreiso+"
	headerOffset = 32744
	headerLength = 24
)

const (
	areaDescription = "coreos/igninfo.json"
	areaFile        = "images/ignition.img"
	areaHeader      = "the coreiso+ header"
)

// findAreas finds the embed area and those for kernel arguments, and makes sure that writing to
// them writes to nothing else.
func findAreas(r io.ReaderAt, v *iso9660.Volume, size int64) (area, *kernelArgumentAreas, error) {
	a, err := findArea(r, v, size)
	if err != nil {
		return a, nil, err
	}
	k, err := findKernelArgumentAreas(r, v, size)
	if err != nil {
		return a, nil, err
	}
	return a, k, checkAreas(v, a, k)
}

// findArea looks where coreos-installer does, and then for the header that it once used.
func findArea(r io.ReaderAt, v *iso9660.Volume, size int64) (area, error) {
	header := make([]byte, headerLength)
	if _, err := r.ReadAt(header, headerOffset); err != nil {
		return area{}, fmt.Errorf("reading the system area: %w", err)
	}
	a := area{header: string(header[:len(headerMark)]) == headerMark}
	if info := v.Find(areaDescription); info != nil {
		if err := a.describe(r, v, info); err != nil {
			return area{}, err
		}
	} else if img := v.Find(areaFile); img != nil && !img.Dir {
		a.where, a.name, a.file, a.offset, a.length = areaFile, areaFile, img, img.Offset, img.Size
	} else if a.header {
		a.where = areaHeader
		a.offset, a.length = int64(binary.LittleEndian.Uint64(header[8:])),
			int64(binary.LittleEndian.Uint64(header[16:]))
	} else {
		return area{}, ErrNoEmbedArea
	}
	switch {
	case a.offset < 0 || a.length < 0 || a.offset > size || a.length > size-a.offset:
		return area{}, &EmbedAreaError{a.where, fmt.Sprintf("%d bytes at %d are outside of the ISO, which has %d",
			a.length, a.offset, size)}
	case a.length == 0:
		return area{}, &EmbedAreaError{a.where, "the area is empty"}
	}
	if a.file == nil {
		a.file, a.name = v.FileAt(a.offset, a.length)
	}
	return a, nil
}

// describe reads coreos/igninfo.json: the file that holds the area and, where the area is only a
// part of it, offset and length in it.
func (a *area) describe(r io.ReaderAt, v *iso9660.Volume, e *iso9660.Entry) error {
	a.where = areaDescription
	var info struct {
		File   string `json:"file"`
		Offset *int64 `json:"offset"`
		Length *int64 `json:"length"`
	}
	if err := readJSON(r, e, areaDescription, &info); err != nil {
		return err
	}
	img := v.Find(info.File)
	if info.File == "" || img == nil || img.Dir {
		return &EmbedAreaError{areaDescription, fmt.Sprintf("there is no file %q", info.File)}
	}
	offset, length := int64(0), img.Size
	if info.Offset != nil {
		offset = *info.Offset
		length -= offset
	}
	if info.Length != nil {
		length = *info.Length
		a.info = e
	}
	if offset < 0 || length < 0 || offset > img.Size || length > img.Size-offset {
		return &EmbedAreaError{areaDescription, fmt.Sprintf("%d bytes at %d are outside of %s, which has %d",
			length, offset, info.File, img.Size)}
	}
	a.name, a.file, a.offset, a.length = info.File, img, img.Offset+offset, length
	return nil
}

// checkAreas refuses areas that share bytes with anything else.
func checkAreas(v *iso9660.Volume, a area, k *kernelArgumentAreas) error {
	taken := slices.Clone(v.Structures)
	if v.BootCatalog != 0 {
		taken = append(taken, iso9660.Range{Offset: v.BootCatalog, Size: iso9660.SectorSize, What: "the boot catalog"})
	}
	for _, path := range []string{areaDescription, kargsDescription} {
		if e := v.Find(path); e != nil {
			taken = append(taken, iso9660.Range{Offset: e.Offset, Size: e.Size, What: path})
		}
	}
	if err := checkOverlaps(v, taken, a.where, a.offset, a.length); err != nil || k == nil {
		return err
	}
	taken = append(taken, iso9660.Range{Offset: a.offset, Size: a.length, What: "the Ignition embed area"})
	for _, area := range k.list {
		if err := checkOverlaps(v, taken, k.where, area.offset, k.size); err != nil {
			return err
		}
		taken = append(taken, iso9660.Range{Offset: area.offset, Size: k.size, What: "an area for kernel arguments"})
	}
	return nil
}

// checkOverlaps refuses an area that shares bytes with what is taken or with several files; hard
// links count as one file.
func checkOverlaps(v *iso9660.Volume, taken []iso9660.Range, where string, offset, length int64) error {
	wrong := func(what string) error {
		return &EmbedAreaError{where, fmt.Sprintf("%d bytes at %d overlap %s", length, offset, what)}
	}
	for _, t := range taken {
		if t.Overlaps(offset, length) {
			return wrong(t.What)
		}
	}
	var holder *iso9660.Entry
	for e := range v.All() {
		if e.Dir || !(iso9660.Range{Offset: e.Offset, Size: e.Size}).Overlaps(offset, length) {
			continue
		}
		if holder != nil && (holder.Offset != e.Offset || holder.Size != e.Size) {
			return wrong("both " + holder.Name + " and " + e.Name)
		}
		holder = e
		if offset < e.Offset || offset+length > e.Offset+e.Size {
			return wrong("a part of " + e.Name)
		}
	}
	return nil
}
