package registry

import (
	"archive/tar"
	"bytes"
	"cmp"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// emptyImage returns an OCI image without layers. The library's empty image has Docker's media type
// of the configuration, with which podman refuses an OCI image.
func emptyImage() v1.Image {
	return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
}

// layerFile is a file of a layer.
type layerFile struct {
	name string
	mode int64
	text string
}

func textFile(name, text string) layerFile {
	return layerFile{name: name, mode: 0o644, text: text}
}

// newFileLayer returns an uncompressed layer.
func newFileLayer(files ...layerFile) (v1.Layer, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	if err := writeFiles(w, files); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return static.NewLayer(content.Bytes(), types.OCIUncompressedLayer), nil
}

// truncatedLayer returns a layer that is cut off in the middle of its largest file. Its digest
// matches the truncated content.
func truncatedLayer(files ...layerFile) (v1.Layer, error) {
	largest := slices.MaxFunc(files, func(a, b layerFile) int { return cmp.Compare(len(a.text), len(b.text)) })
	var content bytes.Buffer
	if err := writeFiles(tar.NewWriter(&content), files[:slices.Index(files, largest)+1]); err != nil {
		return nil, err
	}
	content.Truncate(content.Len() - (len(largest.text)+1)/2)
	return static.NewLayer(content.Bytes(), types.OCIUncompressedLayer), nil
}

func writeFiles(w *tar.Writer, files []layerFile) error {
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode,
			Size: int64(len(f.text))}); err != nil {
			return err
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			return err
		}
	}
	return nil
}
