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

// entry is one file of a layer. Its name has no leading slash or dot. Its content is valid until
// the next entry.
type entry struct {
	name    string
	header  *tar.Header
	content io.Reader
}

func (e entry) regular() bool { return e.header.Typeflag == tar.TypeReg }

// scanLayer calls visit for each entry of a layer from a registry. It reads the blob to its end, so
// that a verifying reader can check the digest. An empty blob is an empty layer.
//
// A layer with an extreme compression ratio is rejected, because it is meant to fill disks or waste
// time.
func scanLayer(blob io.Reader, visit func(entry) error) error {
	packed := &countingReader{Reader: blob}
	unpacked, err := decompress(packed)
	if err != nil {
		return err
	}
	defer unpacked.Close()
	plain := &ratioReader{Reader: unpacked, packed: packed}
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

// Limits of the compression ratio. Programs compress to a half or a third, logs to a twentieth.
// Layers smaller than the floor, in bytes, are always accepted.
const (
	packedAtMost = 250
	packedFloor  = 64 << 20
)

// errCompressionRatio is the error of a layer with an extreme compression ratio.
var errCompressionRatio = fmt.Errorf("the layer unpacks to more than %d times its size, unlike any layer of a "+
	"release; mirror the image again", packedAtMost)

// countingReader counts the bytes that are read through it.
type countingReader struct {
	io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// ratioReader fails when the unpacked data exceeds the allowed ratio.
type ratioReader struct {
	io.Reader
	packed *countingReader
	n      int64
}

func (b *ratioReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.n += int64(n); b.n > packedFloor && b.n > packedAtMost*b.packed.n {
		return n, errCompressionRatio
	}
	return n, err
}

// decompress detects the compression by the content, because media types are unreliable: gzip, zstd
// or none.
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

// cleanName makes a tar name relative to the image's root. A name cannot refer to files above the
// root.
func cleanName(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// whiteouts collects the removals in upper layers (OCI image specification): ".wh.<name>" removes a
// name and everything below it, ".wh..wh..opq" everything in its directory, and a file that
// replaces a directory hides its content. A removal does not affect its own layer, so a layer is
// recorded completely before lower layers are searched.
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

// add records the removals of another layer.
func (w *whiteouts) add(other *whiteouts) {
	maps.Copy(w.names, other.names)
	maps.Copy(w.opaque, other.opaque)
	maps.Copy(w.covered, other.covered)
}

// hide reports whether the recorded layers removed a name from the layers below.
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
