package isogen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"landfall/isogen/iso9660"
)

// ErrNoEmbedArea reports that an ISO has no embed area for an Ignition config.
var ErrNoEmbedArea = errors.New("the ISO has no Ignition embed area (coreos/igninfo.json, images/ignition.img or a " +
	"coreiso+ header)")

// EmbedAreaError reports that an ISO describes its embed area, or its areas for kernel arguments,
// incorrectly.
type EmbedAreaError struct {
	Where   string // location of the description: a path in the ISO or the name of the header
	Problem string
}

func (e *EmbedAreaError) Error() string {
	return fmt.Sprintf("the description of an embed area in %s is invalid: %s", e.Where, e.Problem)
}

// area is the embed area of an ISO, the space reserved for a packed payload.
type area struct {
	offset, length int64 // bytes

	where  string         // the description of the area
	file   *iso9660.Entry // file that contains the area, or nil
	name   string         // path of that file in the ISO
	header bool           // the ISO also has a coreiso+ header with the area's position
	info   *iso9660.Entry // entry of coreos/igninfo.json if that file contains the area's length, else nil
}

// whole reports whether the area is a whole file. Only such an area can be moved.
func (a area) whole() bool {
	return a.file != nil && a.offset == a.file.Offset && a.length == a.file.Size && !a.file.Split
}

// maxDescription is the maximum size of a JSON description in an ISO. Descriptions of published
// ISOs are smaller than 1 KiB.
const maxDescription = 64 << 10

// Header in the last 24 bytes of the system area of ISOs of 2020 and 2021: a mark, then the offset
// and the length of the area (64 bits, little-endian).
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

// findAreas finds the embed area and the areas for kernel arguments. It returns an error if they
// overlap other parts of the ISO.
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

// findArea finds the embed area as coreos-installer does. If that fails, it uses the header that
// older versions of coreos-installer used.
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

// describe reads coreos/igninfo.json. It names the file that contains the area. If the area is only
// a part of the file, it also contains the area's offset and length.
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
		return &EmbedAreaError{areaDescription, fmt.Sprintf("the ISO has no file %q", info.File)}
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

// checkAreas returns an error if an area overlaps another part of the ISO.
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

// checkOverlaps returns an error if an area overlaps a used range or several files. Hard links
// count as one file.
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
