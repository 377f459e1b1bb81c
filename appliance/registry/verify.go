package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"landfall/appliance/fault"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
)

// StartVerify starts a comparison of all blobs with their digests, in the background: those on the
// present media, their copies on the disk, and those that were pushed.
func (r *Registry) StartVerify() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verify.Running {
		return fault.New(fault.Conflict, "The media are being verified already; landfall registry status shows it.")
	}
	r.verify = Verify{Running: true}
	select {
	case r.verifying <- struct{}{}:
	default:
	}
	return nil
}

// verifyAll carries out the comparisons that StartVerify orders, until the context ends.
func (r *Registry) verifyAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.verifying:
		}
		err := r.verifyMedia(ctx)
		r.mu.Lock()
		r.verify.Running = false
		if err != nil {
			r.verify.Message = err.Error()
		}
		r.mu.Unlock()
	}
}

func (r *Registry) verifyMedia(ctx context.Context) error {
	c := r.current.Load()
	pushed, err := r.Overlay.Digests()
	if err != nil {
		return err
	}
	copies := r.staging.Digests()
	var total int64
	for _, digest := range pushed {
		size, _ := r.Overlay.Stat(digest) // it may be deleted meanwhile
		total += size
	}
	for _, digest := range copies {
		total += r.staging.Written(digest)
	}
	for _, m := range c.media {
		if m.state("") == statePresent {
			for _, blob := range m.index.Blobs {
				total += blob.Size()
			}
		}
	}
	r.mu.Lock()
	r.verify.Total = total
	r.mu.Unlock()
	for _, m := range c.media {
		for _, digest := range m.inOrder() {
			reader, _ := m.use("", true)
			if reader == nil {
				break
			}
			if err := r.verifyBlob(ctx, m, reader, digest); err != nil {
				return err
			}
		}
	}
	return r.verifyDisk(ctx, pushed, copies)
}

// verifyDisk compares pushed blobs and copies of media. Damaged ones are removed: a copy is made
// again from its medium, and a client sends a blob again only if it is absent.
func (r *Registry) verifyDisk(ctx context.Context, pushed, copies []string) error {
	for _, digest := range copies {
		size, _ := r.staging.Size(digest)
		sound, err := r.verifyFile(ctx, digest, size, func(w io.Writer) error {
			_, err := r.staging.Copy(w, digest, 0, size)
			return err
		})
		if err == nil && !sound {
			err = r.staging.Discard(digest)
			r.foundDamaged(digest, "in the copy on the disk, which is made again")
		}
		if err != nil {
			return err
		}
	}
	for _, digest := range pushed {
		size, err := r.Overlay.Stat(digest)
		if errors.Is(err, overlay.ErrUnknown) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		sound, err := r.verifyFile(ctx, digest, size, func(w io.Writer) error {
			return r.Overlay.Copy(w, digest, 0, size)
		})
		if err == nil && !sound {
			err = r.Overlay.Discard(digest)
			r.foundDamaged(digest, "among the pushed images; push the image again")
		}
		if err != nil {
			return err
		}
	}
	r.notify() // copies are made again
	return nil
}

// verifyFile compares what write writes with a digest. A file that is too short is not sound.
func (r *Registry) verifyFile(ctx context.Context, digest string, size int64,
	write func(io.Writer) error) (sound bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	sum := sha256.New()
	err = write(sum)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	r.mu.Lock()
	r.verify.Done += size
	r.mu.Unlock()
	return err == nil && "sha256:"+hex.EncodeToString(sum.Sum(nil)) == digest, err
}

// foundDamaged notes a damaged blob for people.
func (r *Registry) foundDamaged(digest, place string) {
	r.log.Error("A blob is damaged.", "digest", digest, "place", place)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify.Damaged = append(r.verify.Damaged, digest+" "+place)
}

func (r *Registry) verifyBlob(ctx context.Context, m *held, reader *medium.Reader, digest string) error {
	sum, blob := sha256.New(), m.index.Blobs[digest]
	n, err := reader.Copy(ctx, struct{ io.Writer }{sum}, blob, 0, blob.Size())
	if broken, ok := errors.AsType[*medium.ReadError](err); ok {
		r.lost(m, digest, broken)
	}
	damaged := m.state(digest) == stateDamaged
	if err != nil && !damaged {
		return err
	}
	damaged = damaged || "sha256:"+hex.EncodeToString(sum.Sum(nil)) != digest
	if damaged {
		m.setDamaged(digest)
	} else {
		m.setSound(digest)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify.Done += n
	if damaged {
		r.verify.Damaged = append(r.verify.Damaged, digest+" on "+m.place(digest))
	}
	return nil
}
