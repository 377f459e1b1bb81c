// Package isogen makes discovery images out of a CoreOS live ISO without writing one: an Image is a
// list of extents, ranges of the base ISO and a few bytes of ours, produced while it is read.
//
//	base, err := isogen.Open("rhcos-9.6.20250523-0-live.x86_64.iso")
//	image, err := base.Full(isogen.Payload{Ignition: config})
//	http.ServeContent(w, r, "discovery.iso", modified, image.NewReader())
//
// The same base and payload always give the same bytes, so an image has a strong ETag and a SHA-256
// before it is sent, and a broken download goes on where it stopped.
//
// Formats are those of coreos-installer (https://coreos.github.io/coreos-installer/) and of the
// images that CoreOS Assembler builds. Positions and sizes are bytes.
package isogen

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"landfall/isogen/iso9660"
)

// Base is an opened live ISO. It is indexed once and never copied; its methods may be called by
// several goroutines at once.
type Base struct {
	path         string
	file         *os.File
	size         int64
	modified     time.Time
	volumeID     string
	architecture string
	volume       *iso9660.Volume
	area         area
	kargs        *kernelArgumentAreas // nil if there are none
	boots        []string
	identity     string      // hex SHA-256 of what tells this file from another
	sum          *digest     // of the whole file
	minimal      minimalOnce // found out about when it is asked for
	tails        sync.Pool   // of *[tailSize]byte, for what readers send
}

// Open indexes the live ISO at path, which takes milliseconds whatever its size: the directory tree
// and the descriptions of the embed areas are read, the contents are not.
//
// An error says in one sentence what is wrong with which file and what to do. It wraps
// iso9660.ErrNotISO, *iso9660.TruncatedError, *iso9660.FormatError, ErrNoEmbedArea, *EmbedAreaError
// or what the operating system said.
func Open(path string) (*Base, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the base ISO: %w: check the path and its permissions", err)
	}
	b, err := index(path, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return b, nil
}

func index(path string, f *os.File) (*Base, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the base ISO: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the base ISO %s is not a regular file: give the path of a CoreOS live ISO", path)
	}
	v, err := iso9660.Open(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("the base ISO %s cannot be used: %w: %s", path, err, remedy(err))
	}
	b := &Base{
		path:         path,
		file:         f,
		size:         info.Size(),
		modified:     info.ModTime(),
		volume:       v,
		volumeID:     v.ID,
		architecture: architecture(f, v),
		sum:          newDigest(),
	}
	if b.area, b.kargs, err = findAreas(f, v, info.Size()); err != nil {
		return nil,
			fmt.Errorf("the base ISO %s (%s) cannot be used: %w: use the live ISO of a CoreOS release, as it was "+
				"published", path, v.ID, err)
	}
	b.boots = boots(f, v, b.architecture)
	if b.identity, err = identify(f, info, v); err != nil {
		return nil, fmt.Errorf("cannot read the base ISO: %w", err)
	}
	return b, nil
}

// remedy is what to do about an error of iso9660.Open.
func remedy(err error) string {
	var truncated *iso9660.TruncatedError
	var format *iso9660.FormatError
	switch {
	case errors.Is(err, iso9660.ErrNotISO):
		return "give the path of a CoreOS live ISO"
	case errors.As(err, &truncated):
		return "the copy is incomplete, download it again"
	case errors.As(err, &format):
		return "compare its SHA-256 with the published one and download it again"
	}
	return "check the disk it lies on"
}

// identify gives the identity of the file that images are named by. It takes in the file's size and
// modification time, the volume descriptors and every directory record, which carry the build's
// name and times; reading a gigabyte to hash it would delay the start by a second and more.
func identify(r io.ReaderAt, info os.FileInfo, v *iso9660.Volume) (string, error) {
	h := sha256.New()
	head := make([]byte, min(info.Size(), 20*iso9660.SectorSize))
	if _, err := r.ReadAt(head, 0); err != nil {
		return "", err
	}
	h.Write(head)
	numbers := []int64{info.Size(), info.ModTime().UnixNano()}
	for e := range v.All() {
		numbers = append(numbers, e.Offset, e.Size)
	}
	if err := binary.Write(h, binary.LittleEndian, numbers); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Close gives the file back. Images of this base cannot be read any more, but for readers that are
// sending at the moment.
func (b *Base) Close() error { return b.file.Close() }

// Path returns the path that the base was opened by.
func (b *Base) Path() string { return b.path }

// Size returns the size of the base in bytes. Images may be larger.
func (b *Base) Size() int64 { return b.size }

// VolumeID returns the volume identifier, such as "rhcos-9.6.20250523-0".
func (b *Base) VolumeID() string { return b.volumeID }

// Version returns the CoreOS build out of the volume identifier, such as "9.6.20250523-0", or "" if
// the identifier is not one of CoreOS.
func (b *Base) Version() string {
	for _, product := range []string{"rhcos-", "fedora-coreos-", "scos-"} {
		if version, ok := strings.CutPrefix(b.volumeID, product); ok {
			return version
		}
	}
	return ""
}

// SHA256 returns the digest of the whole file in hex. The first call reads the file, about a second
// a gigabyte; others wait for it, later ones have it at once. It ends early with ctx's error.
func (b *Base) SHA256(ctx context.Context) (string, error) {
	return b.sum.of(ctx, func() io.ReadCloser { return io.NopCloser(io.NewSectionReader(b.file, 0, b.size)) })
}

// EmbedAreaSize returns how many bytes the embed area has. A packed payload that is larger moves to
// the end of the image, unless Info says that the area is not relocatable.
func (b *Base) EmbedAreaSize() int64 { return b.area.length }
