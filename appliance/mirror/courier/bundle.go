package courier

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A filled directory contains the signed list, bundle.json, and the subdirectory blobs. The
// subdirectory contains each manifest, config and layer once, under the hexadecimal digits of its
// digest. A blob that exceeds the size of a part continues in files with the suffixes .1, .2 and so
// on, so that the files fit on a FAT file system. Incomplete files have the suffix .partial.
const (
	listFile   = "list.txt"
	bundleFile = "bundle.json"
	blobsDir   = "blobs"
	partial    = ".partial"
)

// DefaultPart is the default size of parts in bytes. It is below the file size limit of FAT, which
// is 4 GiB.
const DefaultPart = 4<<30 - 1<<20

// bundle is the content of bundle.json.
type bundle struct {
	Version int      `json:"version"`
	Release string   `json:"release"`
	Items   []packed `json:"items"`
	// Attachments are the Sigstore signatures of the release. They are pushed after the images.
	Attachments []packed `json:"attachments,omitempty"`
}

// packed is an image in a filled directory.
type packed struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Digest      string `json:"digest"`
	MediaType   string `json:"media_type"`
}

// directory stores blobs by digest.
type directory struct {
	dir  string
	part int64
}

func openDirectory(dir string, part int64) (*directory, error) {
	if part == 0 {
		part = DefaultPart
	}
	if part < 0 || part >= 4<<30 {
		return nil, fmt.Errorf("the size of parts is %d bytes; use a size below 4 GiB", part)
	}
	return &directory{dir, part}, os.MkdirAll(filepath.Join(dir, blobsDir), 0o755)
}

// path returns the file name of part number n of a blob.
func (f *directory) path(digest string, n int, whole bool) string {
	name := strings.TrimPrefix(digest, "sha256:")
	if !whole {
		name += partial
	}
	if n > 0 {
		name += fmt.Sprintf(".%d", n)
	}
	return filepath.Join(f.dir, blobsDir, name)
}

// parts returns the number of files of a blob and their total size.
func (f *directory) parts(digest string, whole bool) (count int, size int64, err error) {
	for {
		info, err := os.Stat(f.path(digest, count, whole))
		if errors.Is(err, fs.ErrNotExist) {
			return count, size, nil
		}
		if err != nil {
			return 0, 0, err
		}
		count++
		size += info.Size()
	}
}

// has reports whether a blob of the given size is complete. A negative size matches any.
func (f *directory) has(digest string, size int64) (bool, error) {
	count, have, err := f.parts(digest, true)
	return count > 0 && (size < 0 || have == size), err
}

// open opens a blob for reading. The reader continues from part to part.
func (f *directory) open(digest string, whole bool) (io.ReadCloser, error) {
	count, _, err := f.parts(digest, whole)
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, fmt.Errorf("%s has no %s; fill the directory again", f.dir, digest)
	}
	joined := &parts{}
	for n := range count {
		file, err := os.Open(f.path(digest, n, whole))
		if err != nil {
			return nil, errors.Join(err, joined.Close())
		}
		joined.files = append(joined.files, file)
	}
	readers := make([]io.Reader, count)
	for i, file := range joined.files {
		readers[i] = file
	}
	joined.Reader = io.MultiReader(readers...)
	return joined, nil
}

type parts struct {
	io.Reader
	files []*os.File
}

// Close closes the files of all parts.
func (p *parts) Close() error {
	var errs []error
	for _, file := range p.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// complete renames the files of a completely written blob to their final names.
func (f *directory) complete(digest string) error {
	count, _, err := f.parts(digest, false)
	if err != nil {
		return err
	}
	for n := count - 1; n >= 0; n-- { // rename the first part last: its name marks the blob as complete
		if err := os.Rename(f.path(digest, n, false), f.path(digest, n, true)); err != nil {
			return err
		}
	}
	return nil
}

// discard removes the incomplete files of a blob.
func (f *directory) discard(digest string) error {
	count, _, err := f.parts(digest, false)
	errs := []error{err}
	for n := range count {
		errs = append(errs, os.Remove(f.path(digest, n, false)))
	}
	return errors.Join(errs...)
}

// writer appends data to a blob. It starts another file when a part is full.
type writer struct {
	directory *directory
	digest    string
	n         int
	left      int64
	file      *os.File
}

func (f *directory) append(digest string) (*writer, error) {
	count, _, err := f.parts(digest, false)
	if err != nil {
		return nil, err
	}
	n := max(count-1, 0)
	file, err := os.OpenFile(f.path(digest, n, false), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	// An earlier run may have used another size of parts.
	last, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &writer{directory: f, digest: digest, n: n, left: max(0, f.part-last.Size()), file: file}, nil
}

// Write appends data to the blob.
func (w *writer) Write(data []byte) (int, error) {
	written := 0
	for len(data) > 0 {
		if w.left == 0 {
			if err := errors.Join(w.file.Sync(), w.file.Close()); err != nil {
				return written, err
			}
			w.n++
			var err error
			if w.file, err = os.OpenFile(w.directory.path(w.digest, w.n, false), os.O_APPEND|os.O_CREATE|os.O_WRONLY,
				0o644); err != nil {
				return written, err
			}
			w.left = w.directory.part
		}
		n, err := w.file.Write(data[:min(int64(len(data)), w.left)])
		written += n
		w.left -= int64(n)
		data = data[n:]
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close syncs and closes the current file.
func (w *writer) Close() error { return errors.Join(w.file.Sync(), w.file.Close()) }

// put stores a small blob.
func (f *directory) put(digest string, data []byte) error {
	if whole, err := f.has(digest, int64(len(data))); whole || err != nil {
		return err
	}
	if err := f.discard(digest); err != nil {
		return err
	}
	w, err := f.append(digest)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return f.complete(digest)
}

// manifest reads a stored manifest and verifies its digest.
func (f *directory) manifest(digest string) ([]byte, error) {
	in, err := f.open(digest, true)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(in, manifestLimit+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	if got := digestOf(data); got != digest {
		return nil, damaged(f.dir, digest)
	}
	return data, nil
}

// manifestLimit is the maximum size of a manifest, bytes.
const manifestLimit = 8 << 20

func damaged(dir, digest string) error {
	return fmt.Errorf("%s in %s is damaged: its content does not match its digest; delete the file and fill the "+
		"directory again",
		digest, dir)
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (f *directory) writeBundle(b bundle, list []byte) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(f.dir, listFile), list, 0o644),
		replace(filepath.Join(f.dir, bundleFile), text))
}

// replace writes a file atomically.
func replace(path string, data []byte) error {
	if err := os.WriteFile(path+partial, data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+partial, path)
}

func (f *directory) readBundle() (*bundle, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, bundleFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is incomplete, because the file %s is missing; run landfall courier fill again",
			f.dir, bundleFile)
	}
	if err != nil {
		return nil, err
	}
	b := new(bundle)
	if err := json.Unmarshal(text, b); err != nil || b.Version != 1 {
		return nil, fmt.Errorf("%s was not written by landfall courier fill of this release; fill the directory again",
			filepath.Join(f.dir, bundleFile))
	}
	return b, nil
}
