package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"

	"landfall/appliance/registry/medium"
)

// This file sends blobs to clients.

// Copy writes a range of the blob. If a place of the blob fails in the middle, it continues with
// another one. Unless all bytes were written, it returns an error, and the client must not take the
// answer for complete. A part of a blob is not compared with the digest: the client compares what
// it has put together. A comparison before the first byte would take minutes for a large blob.
func (b *Blob) Copy(ctx context.Context, w io.Writer, offset, size int64) error {
	if b.reader != nil {
		return b.fromCopy(ctx, w, offset, size)
	}
	return b.fromPlaces(ctx, w, offset, size, true)
}

// fromPlaces writes a range of the blob from the places that have it: the disk, then the media.
// verify compares a whole blob with its digest if nobody did so before.
func (b *Blob) fromPlaces(ctx context.Context, w io.Writer, offset, size int64, verify bool) error {
	s := &sending{w: w, digest: b.Digest, offset: offset, left: size, verify: verify && offset == 0 && size == b.Size}
	if len(b.disks) == 0 {
		return b.fromMedia(ctx, s)
	}
	var failed error
	for _, d := range b.disks {
		tryNext, err := b.fromDisk(s, d)
		if !tryNext {
			return err
		}
		failed = err
	}
	// Media may have come since, and a collection may have removed the copy.
	c := b.registry.current.Load()
	now, missing := b.registry.blobOnMedia(c, b.Digest)
	switch {
	case missing == nil && now.Size == b.Size:
		b.media = now.media
		return b.fromMedia(ctx, s)
	case missing != nil && len(c.places[b.Digest]) > 0:
		return missing
	}
	return failed
}

// fromDisk sends what is left from a place on the disk. tryNext is set if that failed, and another
// place can go on.
func (b *Blob) fromDisk(s *sending, d *disk) (tryNext bool, err error) {
	file, err := d.open(b.Digest)
	if err != nil {
		return true, err
	}
	defer func() { _ = file.Close() }() // it was only read
	err = s.from(!d.isSound(b.Digest), func(w io.Writer, offset, size int64) (int64, error) {
		return copyRange(w, file, offset, size)
	})
	isChanged := errors.Is(err, errChanged)
	switch {
	case err == nil:
		if s.compared() {
			d.setSound(b.Digest)
		}
		return false, nil
	case isChanged && !s.alone:
		return false, err // which of the places is damaged is not known
	case isChanged, isUnreadable(err):
		b.registry.discard(d, b.Digest, file)
		return !isChanged || s.restart(), d.damaged(b.Digest)
	}
	return isReadError(err), err
}

// fromMedia sends what is left from the media.
func (b *Blob) fromMedia(ctx context.Context, s *sending) error {
	var failed error
	for _, m := range b.media {
		reader, verify := m.use(b.Digest, true)
		if reader == nil {
			continue
		}
		b.suppliers = append(b.suppliers, m)
		err := s.from(verify, func(w io.Writer, offset, size int64) (int64, error) {
			return reader.Copy(ctx, w, m.index.Blobs[b.Digest], offset, size)
		})
		switch {
		case err == nil:
			if s.compared() {
				m.setSound(b.Digest)
			}
			return nil
		case errors.Is(err, errChanged) && !s.alone:
			return err // which of the places is damaged is not known
		case errors.Is(err, errChanged):
			if failed = b.damaged(m); !s.restart() {
				return failed
			}
			continue
		}
		broken, ok := errors.AsType[*medium.ReadError](err)
		if !ok {
			return err // the client has left
		}
		b.registry.lost(m, b.Digest, broken)
		failed = broken
	}
	if failed == nil {
		return b.media[0].unavailable()
	}
	return failed
}

// sending is a range of a blob that is sent from one place after the other.
type sending struct {
	w            io.Writer
	digest       string
	offset, left int64
	verify       bool      // the range is a whole blob, and nothing was sent without a comparison
	check        *verifier // nil while nothing is compared
	alone        bool      // the last place has supplied all bytes
}

// from sends what is left by a function that reads it from a place. verify asks for a comparison
// with the digest.
func (s *sending) from(verify bool, read func(w io.Writer, offset, size int64) (int64, error)) error {
	if s.check == nil && s.verify && verify {
		s.check = &verifier{w: s.w, hash: sha256.New(), left: s.left, digest: s.digest}
	}
	s.alone = s.offset == 0
	if s.check == nil {
		n, err := read(s.w, s.offset, s.left)
		s.offset, s.left, s.verify = s.offset+n, s.left-n, s.verify && n == 0
		return err
	}
	_, err := read(s.check, s.offset, s.left)
	s.offset, s.left = s.check.passed, s.check.left
	return err
}

// compared reports whether all bytes are of the last place and have the digest.
func (s *sending) compared() bool { return s.check != nil && s.alone }

// restart prepares for another place after damaged bytes. It reports false if a client has some.
func (s *sending) restart() bool {
	s.check = nil
	return s.offset == 0
}

// verifier compares the bytes that it passes on with a digest. It withholds the last ones unless
// all are right, so that a client never has a whole blob of damaged bytes.
type verifier struct {
	w      io.Writer
	hash   hash.Hash
	left   int64
	passed int64
	digest string
}

// Write implements io.Writer.
func (v *verifier) Write(p []byte) (int, error) {
	v.hash.Write(p)
	if int64(len(p)) == v.left && "sha256:"+hex.EncodeToString(v.hash.Sum(nil)) != v.digest {
		return 0, errChanged
	}
	n, err := v.w.Write(p)
	v.passed, v.left = v.passed+int64(n), v.left-int64(n)
	return n, err
}

// copyRange writes a range of a file.
func copyRange(w io.Writer, file *os.File, offset, size int64) (int64, error) {
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	var buffer []byte
	if _, direct := w.(io.ReaderFrom); !direct { // otherwise the kernel copies to the connection
		buffer = make([]byte, bufferSize)
	}
	n, err := io.CopyBuffer(w, &io.LimitedReader{R: file, N: size}, buffer)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// bufferSize is how many bytes a client gets by one read of a file.
const bufferSize = 256 << 10
