package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"landfall/appliance/registry/overlay"
	"landfall/appliance/registry/staging"
)

// disk is a place on the appliance's disk with blobs.
type disk struct {
	place   string                                         // and remedy, in texts about a damaged blob
	damaged func(digest string) error                      // for clients
	stat    func(digest string) (size int64, ok bool)      // of a blob
	open    func(digest string) (*os.File, error)          // the file of a blob
	remove  func(digest string, damaged fs.FileInfo) error // unless another file has its place now

	mu    sync.Mutex
	sound map[string]bool // whether blobs have their digests, of those that were compared
}

// disksOf returns the places of pushed blobs and of copies of media.
func disksOf(pushed *overlay.Overlay, copies *staging.Store) (*disk, *disk) {
	return &disk{place: "among the pushed images; push the image again", sound: map[string]bool{},
			damaged: func(digest string) error {
				return &DamagedError{Digest: digest, Place: "the appliance's disk", Remedy: "push the image again"}
			},
			stat: func(digest string) (int64, bool) {
				size, err := pushed.Stat(digest)
				return size, err == nil
			}, open: pushed.Blob, remove: pushed.Discard},
		&disk{place: "in the copy on the disk, which is made again", sound: map[string]bool{},
			damaged: func(digest string) error {
				return &UnavailableError{RetryAfter: retryAfter, Reason: fmt.Sprintf("the copy of %s on the "+
					"appliance's disk was damaged and is removed; try again, and plug in its medium if that does not "+
					"help", digest)}
			}, stat: copies.Size, open: copies.Blob, remove: copies.Discard}
}

// emptyDigest is the digest of the blob without bytes.
const emptyDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// size returns the size of a blob, unless it is known to be damaged.
func (d *disk) size(digest string) (size int64, ok bool) {
	d.mu.Lock()
	sound, compared := d.sound[digest]
	d.mu.Unlock()
	if compared && !sound {
		return 0, false
	}
	size, ok = d.stat(digest)
	return size, ok && (size > 0 || digest == emptyDigest)
}

func (d *disk) isSound(digest string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sound[digest]
}

func (d *disk) setSound(digest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sound[digest] = true
}

// discard removes a damaged blob. If that fails, the blob is not used until the next start.
func (r *Registry) discard(d *disk, digest string, damaged *os.File) {
	r.log.Error("A blob is damaged.", "digest", digest, "place", d.place)
	info, err := damaged.Stat()
	if err == nil {
		err = d.remove(digest, info)
	}
	d.mu.Lock()
	if delete(d.sound, digest); err != nil {
		d.sound[digest] = false
	}
	d.mu.Unlock()
	if err != nil {
		r.log.Error("A damaged blob can't be removed. It is not used.", "digest", digest, "error", err)
	}
	if d == r.pushed {
		r.mu.Lock()
		r.removed[digest] = true
		r.mu.Unlock()
	}
	r.notify() // a copy is made again
}

// compareOnDisk compares a blob on the disk with its digest. A damaged one is removed. A file whose
// bytes the disk can't give any more is damaged.
func (r *Registry) compareOnDisk(d *disk, digest string) (sound bool, err error) {
	file, err := d.open(digest)
	if errors.Is(err, overlay.ErrUnknown) || errors.Is(err, fs.ErrNotExist) {
		return true, nil // it was removed meanwhile
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // it was only read
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	switch {
	case err == nil && "sha256:"+hex.EncodeToString(sum.Sum(nil)) == digest:
		d.setSound(digest)
		return true, nil
	case err == nil, isUnreadable(err):
		r.discard(d, digest, file)
		return false, nil
	}
	return false, err
}

// compareSizes compares the copies with their digests that are not as long as the blobs on their
// media: the status says that the media of whole copies are not needed.
func (r *Registry) compareSizes() {
	for _, digest := range r.staging.Digests() {
		size, _ := r.staging.Size(digest)
		differs, equals := false, false
		for _, m := range r.media {
			if blob, ok := m.index.Blobs[digest]; ok {
				differs, equals = differs || blob.Size() != size, equals || blob.Size() == size
			}
		}
		if !differs || equals {
			continue
		}
		if _, err := r.compareOnDisk(r.copies, digest); err != nil {
			r.log.Error("The copy of a blob can't be read.", "digest", digest, "error", err)
		}
	}
}

// isUnreadable reports whether a file lacks bytes, or the disk can't give them any more.
func isUnreadable(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || isOfDisk(err) }

// isOfDisk reports whether an error is that of a disk that can't give bytes any more.
func isOfDisk(err error) bool { return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG) }

// isReadError reports whether the error of a copy is that of the file, not of the client.
func isReadError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}
