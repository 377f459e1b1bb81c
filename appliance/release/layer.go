package release

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// entry is one file of a layer. Its name has no leading slash or dot; content is good until the
// next entry.
type entry struct {
	name    string
	header  *tar.Header
	content io.Reader
}

func (e entry) regular() bool { return e.header.Typeflag == tar.TypeReg }

// scanLayer calls visit for every entry of a layer as it comes from a registry, and reads the blob
// to its end, so that a reader that verifies a digest gets to say so. An empty blob is an empty
// layer.
//
// A layer that unpacks to much more than layers do is refused in the middle: it is made to fill
// disks or to cost time.
func scanLayer(blob io.Reader, visit func(entry) error) error {
	packed := &counted{Reader: blob}
	unpacked, err := decompress(packed)
	if err != nil {
		return err
	}
	defer unpacked.Close()
	plain := &bounded{Reader: unpacked, packed: packed}
	tr := tar.NewReader(plain)
	for {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := visit(entry{name: cleanName(header.Name), header: header, content: tr}); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, blob)
	return err
}

// What layers are packed to: programs to a half or a third, logs to a twentieth. Below the floor,
// bytes, nothing is refused.
const (
	packedAtMost = 250
	packedFloor  = 64 << 20
)

// errBomb is the error of a layer that unpacks to much more than layers do.
var errBomb = fmt.Errorf("it unpacks to more than %d times its size, which no layer of a release does; mirror the "+
	"image again", packedAtMost)

// counted counts what is read through it, in bytes.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// bounded ends when what is read is far more than what it was unpacked from.
type bounded struct {
	io.Reader
	packed *counted
	n      int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.n += int64(n); b.n > packedFloor && b.n > packedAtMost*b.packed.n {
		return n, errBomb
	}
	return n, err
}

// decompress tells the compression by the content, since media types are not to be relied on: gzip,
// zstd or none.
func decompress(blob io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(blob, 1<<16)
	start, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		return gzip.NewReader(buffered)
	case bytes.Equal(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(buffered), nil
}

// cleanName makes a tar name relative to the image's root; names that climb out of it end at it.
func cleanName(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// whiteouts gathers what upper layers removed, by the OCI image specification: ".wh.<name>" removes
// a name and all under it, ".wh..wh..opq" all in its directory, and a file that takes a directory's
// place hides what that directory held. None of them touches the layer it stands in, so a layer is
// noted whole before the one below is asked about.
type whiteouts struct {
	names   map[string]bool
	opaque  map[string]bool
	covered map[string]bool
}

func newWhiteouts() *whiteouts {
	return &whiteouts{names: map[string]bool{}, opaque: map[string]bool{}, covered: map[string]bool{}}
}

func (w *whiteouts) note(e entry) {
	dir, base := path.Split(e.name)
	dir = strings.TrimSuffix(dir, "/")
	switch removed, isWhiteout := strings.CutPrefix(base, ".wh."); {
	case base == ".wh..wh..opq":
		w.opaque[dir] = true
	case isWhiteout:
		w.names[path.Join(dir, removed)] = true
	case e.header.Typeflag != tar.TypeDir:
		w.covered[e.name] = true
	}
}

// add notes what another layer removed.
func (w *whiteouts) add(other *whiteouts) {
	maps.Copy(w.names, other.names)
	maps.Copy(w.opaque, other.opaque)
	maps.Copy(w.covered, other.covered)
}

// hide tells whether a name in the layers below those noted is gone.
func (w *whiteouts) hide(name string) bool {
	if w.names[name] {
		return true
	}
	for name != "" {
		name = path.Dir("/" + name)[1:]
		if w.names[name] || w.opaque[name] || w.covered[name] {
			return true
		}
	}
	return false
}
