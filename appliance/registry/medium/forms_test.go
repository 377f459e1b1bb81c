package medium_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
	"landfall/isogen/iso9660"
)

// image is an image with one layer, whose blobs the tests write in each form.
type image struct {
	layer    string // digest
	manifest string // digest
	blobs    map[string][]byte
	storage  map[string][]byte // as files of a registry, without those of oc-mirror
}

const repository, imageTag = "team/image", "1"

func newImage(t *testing.T) *image {
	t.Helper()
	a := &simulated.Archive{}
	made := &image{blobs: map[string][]byte{}, storage: map[string][]byte{}}
	var err error
	made.layer, err = a.AddBlob(t.Context(), repository, imageTag, bytes.Repeat([]byte("0123456789"), 1000))
	require.NoError(t, err)
	made.manifest = a.Tagged(repository, imageTag)
	var archive bytes.Buffer
	require.NoError(t, a.Write(&archive))
	for in := tar.NewReader(&archive); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return made
		}
		require.NoError(t, err)
		if !strings.HasPrefix(header.Name, "docker/") {
			continue
		}
		data, err := io.ReadAll(in)
		require.NoError(t, err)
		made.storage[header.Name] = data
		if strings.HasSuffix(header.Name, "/data") {
			made.blobs[filepath.Base(filepath.Dir(header.Name))] = data
		}
	}
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// writeFiles writes files below a folder.
func writeFiles(t *testing.T, folder string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
}

// layout returns the files of an OCI layout.
func (i *image) layout(t *testing.T) map[string][]byte {
	t.Helper()
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []map[string]any{{
		"mediaType": medium.TypeOCIManifest, "digest": i.manifest, "size": len(i.blobs[hexOf(i.manifest)]),
		"annotations": map[string]string{"org.opencontainers.image.ref.name": "example.com/" + repository + ":" +
			imageTag}}}})
	require.NoError(t, err)
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": index}
	for hex, data := range i.blobs {
		files["blobs/sha256/"+hex] = data
	}
	return files
}

// courier returns the files of a folder of the courier, in which the layer has two parts.
func (i *image) courier(t *testing.T) map[string][]byte {
	t.Helper()
	bundle, err := json.Marshal(map[string]any{"version": 1, "release": "4.20.8", "items": []map[string]string{{
		"source": "example.com/" + repository + "@" + i.manifest, "digest": i.manifest,
		"destination": "mirror.site:5000/" + repository + ":" + imageTag, "media_type": medium.TypeOCIManifest}}})
	require.NoError(t, err)
	files := map[string][]byte{"bundle.json": bundle, "blobs/" + strings.Repeat("0", 64) + ".partial": []byte("x")}
	for hex, data := range i.blobs {
		files["blobs/"+hex] = data
	}
	layer := "blobs/" + hexOf(i.layer)
	files[layer+".1"], files[layer] = files[layer][7000:], files[layer][:7000]
	return files
}

// imageFiles writes a folder of oc image mirror, in which tags are symbolic links.
func (i *image) imageFiles(t *testing.T, folder string) {
	t.Helper()
	files := map[string][]byte{}
	for hex, data := range i.blobs {
		kind := "blobs"
		if hex == hexOf(i.manifest) {
			kind = "manifests"
		}
		files["v2/"+repository+"/"+kind+"/sha256:"+hex] = data
	}
	writeFiles(t, folder, files)
	require.NoError(t, os.Symlink(i.manifest, filepath.Join(folder, "v2", repository, "manifests", imageTag)))
}

// tarFile writes files as a tar archive.
func tarFile(t *testing.T, path string, files map[string][]byte) {
	t.Helper()
	texts := map[string]string{}
	for name, data := range files {
		texts[name] = string(data)
	}
	content, err := tarOf(texts)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// TestScan_forms reads an image from each form: it finds the medium, its tag, and all bytes of the
// layer.
func TestScan_forms(t *testing.T) {
	i := newImage(t)
	for name, c := range map[string]struct {
		write      func(t *testing.T, folder string)
		form       medium.Form
		repository string
	}{
		"folder of a registry": {func(t *testing.T, folder string) {
			writeFiles(t, folder, i.storage)
		}, medium.FormRegistry, repository},
		"folder with an OCI layout": {func(t *testing.T, folder string) {
			writeFiles(t, folder, i.layout(t))
		}, medium.FormOCI, "example.com/" + repository},
		"OCI archive": {func(t *testing.T, folder string) {
			tarFile(t, filepath.Join(folder, "image.tar"), i.layout(t))
		}, medium.FormOCI, "example.com/" + repository},
		"folder of the courier": {func(t *testing.T, folder string) {
			writeFiles(t, folder, i.courier(t))
		}, medium.FormCourier, repository},
		"folder of oc image mirror": {i.imageFiles, medium.FormImageFiles, repository},
		"ISO file": {func(t *testing.T, folder string) {
			var files []iso9660.File
			for path, data := range i.storage {
				files = append(files, iso9660.File{Path: path, Data: data})
			}
			var volume bytes.Buffer
			require.NoError(t, iso9660.Write(&volume, iso9660.Image{VolumeID: "registry", Files: files}))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "data.iso"), volume.Bytes(), 0o600))
		}, medium.FormRegistry, repository},
		"ISO file of xorriso": {func(t *testing.T, folder string) {
			_, err := exec.LookPath("xorriso")
			require.NoError(t, err, "run .ci/install-emulator, as `make test` does")
			source := t.TempDir()
			writeFiles(t, source, i.storage)
			out, err := exec.CommandContext(t.Context(), "xorriso", "-as", "mkisofs", "-quiet", "-r", "-o",
				filepath.Join(folder, "data.iso"), source).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}, medium.FormRegistry, repository},
	} {
		t.Run(name, func(t *testing.T) {
			stick := t.TempDir()
			folder := filepath.Join(stick, "content")
			require.NoError(t, os.Mkdir(folder, 0o700))
			c.write(t, folder)
			found, unusable, err := medium.Find(stick, nil)
			require.NoError(t, err)
			require.Empty(t, unusable)
			require.Len(t, found, 1)
			index, err := medium.Scan(t.Context(), found[0], medium.OpenFile, func() {})
			require.NoError(t, err)
			require.Empty(t, index.Problems)
			require.Equal(t, c.form, index.Form)
			require.Equal(t, i.manifest, index.Repositories[c.repository][imageTag])
			require.Equal(t, i.blobs[hexOf(i.manifest)], index.Manifests[i.manifest].Data)
			reader, err := medium.NewReader(medium.ReaderOptions{Location: found[0], Index: index,
				Open: medium.OpenFile})
			require.NoError(t, err)
			defer func() { require.NoError(t, reader.Close()) }()
			layer := index.Blobs[i.layer]
			var whole, part bytes.Buffer
			_, err = reader.Copy(t.Context(), &whole, layer, 0, layer.Size())
			require.NoError(t, err)
			require.Equal(t, i.blobs[hexOf(i.layer)], whole.Bytes())
			_, err = reader.Copy(t.Context(), &part, layer, 6990, 20)
			require.NoError(t, err)
			require.Equal(t, i.blobs[hexOf(i.layer)][6990:7010], part.Bytes())
		})
	}
}

// TestScan_emptyFiles has a blob without bytes, as a copy to a full disk leaves it, and a link to
// nothing.
func TestScan_emptyFiles(t *testing.T) {
	i := newImage(t)
	files := i.layout(t)
	files["blobs/sha256/"+hexOf(i.layer)] = nil
	folder := t.TempDir()
	writeFiles(t, folder, files)
	dangling := strings.Repeat("a", 64)
	require.NoError(t, os.Symlink("nowhere", filepath.Join(folder, "blobs", "sha256", dangling)))
	index, err := scanFolder(t, folder)
	require.NoError(t, err)
	require.NotContains(t, index.Blobs, i.layer)
	require.NotContains(t, index.Blobs, "sha256:"+dangling)
	require.Len(t, index.Problems, 2)
}

// TestScan_manyLargeManifests has more manifests than the memory of an appliance should hold. The
// first ones are served.
func TestScan_manyLargeManifests(t *testing.T) {
	const count, size = 33, 8 << 20
	folder := t.TempDir()
	var images []map[string]any
	for n := range count {
		manifest := fmt.Appendf(nil, `{"schemaVersion":2,"annotations":{"number":"%02d","long":"`, n)
		manifest = append(manifest, bytes.Repeat([]byte("x"), size-len(manifest)-3)...)
		manifest = append(manifest, `"}}`...)
		sum := sha256.Sum256(manifest)
		digest := hex.EncodeToString(sum[:])
		writeFiles(t, folder, map[string][]byte{"blobs/sha256/" + digest: manifest})
		images = append(images, map[string]any{"digest": "sha256:" + digest})
	}
	list, err := json.Marshal(map[string]any{"manifests": images})
	require.NoError(t, err)
	writeFiles(t, folder, map[string][]byte{"oci-layout": []byte("{}"), "index.json": list})
	index, err := scanFolder(t, folder)
	require.NoError(t, err)
	require.Len(t, slices.Collect(maps.Keys(index.Manifests)), 32)
	require.Len(t, index.Blobs, count)
	require.Len(t, index.Problems, 1)
	require.Contains(t, index.Problems[0].Text, "has more than 256 MiB of manifests and signatures, and 1 of them "+
		"were left out")
}

// scanFolder scans a folder, and requires that the scan reports its progress.
func scanFolder(t *testing.T, folder string) (*medium.Index, error) {
	t.Helper()
	steps := 0
	defer func() { require.Greater(t, steps, 5) }()
	return medium.Scan(t.Context(), medium.Location{Path: folder, Container: medium.Folder}, medium.OpenFile,
		func() { steps++ })
}

// TestScan_sources has names of sources that are not those of images: they must not reach the
// mirror rules.
func TestScan_sources(t *testing.T) {
	i := newImage(t)
	files := i.courier(t)
	files["bundle.json"] = bytes.Replace(files["bundle.json"], []byte("example.com/"),
		[]byte(`example.com\"\n[[registry]]/`), 1)
	folder := t.TempDir()
	writeFiles(t, folder, files)
	index, err := scanFolder(t, folder)
	require.NoError(t, err)
	require.Empty(t, index.Sources)
	require.Empty(t, index.Named)
}
