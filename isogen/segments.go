package isogen

// Segment is a named part of an image, so that a person can be told what was read of it.
type Segment struct {
	Name       string // "boot loader", "kernel", "initrd", "config", "rootfs", …
	Start, End int64  // bytes; End is behind the last one
}

// Segments returns the parts of the image in their order. Together they are the whole image.
func (i *Image) Segments() []Segment { return i.segments }
