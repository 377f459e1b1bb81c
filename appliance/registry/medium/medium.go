// Package medium reads the media on which images are carried to a site, without a copy: archives of
// oc-mirror version 2, its cache, folders of a registry, OCI layouts, the courier's folders,
// folders of oc image mirror, and ISO files with a registry.
//
// A scan reads the headers of a medium and its manifests, and returns an [Index]: for each blob the
// ranges of bytes that hold it, for each repository its tags. Nothing is unpacked or written.
// [Reader] reads the ranges by pread; it never maps a file into memory, because a read from a
// mapped file of a removed stick ends the program.
package medium

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Form is the form in which a medium holds its images.
type Form string

// The forms.
const (
	FormOCMirror   Form = "oc-mirror"       // an archive of oc-mirror version 2, or its cache
	FormRegistry   Form = "registry"        // docker/registry/v2 of a distribution registry
	FormOCI        Form = "oci-layout"      // an OCI image layout
	FormCourier    Form = "courier"         // a folder of landfall courier fill
	FormImageFiles Form = "oc-image-mirror" // a folder of oc image mirror or oc adm release mirror
	FormUnknown    Form = "unknown"         // of a compressed archive
)

// Container is the kind of file that contains the images.
type Container string

// The containers.
const (
	Tar    Container = "tar"
	Folder Container = "folder"
	ISO    Container = "iso"
	// Compressed is a tar archive that can't be served before it was unpacked.
	Compressed Container = "compressed"
)

// UnusableError reports a file that can't be served as it is. Its text is a sentence without a
// period at its end.
type UnusableError struct {
	Path    string
	Problem string
}

func (e *UnusableError) Error() string { return e.Path + " " + e.Problem }

// File is an open file of a medium.
type File interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// Opener opens files by their path on this machine.
type Opener func(path string) (File, error)

// OpenFile is the [Opener] of the operating system.
func OpenFile(path string) (File, error) { return os.Open(path) }

// Location is where a medium lies now.
type Location struct {
	// Path is the archive, the ISO file or the folder on this machine.
	Path      string
	Container Container
}

// Label returns a short name for people, such as stick/mirror_000001.tar.
func (l Location) Label() string {
	return path.Join(filepath.Base(filepath.Dir(l.Path)), filepath.Base(l.Path))
}

// maxDepth is how many levels of folders Find searches below the given one.
const maxDepth = 3

// maxFound limits the media in one folder.
const maxFound = 256

// Find returns the media at a path: the file or folder itself, or the media in a folder, such as
// the archives on a stick, also compressed ones. It also returns the files that look like media but
// can't be served, with the reasons. The error is that of reading the path, such as fs.ErrNotExist.
// It leaves out one folder, except; with nil, it leaves out none.
func Find(at string, except fs.FileInfo) (found []Location, unusable []*UnusableError, err error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		location, problem := inspect(at)
		switch {
		case problem != nil:
			return nil, []*UnusableError{problem}, nil
		case location == nil:
			return nil, []*UnusableError{{Path: at, Problem: "is neither a tar archive nor an ISO file; use an " +
				"archive of oc-mirror, an OCI archive, an ISO file or a folder"}}, nil
		}
		return []Location{*location}, nil, nil
	}
	err = search(at, maxDepth, except, &found, &unusable)
	return found, unusable, err
}

// search looks for media in a folder and its subfolders.
func search(dir string, depth int, except fs.FileInfo, found *[]Location, unusable *[]*UnusableError) error {
	if isMedium(dir) {
		*found = append(*found, Location{Path: dir, Container: Folder})
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		switch {
		case len(*found) >= maxFound:
			return nil
		case entry.IsDir() && depth > 0 && !skipped(entry, except):
			// A folder that this user may not read, or that was just removed, is not an error of a
			// medium.
			if err := search(name, depth-1, except, found, unusable); err != nil && !errors.Is(err, fs.ErrPermission) &&
				!errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case entry.Type().IsRegular() && archiveName(entry.Name()):
			location, problem := inspect(name)
			if problem != nil {
				*unusable = append(*unusable, problem)
			} else if location != nil {
				*found = append(*found, *location)
			}
		}
	}
	return nil
}

// skipped reports whether the search leaves out a folder: the excepted one, oc-mirror's working
// directory, and folders of file systems.
func skipped(folder fs.DirEntry, except fs.FileInfo) bool {
	name := folder.Name()
	switch name {
	case "lost+found", "working-dir", "System Volume Information":
		return true
	}
	if strings.HasPrefix(name, ".") && name != ".oc-mirror" && name != ".cache" {
		return true
	}
	info, err := folder.Info()
	return err == nil && except != nil && os.SameFile(info, except)
}

// archiveName reports whether a file in a folder may be an archive by its name. Other files, such
// as films, are not opened.
func archiveName(name string) bool {
	name = strings.ToLower(name)
	for _, ending := range []string{".tar", ".iso", ".tgz", ".gz", ".zst", ".xz", ".bz2", ".oci"} {
		if strings.HasSuffix(name, ending) {
			return strings.Contains(name, ".tar") || strings.HasSuffix(name, ".iso") ||
				strings.HasSuffix(name, ".tgz") || strings.HasSuffix(name, ".oci")
		}
	}
	return false
}

// isMedium reports whether a folder holds images itself.
func isMedium(dir string) bool {
	has := func(names ...string) bool {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return false
			}
		}
		return true
	}
	return has(registryPath+"/blobs") || filepath.Base(dir) == "v2" && has("blobs/sha256", "repositories") ||
		has("oci-layout", "index.json") || has("bundle.json", "blobs") || imageFiles(dir)
}

// imageFiles reports whether a folder is one of oc image mirror: v2/<repository>/manifests.
func imageFiles(dir string) bool {
	for _, pattern := range []string{"v2/*/manifests", "v2/*/*/manifests", "v2/*/*/*/manifests"} {
		if found, err := filepath.Glob(filepath.Join(escapeGlob(dir), filepath.FromSlash(pattern))); err == nil &&
			len(found) > 0 {
			return true
		}
	}
	return false
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// inspect determines the container of a file by its first bytes. It returns neither a location nor
// a problem for a file of another kind.
func inspect(name string) (*Location, *UnusableError) {
	file, err := os.Open(name)
	if err != nil {
		return nil, &UnusableError{Path: name, Problem: "can't be opened: " + reason(err)}
	}
	defer func() { _ = file.Close() }() // it was only read
	head := make([]byte, 36<<10)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, &UnusableError{Path: name, Problem: "can't be read: " + reason(err)}
	}
	head = head[:n]
	form := compression(head)
	switch {
	case form == "gzip", form == "zstd":
		return &Location{Path: name, Container: Compressed}, nil
	case form != "":
		return nil, &UnusableError{Path: name, Problem: "is compressed (" + form +
			"), and only archives compressed with gzip or zstd can be unpacked; decompress it first"}
	case n >= 262 && string(head[257:262]) == "ustar":
		return &Location{Path: name, Container: Tar}, nil
	case n >= 0x8006 && string(head[0x8001:0x8006]) == "CD001":
		return &Location{Path: name, Container: ISO}, nil
	}
	return nil, nil
}

// reason returns the reason of an error of the file system without the path.
func reason(err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err.Error()
	}
	return err.Error()
}

// edge is how many bytes of each end of a file its fingerprint covers.
const edge = 64 << 10

// Fingerprint identifies the content of a file without reading all of it: by its name, size, time
// and first and last bytes. The path is not part of it, so a stick is recognized at another mount
// point. It is "" for a folder, whose scan is as fast as a comparison.
func Fingerprint(location Location, open Opener) (string, error) {
	if location.Container == Folder {
		return "", nil
	}
	file, err := open(location.Path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%d\n%d\n", filepath.Base(location.Path), info.Size(), info.ModTime().UnixNano())
	for _, at := range []int64{0, max(0, info.Size()-edge)} {
		if _, err := io.Copy(sum, io.NewSectionReader(file, at, edge)); err != nil {
			return "", fmt.Errorf("read %s: %w", location.Path, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Scan reads the headers and the manifests of a medium. The error is an *[UnusableError], or that
// of a read. A damaged archive is not an error: the index has what precedes the damage, and a
// problem that names it. progress is called after each step.
func Scan(ctx context.Context, location Location, open Opener, progress func()) (*Index, error) {
	listed, err := list(ctx, location, func(path string) (File, error) {
		file, err := open(path)
		return steps{file, progress}, err
	}, progress)
	if err != nil {
		return nil, err
	}
	defer listed.close()
	index, err := listed.index(ctx, location)
	if err != nil {
		return nil, err
	}
	if index.Fingerprint, err = Fingerprint(location, open); err != nil {
		return nil, err
	}
	return index, nil
}

// steps is a file that reports each read.
type steps struct {
	File
	progress func()
}

// ReadAt implements io.ReaderAt.
func (s steps) ReadAt(p []byte, offset int64) (int, error) {
	n, err := s.File.ReadAt(p, offset)
	s.progress()
	return n, err
}

// list lists the entries of a medium.
func list(ctx context.Context, location Location, open Opener, progress func()) (*listing, error) {
	switch location.Container {
	case Tar:
		return listTar(ctx, location, open)
	case ISO:
		return listISO(ctx, location, open)
	default:
		return listFolder(ctx, location, progress)
	}
}

// entry is a regular file or a link of a medium.
type entry struct {
	name     string // clean, in slash form, without a leading slash
	link     string // the name of another entry with the content, or ""
	extent   Extent
	modified time.Time
}

// listing holds the entries of a medium and reads small ones.
type listing struct {
	entries  []entry
	files    []string // that extents name; relative to the location in a folder
	problems []Problem
	identity string // hash of all headers
	readAt   func(file int, p []byte, offset int64) error
	close    func()
}

// maxSmall limits the entries that a scan reads as a whole, in bytes: manifests and documents.
const maxSmall = 8 << 20

// maxKept limits the manifests and signatures of a medium, in bytes: all of them stay in memory. An
// image has a few KiB of them.
const maxKept = 256 << 20

// maxUnlinked limits the blobs that a scan reads to find the manifests among them, in bytes. The
// distribution specification lets registries refuse larger manifests.
const maxUnlinked = 4 << 20

// read returns the content of a small entry.
func (l *listing) read(e entry) ([]byte, error) { return l.readParts([]Extent{e.extent}) }

func (l *listing) readParts(parts []Extent) ([]byte, error) {
	var size int64
	for _, part := range parts {
		size += part.Size
	}
	if size > maxSmall {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", size, maxSmall)
	}
	data := make([]byte, size)
	at := int64(0)
	for _, part := range parts {
		if err := l.readAt(part.File, data[at:at+part.Size], part.Offset); err != nil {
			return nil, err
		}
		at += part.Size
	}
	return data, nil
}

// startsWith reports whether content starts with a byte.
func (l *listing) startsWith(parts []Extent, start byte) (bool, error) {
	first := make([]byte, 1)
	if len(parts) == 0 || parts[0].Size == 0 {
		return false, nil
	}
	err := l.readAt(parts[0].File, first, parts[0].Offset)
	return first[0] == start, err
}

// cleanName returns the clean form of an entry's name, or "" for the root.
func cleanName(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
