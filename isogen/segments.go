package isogen

import (
	"cmp"
	"slices"
	"strings"

	"landfall/isogen/iso9660"
)

// Segment is a named part of an image. Segments are used to report which parts a client has read.
type Segment struct {
	// Name is "boot loader", "directory", "kernel", "initrd", "config", "rootfs", "boot image"
	// (s390x: kernel and initrd in one) or "other".
	Name       string
	Start, End int64 // offsets in bytes; End is exclusive
}

// Segments returns the parts of the image in order. They cover the whole image. Neighbouring parts
// with the same name are one segment. The slice is shared and must not be changed.
func (i *Image) Segments() []Segment { return i.segments }

// segments returns the segments of an image of the base. If the layout is longer than the base, it
// ends with the payload.
func (b *Base) segments(layout []extent) []Segment {
	size := layout[len(layout)-1].end()
	config := Segment{Name: "config", Start: b.area.offset, End: b.area.offset + b.area.length}
	if size > b.size {
		config = Segment{Name: "config", Start: wholeSectors(b.size), End: size}
	}
	v := b.volume
	parts := []Segment{config}
	add := func(name string, start, length int64) {
		end := start + length
		if start < config.End && config.Start < end { // the file contains the config, or is the config
			parts = append(parts, Segment{name, start, config.Start})
			start = config.End
		}
		parts = append(parts, Segment{name, start, end})
	}
	for path, e := range v.Files() {
		add(segmentName(path), e.Offset, e.Size)
	}
	for _, s := range v.Structures {
		name := "directory"
		if s.Offset == 0 {
			name = "boot loader" // the system area
		}
		add(name, s.Offset, s.Size)
	}
	if v.BootCatalog != 0 {
		add("boot loader", v.BootCatalog, iso9660.SectorSize)
	}
	return joinSegments(parts, size)
}

// segmentName returns the segment name of a file of an ISO.
func segmentName(path string) string {
	path = strings.ToLower(path)
	switch name, _, _ := strings.Cut(path, "."); name {
	case "images/pxeboot/vmlinuz", "images/pxeboot/kernel":
		return "kernel"
	case "images/pxeboot/initrd":
		return "initrd"
	case "images/pxeboot/rootfs":
		return "rootfs"
	case "images/cdboot":
		return "boot image"
	case "images/efiboot":
		return "boot loader"
	}
	switch dir, _, _ := strings.Cut(path, "/"); dir {
	case "efi", "isolinux", "boot", "ppc", "boot.cat", "boot.catalog":
		return "boot loader"
	}
	return "other"
}

// joinSegments returns contiguous segments from 0 to size for parts that may overlap and may be in
// any order.
func joinSegments(parts []Segment, size int64) []Segment {
	slices.SortStableFunc(parts, func(a, b Segment) int { return cmp.Compare(a.Start, b.Start) })
	var run []Segment
	at := int64(0)
	put := func(name string, end int64) {
		if end = min(end, size); end <= at {
			return
		}
		if n := len(run); n > 0 && run[n-1].Name == name {
			run[n-1].End = end
		} else {
			run = append(run, Segment{name, at, end})
		}
		at = end
	}
	parts = slices.DeleteFunc(parts, func(p Segment) bool { return p.End <= p.Start })
	for i, p := range parts {
		end := wholeSectors(p.End) // the rest of the sector is empty, or contains the config
		if i+1 < len(parts) && parts[i+1].Start >= p.End {
			end = min(end, parts[i+1].Start)
		}
		put("other", p.Start)
		put(p.Name, end)
	}
	put("other", size)
	return run
}
