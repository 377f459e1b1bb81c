package simulate

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layerFile is a file of a layer: its text, or the content of the file at path.
type layerFile struct {
	name string
	mode int64
	text []byte
	path string
}

func textFile(name, text string) layerFile {
	return layerFile{name: name, mode: 0o644, text: []byte(text)}
}

// fileLayer is an uncompressed layer that is made as it is read, so that an executable of any size passes through no buffer of ours.
type fileLayer struct {
	parts  []layerPart
	digest v1.Hash
	size   int64
}

// layerPart is a stretch of a tar: bytes, or a file's beginning.
type layerPart struct {
	data    []byte
	path    string
	size    int64
	content bool // of a file, not the tar's own
}

func newFileLayer(files ...layerFile) (*fileLayer, error) {
	l := &fileLayer{}
	for _, f := range files {
		size := int64(len(f.text))
		if f.path != "" {
			info, err := os.Stat(f.path)
			if err != nil {
				return nil, err
			}
			size = info.Size()
		}
		var header bytes.Buffer
		if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: size}); err != nil {
			return nil, err
		}
		l.parts = append(l.parts, layerPart{data: header.Bytes(), size: int64(header.Len())}, layerPart{data: f.text, path: f.path, size: size, content: true})
		if rest := size % 512; rest != 0 {
			l.parts = append(l.parts, layerPart{data: make([]byte, 512-rest), size: 512 - rest})
		}
	}
	l.parts = append(l.parts, layerPart{data: make([]byte, 1024), size: 1024})
	return l.measured()
}

// truncated gives the layer cut in the middle of its largest file, with a digest that says nothing of it.
func (l *fileLayer) truncated() (*fileLayer, error) {
	cut := &fileLayer{}
	largest := 0
	for i, p := range l.parts {
		if p.content && (!l.parts[largest].content || p.size > l.parts[largest].size) {
			largest = i
		}
	}
	cut.parts = append(cut.parts, l.parts[:largest+1]...)
	cut.parts[largest].size /= 2
	return cut.measured()
}

func (l *fileLayer) measured() (*fileLayer, error) {
	content, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	l.digest, l.size, err = v1.SHA256(content)
	return l, errors.Join(err, content.Close())
}

// Digest is the hash of the tar.
func (l *fileLayer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the Digest, for nothing is compressed.
func (l *fileLayer) DiffID() (v1.Hash, error) { return l.digest, nil }

// Size is in bytes.
func (l *fileLayer) Size() (int64, error) { return l.size, nil }

// MediaType says that nothing is compressed.
func (l *fileLayer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// Uncompressed is Compressed.
func (l *fileLayer) Uncompressed() (io.ReadCloser, error) { return l.Compressed() }

// Compressed gives the tar.
func (l *fileLayer) Compressed() (io.ReadCloser, error) {
	r := &layerReader{}
	var readers []io.Reader
	for _, p := range l.parts {
		if p.path == "" {
			readers = append(readers, bytes.NewReader(p.data[:p.size]))
			continue
		}
		file, err := os.Open(p.path)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.files = append(r.files, file)
		readers = append(readers, io.LimitReader(file, p.size))
	}
	r.Reader = io.MultiReader(readers...)
	return r, nil
}

type layerReader struct {
	io.Reader
	files []*os.File
}

// Close closes the files that the tar is made of.
func (r *layerReader) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
