package isogen

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cavaliercoder/go-cpio"
	"github.com/klauspost/compress/zstd"

	"landfall/isogen/iso9660"
)

// ErrNoPayload reports that the embed area of an ISO is empty, as in a published ISO.
var ErrNoPayload = errors.New("no Ignition config is embedded in the ISO")

// Limits for reading an embed area, in bytes; maxFiles is a number of files.
const (
	maxAreaRead = 64 << 20
	maxUnpacked = 128 << 20
	maxFiles    = 1 << 16
)

// Embedding is the content that was added to a published ISO.
type Embedding struct {
	Payload
	Area      EmbedArea // position of the payload
	Packed    int64     // size of the packed payload in bytes
	Relocated bool      // the payload is at the end of the image, because it was larger than the area
	// Maker is the program that packed the payload: "Landfall", "coreos-installer", …, or "" if the
	// format does not show it.
	Maker                  string
	KernelArguments        string // command line in the areas, or ""
	DefaultKernelArguments string // command line as published
}

// Embedded reads the content that any program embedded in an ISO of size bytes. The embed area may
// contain several cpio archives, each plain or compressed with gzip, xz or zstd, with zero bytes
// between and after them. If a path occurs several times, the last file is used, as by the kernel.
// Without a payload, Embedded returns ErrNoPayload and the other fields.
func Embedded(r io.ReaderAt, size int64) (*Embedding, error) {
	v, err := iso9660.Open(r, size)
	if err != nil {
		return nil, fmt.Errorf("the ISO cannot be read: %w", err)
	}
	a, k, err := findAreas(r, v, size)
	if err != nil {
		return nil, fmt.Errorf("the ISO %s cannot be read: %w", v.ID, err)
	}
	if a.length > maxAreaRead {
		return nil, fmt.Errorf("the embed area of the ISO %s has %d bytes, more than the %d that are read", v.ID,
			a.length, maxAreaRead)
	}
	packed := make([]byte, a.length)
	if n, err := r.ReadAt(packed, a.offset); n < len(packed) {
		return nil, fmt.Errorf("reading the embed area of the ISO %s: %w", v.ID, err)
	}
	e := &Embedding{Area: a.public()}
	if k != nil {
		e.KernelArguments, e.DefaultKernelArguments = k.current, k.standard
	}
	p, used, err := unpack(packed)
	if errors.Is(err, ErrNoPayload) {
		return e, err
	}
	if err != nil {
		return nil, fmt.Errorf("the embed area of the ISO %s is damaged: %w", v.ID, err)
	}
	e.Payload, e.Packed, e.Maker = *p, used, maker(packed)
	e.Relocated = a.whole() && wholeSectors(used) == a.length && lastFile(v, a)
	return e, nil
}

// lastFile reports whether no file follows the area.
func lastFile(v *iso9660.Volume, a area) bool {
	for e := range v.All() {
		if e.Offset+e.Size > a.offset+a.length {
			return false
		}
	}
	return true
}

// maker determines the program that packed a payload from the compression: coreos-installer uses
// xz, the image service of the Assisted Installer gzip, and Landfall gzip with its name in the
// header.
func maker(packed []byte) string {
	packed = bytes.TrimLeft(packed, "\x00")
	switch {
	case bytes.HasPrefix(packed, []byte("\xfd7zXZ\x00")):
		return "coreos-installer"
	case bytes.HasPrefix(packed, []byte{0x1f, 0x8b}):
		if z, err := gzip.NewReader(bytes.NewReader(packed)); err == nil && z.Name == packerName {
			return "Landfall"
		}
		return "assisted-image-service"
	}
	return ""
}

// unpack reads the payload in an embed area. It also returns the number of bytes read.
func unpack(area []byte) (*Payload, int64, error) {
	files := map[string]File{}
	budget := maxUnpacked
	size, used := int64(len(area)), int64(0)
	for area = bytes.TrimLeft(area, "\x00"); len(area) > 0; area = bytes.TrimLeft(area, "\x00") {
		var archives, rest []byte
		var err error
		if bytes.HasPrefix(area, archiveMark) {
			rest, err = unarchive(area, files)
		} else if archives, rest, err = decompress(area, budget); err == nil {
			budget -= len(archives)
		}
		for archives = bytes.TrimLeft(archives, "\x00"); err == nil &&
			len(archives) > 0; archives = bytes.TrimLeft(archives, "\x00") {
			archives, err = unarchive(archives, files)
		}
		if err != nil {
			return nil, 0, err
		}
		area = rest
		used = size - int64(len(area))
	}
	if len(files) == 0 {
		return nil, 0, ErrNoPayload
	}
	p := &Payload{Ignition: files[configPath].Data}
	delete(files, configPath)
	for _, f := range files {
		p.Files = append(p.Files, f)
	}
	slices.SortFunc(p.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return p, used, nil
}

// decompress decompresses the stream at the start of b. It also returns the bytes after the stream.
func decompress(b []byte, limit int) (data, rest []byte, err error) {
	var format string
	switch {
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		format = "gzip"
		data, rest, err = gunzip(b, limit)
	case bytes.HasPrefix(b, []byte("\xfd7zXZ\x00")):
		format = "xz"
		data, rest, err = unxz(b, limit)
	case bytes.HasPrefix(b, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		format = "zstd"
		data, rest, err = unzstd(b, limit)
	default:
		return nil, nil, fmt.Errorf("the content is neither cpio nor gzip, xz or zstd (it begins with %x)",
			b[:min(len(b), 6)])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the %s stream cannot be unpacked: %w", format, err)
	}
	return data, rest, nil
}

func gunzip(b []byte, limit int) (data, rest []byte, err error) {
	in := bytes.NewReader(b) // gzip reads no byte after the stream from an io.ByteReader
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, nil, err
	}
	z.Multistream(false)
	data, err = readLimited(z, limit)
	return data, b[len(b)-in.Len():], err
}

func unzstd(b []byte, limit int) (data, rest []byte, err error) {
	end, err := zstdEnd(b)
	if err != nil {
		return nil, nil, err
	}
	z, err := zstd.NewReader(bytes.NewReader(b[:end]), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		return nil, nil, err
	}
	defer z.Close()
	data, err = readLimited(z, limit)
	return data, b[end:], err
}

// zstdEnd returns the length of the zstd frame at the start of b. It reads the headers of the
// blocks (RFC 8878, 3.1.1).
func zstdEnd(b []byte) (int, error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return 0, err
	}
	end, last := h.HeaderSize, h.Skippable
	if h.Skippable {
		end += int(h.SkippableSize)
	}
	for !last {
		if len(b) < end+3 {
			return 0, io.ErrUnexpectedEOF
		}
		block := int(b[end]) | int(b[end+1])<<8 | int(b[end+2])<<16
		last = block&1 == 1
		size := block >> 3
		if block>>1&3 == 1 { // a single byte, repeated
			size = 1
		}
		end += 3 + size
	}
	if h.HasCheckSum {
		end += 4
	}
	if end > len(b) {
		return 0, io.ErrUnexpectedEOF
	}
	return end, nil
}

func readLimited(r io.Reader, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = errTooMuch(limit)
	}
	return b, err
}

func errTooMuch(limit int) error {
	return fmt.Errorf("the payload unpacks to more than %d bytes", limit)
}

// archiveMark is the start of each member of a newc cpio archive, with or without checksums.
var archiveMark = []byte("07070")

// trailer is the name of the last member of a cpio archive.
const trailer = "TRAILER!!!"

// unarchive reads the cpio archive at the start of b and adds its files to files. It returns the
// bytes after the archive.
func unarchive(b []byte, files map[string]File) (rest []byte, err error) {
	in := bytes.NewReader(b)
	archive := cpio.NewReader(in)
	for {
		start := len(b) - in.Len()
		h, err := archive.Next()
		rest := b[len(b)-in.Len():]
		if errors.Is(err, io.EOF) && bytes.HasSuffix(b[start:len(b)-len(rest)], []byte(trailer+"\x00")) {
			return rest, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the cpio archive is truncated or damaged: %w", err)
		}
		name := strings.TrimRight(h.Name, "\x00")
		if name == trailer {
			return rest, nil
		}
		if h.Size < 0 || h.Size > int64(len(rest)) {
			return nil, fmt.Errorf("the cpio archive is truncated in %q", name)
		}
		if err := readMember(archive, h, name, files); err != nil {
			return nil, err
		}
	}
}

func readMember(archive io.Reader, h *cpio.Header, name string, files map[string]File) error {
	clean := path.Clean(name)
	if clean == "." {
		return nil
	}
	if !fs.ValidPath(clean) || strings.ContainsRune(clean, 0) {
		return fmt.Errorf("the cpio archive has the path %q, which is outside of the root directory: do not use this "+
			"ISO", name)
	}
	switch h.Mode & cpio.ModeType {
	case cpio.ModeDir:
		return nil
	case cpio.ModeRegular:
	default:
		return fmt.Errorf("the cpio archive has %q, which is neither a file nor a directory", name)
	}
	if len(files) == maxFiles {
		return fmt.Errorf("the cpio archive has more than %d files", maxFiles)
	}
	data, err := io.ReadAll(archive)
	if err != nil {
		return fmt.Errorf("reading %s out of the cpio archive: %w", name, err)
	}
	files[clean] = File{Path: clean, Mode: fs.FileMode(h.Mode.Perm()), Data: data}
	return nil
}
