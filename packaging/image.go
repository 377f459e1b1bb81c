package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser is the user of the process in an image; clusters run images of any user of this range.
const imageUser = 65532

// writeImage writes the image of a target: a tar file with the image in the layout of OCI and with
// the index of docker load.
func (b *build) writeImage(t target) (err error) {
	name := "landfall:" + tagOf(b.version)
	image, err := b.image(t)
	if err != nil {
		return fmt.Errorf("build the image for %s: %w", t, err)
	}
	dir, err := os.MkdirTemp("", "landfall-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	held, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := held.AppendImage(image, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tagOf(b.version), "io.containerd.image.name": name,
	}), layout.WithPlatform(v1.Platform{OS: t.os, Architecture: t.arch})); err != nil {
		return err
	}
	manifest, err := dockerManifest(image, name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), manifest, 0o644); err != nil {
		return err
	}
	file, err := os.Create(b.file("landfall-" + b.version + "-" + t.String() + ".oci.tar"))
	if err != nil {
		return err
	}
	return errors.Join(b.archive(file, dir), file.Close())
}

// tagOf returns the tag of an image for a version. Tags have no plus signs.
func tagOf(version string) string {
	return string(bytes.ReplaceAll([]byte(version), []byte("+"), []byte("-")))
}

// dockerManifest is the index of docker load, with the files of the OCI layout.
func dockerManifest(image v1.Image, name string) ([]byte, error) {
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	config, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		paths = append(paths, blob(digest))
	}
	return json.Marshal([]map[string]any{{"Config": blob(config), "RepoTags": []string{name}, "Layers": paths}})
}

func (b *build) image(t target) (v1.Image, error) {
	content, err := b.layer(t)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: b.time}, CreatedBy: "make dist"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.os, t.arch, v1.Time{Time: b.time}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", imageUser, imageUser),
		Entrypoint: []string{"/landfall"},
		Cmd:        []string{"serve", "--data-dir", "/var/lib/landfall"},
		WorkingDir: "/var/lib/landfall",
		Volumes:    map[string]struct{}{"/var/lib/landfall": {}},
		ExposedPorts: map[string]struct{}{
			"8090/tcp": {}, "8091/tcp": {},
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Landfall",
			"org.opencontainers.image.version":  b.version,
			"org.opencontainers.image.created":  b.time.Format("2006-01-02T15:04:05Z"),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// layer returns the files of an image: the program, what it needs of a system, and the licenses.
func (b *build) layer(t target) ([]byte, error) {
	var content bytes.Buffer
	writer := tar.NewWriter(&content)
	add := func(name string, kind byte, mode int64, owner int, text []byte) error {
		if err := writer.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Mode: mode, Uid: owner, Gid: owner,
			Size: int64(len(text)), ModTime: b.time, Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err := writer.Write(text)
		return err
	}
	program, err := os.ReadFile(b.programs[t])
	if err != nil {
		return nil, err
	}
	licenses, err := os.ReadFile(b.file(licensesName))
	if err != nil {
		return nil, err
	}
	passwd := fmt.Sprintf("root:x:0:0:root:/:/nologin\nlandfall:x:%d:%d:Landfall:/var/lib/landfall:/nologin\n",
		imageUser, imageUser)
	group := fmt.Sprintf("root:x:0:\nlandfall:x:%d:\n", imageUser)
	for _, err := range []error{
		add("landfall", tar.TypeReg, 0o755, 0, program),
		add("etc/", tar.TypeDir, 0o755, 0, nil),
		add("etc/group", tar.TypeReg, 0o644, 0, []byte(group)),
		add("etc/passwd", tar.TypeReg, 0o644, 0, []byte(passwd)),
		add("licenses.txt", tar.TypeReg, 0o644, 0, licenses),
		add("tmp/", tar.TypeDir, 0o1777, 0, nil),
		add("var/", tar.TypeDir, 0o755, 0, nil),
		add("var/lib/", tar.TypeDir, 0o755, 0, nil),
		add("var/lib/landfall/", tar.TypeDir, 0o700, imageUser, nil),
		writer.Close(),
	} {
		if err != nil {
			return nil, err
		}
	}
	return content.Bytes(), nil
}

// archive writes a directory as a tar file: sorted, with the time of the commit and without owners.
func (b *build) archive(out io.Writer, dir string) error {
	var paths []string
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	}); err != nil {
		return err
	}
	slices.Sort(paths)
	writer := tar.NewWriter(out)
	for _, path := range paths {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := writer.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)),
			ModTime: b.time, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := writer.Write(content); err != nil {
			return err
		}
	}
	return writer.Close()
}
