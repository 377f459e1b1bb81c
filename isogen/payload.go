package isogen

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cavaliercoder/go-cpio"
)

// configPath is the path of Ignition's config in the initial RAM file system.
const configPath = "config.ign"

// packerName is the file name in the gzip header of packed payloads. It identifies payloads that
// this package packed. Other programs and the kernel ignore it.
const packerName = "landfall"

// Payload is the content that an image adds to its base: files of the initial RAM file system of
// the live system.
type Payload struct {
	Ignition []byte // the Ignition config, config.ign
	Files    []File // other files, in any order
}

// File is a file of a Payload.
type File struct {
	Path string      // relative to the root, such as etc/coreos-firstboot-network/eth0.nmconnection
	Mode fs.FileMode // permission bits; 0 means 0644
	Data []byte
}

// TooLargeError reports that a payload is too large for an image.
type TooLargeError struct {
	Packed int64 // size after compression, bytes
	Limit  int64 // available space, bytes
	// File is the file of the base whose position limits the embed area; "" if Limit is MaxPayload.
	File string
}

func (e *TooLargeError) Error() string {
	limit := fmt.Sprintf("an image can contain at most %d", e.Limit)
	if e.File != "" {
		limit = fmt.Sprintf("the base ISO's embed area has %d and cannot grow, because it is a part of %s", e.Limit,
			e.File)
	}
	return fmt.Sprintf("the Ignition config and its files take %d bytes compressed, %s: shorten the ignition "+
		"override, the CA bundle or the static network configuration", e.Packed, limit)
}

// pack returns the archive of a payload. It returns a *TooLargeError above MaxPayload.
func (p Payload) pack() ([]byte, error) {
	if len(p.Ignition) == 0 {
		return nil, fmt.Errorf("the payload has no Ignition config")
	}
	return Archive(append([]File{{Path: configPath, Mode: 0o600, Data: p.Ignition}}, p.Files...))
}

// Archive returns an archive that the kernel unpacks over the initial RAM file system: a newc cpio
// (Linux Documentation/driver-api/early-userspace/buffer-format.rst), compressed with gzip. Equal
// files result in equal bytes, independent of time and order. Archive returns a *TooLargeError
// above MaxPayload.
func Archive(files []File) ([]byte, error) {
	files, err := ordered(files)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	z.Name = packerName
	unpacked := &counter{to: z}
	archive := cpio.NewWriter(unpacked)
	made := map[string]bool{".": true}
	for _, f := range files {
		if err := makeParents(archive, made, f.Path); err != nil {
			return nil, err
		}
		mode := f.Mode.Perm()
		if mode == 0 {
			mode = 0o644
		}
		if err := add(archive, &cpio.Header{Name: f.Path, Mode: cpio.ModeRegular | cpio.FileMode(mode), Links: 1},
			f.Data); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if err := checkSizes(int64(packed.Len()), unpacked.n); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// checkSizes returns an error for an archive that is too large for an image or for Embedded.
func checkSizes(packed, unpacked int64) error {
	switch {
	case packed > MaxPayload:
		return &TooLargeError{Packed: packed, Limit: MaxPayload}
	case unpacked > maxUnpacked:
		return fmt.Errorf("the Ignition config and its files have %d bytes, an image can contain at most %d: shorten "+
			"the "+
			"ignition override, the CA bundle or the static network configuration", unpacked, maxUnpacked)
	}
	return nil
}

// counter is a writer that counts bytes.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// ordered checks files and returns them sorted by path, config.ign first.
func ordered(files []File) ([]File, error) {
	files = slices.SortedStableFunc(slices.Values(files), func(a, b File) int {
		if first := a.Path == configPath; first != (b.Path == configPath) {
			if first {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	taken := make(map[string]bool)
	for _, f := range files {
		if !fs.ValidPath(f.Path) || f.Path == "." || strings.ContainsRune(f.Path, 0) {
			return nil, fmt.Errorf("the payload's file %q needs a path relative to the root, without dots as names",
				f.Path)
		}
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if taken[dir] {
				return nil, fmt.Errorf("the payload has %s as a file and as the directory of %s", dir, f.Path)
			}
		}
		if taken[f.Path] {
			return nil, fmt.Errorf("the payload has two files %s", f.Path)
		}
		taken[f.Path] = true
	}
	return files, nil
}

// makeParents adds the parent directories of a path. The kernel drops a file if its directory does
// not precede it.
func makeParents(archive *cpio.Writer, made map[string]bool, name string) error {
	dir := path.Dir(name)
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := makeParents(archive, made, dir); err != nil {
		return err
	}
	return add(archive, &cpio.Header{Name: dir, Mode: cpio.ModeDir | 0o755, Links: 2}, nil)
}

func add(archive *cpio.Writer, h *cpio.Header, data []byte) error {
	h.Size = int64(len(data))
	if err := archive.WriteHeader(h); err != nil {
		return fmt.Errorf("packing %s: %w", h.Name, err)
	}
	if _, err := archive.Write(data); err != nil {
		return fmt.Errorf("packing %s: %w", h.Name, err)
	}
	return nil
}
