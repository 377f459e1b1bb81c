package isogen

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
)

// extent is a run of bytes of an image: a range of the base or bytes of ours.
type extent struct {
	start  int64  // in the image
	length int64  // bytes
	base   bool   // a range of the base, else data
	from   int64  // where the range begins in the base
	data   []byte // bytes of ours; zeros follow up to length
}

func (e extent) end() int64 { return e.start + e.length }

// whole is the layout of a base as it is.
func (b *Base) whole() []extent { return []extent{{length: b.size, base: true}} }

// part returns the bytes of e from one position of the image to another.
func (e extent) part(from, to int64) extent {
	skip := from - e.start
	p := extent{start: from, length: to - from, base: e.base}
	if e.base {
		p.from = e.from + skip
	} else if skip < int64(len(e.data)) {
		p.data = e.data[skip:min(int64(len(e.data)), to-e.start)]
	}
	return p
}

// overlay lays patches over a layout. They do not overlap; those that begin at or behind the
// layout's end follow each other there and make the image longer.
func overlay(layout, patches []extent) []extent {
	patches = slices.SortedStableFunc(slices.Values(patches), func(a, b extent) int {
		return cmp.Compare(a.start,
			b.start)
	})
	var result []extent
	at := int64(0)
	keep := func(to int64) {
		for len(layout) > 0 && at < to {
			e := layout[0]
			end := min(e.end(), to)
			if end > at {
				result = append(result, e.part(max(at, e.start), end))
				at = end
			}
			if e.end() > to {
				return
			}
			layout = layout[1:]
		}
	}
	for _, p := range patches {
		keep(p.start)
		result = append(result, p)
		at = p.end()
	}
	keep(math.MaxInt64)
	return result
}

// Image is a discovery image. It holds its own bytes only and may be read by any number of readers
// at once; it never changes.
type Image struct {
	base     *Base // nil if no extent is a range of one
	extents  []extent
	segments []Segment
	size     int64
	etag     string
	sum      *digest
}

// Full returns the image that boots from the base alone with the payload embedded and the kernel
// arguments edited. What was embedded before is replaced, arguments that the base was given after
// it was published included. A payload larger than the embed area moves it to the image's end.
//
// The error is a *TooLargeError if the payload has no room, and a *KernelArgumentError if an
// argument is wrong or if they have none.
func (b *Base) Full(p Payload, args ...KernelArgument) (*Image, error) {
	patches, err := b.edits(p, args)
	if err != nil {
		return nil, err
	}
	layout := overlay(b.whole(), patches)
	return newImage(b, layout, b.segments(layout)), nil
}

// edits is what to lay over the base so that it carries a payload and boots with kernel arguments.
func (b *Base) edits(p Payload, args []KernelArgument) ([]extent, error) {
	packed, err := p.pack()
	if err != nil {
		return nil, err
	}
	return b.carry(packed, args)
}

// carry is edits for a payload that is packed already.
func (b *Base) carry(packed []byte, args []KernelArgument) ([]extent, error) {
	line, err := b.commandLine(args)
	if err != nil {
		return nil, err
	}
	patches, err := b.embed(packed)
	if err != nil {
		return nil, err
	}
	return append(patches, b.kargs.patches(line)...), nil
}

// newImage makes an image of extents that follow each other from byte 0. base may be nil if none
// of them is a range of it.
func newImage(base *Base, layout []extent, segments []Segment) *Image {
	i := &Image{base: base, extents: layout, segments: segments, sum: newDigest()}
	i.size = i.extents[len(i.extents)-1].end()
	h := sha256.New()
	if base != nil {
		fmt.Fprintf(h, "base %s\n", base.identity)
	}
	for _, e := range i.extents {
		fmt.Fprintf(h, "%d %d %t %d %x\n", e.start, e.length, e.base, e.from, sha256.Sum256(e.data))
	}
	i.etag = `"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
	return i
}

// Size returns the size in bytes.
func (i *Image) Size() int64 { return i.size }

// Held returns how many bytes of memory the image's own bytes take.
func (i *Image) Held() int64 {
	sum := int64(0)
	for _, e := range i.extents {
		sum += int64(len(e.data))
	}
	return sum
}

// ETag returns a strong entity tag, quoted. It stands for the recipe: the base's identity, the
// layout and our own bytes. Equal tags mean equal images, today and after a restart.
func (i *Image) ETag() string { return i.etag }

// SHA256 returns the digest of the whole image in hex. The first call reads the image, about a
// second a gigabyte; others wait for it, later ones have it at once. It ends early with ctx's
// error.
func (i *Image) SHA256(ctx context.Context) (string, error) {
	return i.sum.of(ctx, func() io.ReadCloser { return i.NewReader() })
}

// Intact returns a *BaseError if the base was changed since it was opened; readers then return it
// too.
func (i *Image) Intact() error {
	if i.base == nil {
		return nil
	}
	return i.base.Intact()
}

// NewReader returns a reader with a position of its own, at the start. It needs closing.
// If the base was changed since it was opened, every read returns a *BaseError: a mixture of two
// files must never reach a host.
func (i *Image) NewReader() *Reader { return &Reader{image: i, err: i.Intact()} }

// at returns the extent that holds a position inside the image.
func (i *Image) at(pos int64) extent {
	return i.extents[sort.Search(len(i.extents), func(n int) bool { return i.extents[n].end() > pos })]
}
