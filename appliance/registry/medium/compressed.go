package medium

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow limits the memory that a zstd archive makes its reader use. It is the largest window
// that the zstd program reads without an option.
const maxWindow = 128 << 20

// compression returns the name of a compressed format by its first bytes, or "".
func compression(head []byte) string {
	for name, magic := range map[string]string{"gzip": "\x1f\x8b", "zstd": "\x28\xb5\x2f\xfd",
		"xz": "\xfd7zXZ\x00", "bzip2": "BZh"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return name
		}
	}
	return ""
}

// PlainName returns the name of the tar archive in a compressed one, such as mirror_000001.tar.
func PlainName(name string) string {
	ending := filepath.Ext(name)
	plain := strings.TrimSuffix(name, ending)
	if !strings.HasSuffix(strings.ToLower(plain), ".tar") {
		plain += ".tar"
	}
	return plain
}

// Unpack returns a reader of the tar archive in a compressed one.
func Unpack(packed io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(packed, 1<<20)
	head, err := in.Peek(6)
	if err != nil {
		return nil, err
	}
	unpacked, err := decompress(in, compression(head))
	if err != nil {
		return nil, err
	}
	plain := bufio.NewReaderSize(unpacked, 64<<10)
	if head, err = plain.Peek(262); err == nil && string(head[257:]) != "ustar" || errors.Is(err, io.EOF) {
		err = errors.New("it contains no tar archive")
	}
	if err != nil {
		return nil, errors.Join(err, unpacked.Close())
	}
	return &unpacking{plain, unpacked}, nil
}

type unpacking struct {
	io.Reader
	io.Closer
}

func decompress(in io.Reader, form string) (io.ReadCloser, error) {
	switch form {
	case "gzip":
		return gzip.NewReader(in)
	case "zstd":
		d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, errors.New("it is compressed with neither gzip nor zstd")
}

// HasChecksum reports whether a compressed archive has a checksum of its content, which Unpack
// compares: gzip always has one, zstd usually.
func HasChecksum(location Location, open Opener) (bool, error) {
	file, err := open(location.Path)
	if err != nil {
		return false, &ReadError{Label: location.Label(), Err: err}
	}
	defer func() { _ = file.Close() }() // it was only read
	head := make([]byte, zstd.HeaderMaxSize)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, &ReadError{Label: location.Label(), Err: err}
	}
	if compression(head[:n]) != "zstd" {
		return true, nil
	}
	var header zstd.Header
	return header.Decode(head[:n]) == nil && header.HasCheckSum, nil
}

// UnpackedSize returns the size of a compressed archive, and how many bytes its tar archive has at
// least: images are compressed already, so the archive is hardly smaller. A gzip file ends with the
// size modulo 4 GiB, and some zstd files begin with the size.
func UnpackedSize(location Location, open Opener) (packed, atLeast int64, err error) {
	file, err := open(location.Path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	packed = info.Size()
	head := make([]byte, min(packed, zstd.HeaderMaxSize))
	if _, err := file.ReadAt(head, 0); err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", location.Path, err)
	}
	switch compression(head) {
	case "gzip":
		tail := make([]byte, 4)
		if _, err := file.ReadAt(tail, max(0, packed-4)); err != nil {
			return 0, 0, fmt.Errorf("read %s: %w", location.Path, err)
		}
		return packed, atLeastModulo(packed, binary.LittleEndian.Uint32(tail)), nil
	case "zstd":
		var header zstd.Header
		if header.Decode(head) == nil && header.HasFCS && header.FrameContentSize < 1<<62 {
			return packed, max(packed, int64(header.FrameContentSize)), nil
		}
	}
	return packed, packed, nil
}

// atLeastModulo returns the smallest size that a gzip file may have unpacked. gzip makes what it
// can't compress larger by less than a thousandth.
func atLeastModulo(packed int64, modulo uint32) int64 {
	const round = 1 << 32
	smallest := packed - packed/1000 - 64
	size := smallest/round*round + int64(modulo)
	if size < smallest {
		size += round
	}
	return size
}
