package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

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
		failures, err := r.verifyMedia(ctx)
		if err != nil {
			failures = append(failures, err.Error())
		}
		r.mu.Lock()
		r.verify.Running, r.verify.Finished = false, ctx.Err() == nil
		r.verify.Message = summary(failures)
		r.mu.Unlock()
	}
}

// summary returns the first failures in one line.
func summary(failures []string) string {
	const enough = 10
	if more := len(failures) - enough; more > 0 {
		failures = append(failures[:enough:enough], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(failures, "; ")
}

// verifyMedia compares all blobs. A file or a medium that can't be read is a failure, which does
// not keep it from comparing the others. The error is that of the context, or of a list of blobs.
func (r *Registry) verifyMedia(ctx context.Context) (failures []string, err error) {
	c := r.current.Load()
	pushed, err := r.Overlay.Digests()
	if err != nil {
		return nil, err
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
			err := r.verifyBlob(ctx, m, reader, digest)
			if ctx.Err() != nil {
				return failures, err
			}
			if err != nil {
				failures = append(failures, err.Error()+"; the rest of it was not compared")
				break
			}
		}
	}
	onDisk, err := r.verifyDisk(ctx, pushed, copies)
	return append(failures, onDisk...), err
}

// verifyDisk compares pushed blobs and copies of media. Damaged ones are removed: a copy is made
// again from its medium, and a client sends a blob again only if it is absent.
func (r *Registry) verifyDisk(ctx context.Context, pushed, copies []string) (failures []string, err error) {
	note := func(digest string, err error) {
		if err != nil && ctx.Err() == nil {
			failures = append(failures, digest+": "+err.Error())
		}
	}
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
		note(digest, err)
	}
	for _, digest := range pushed {
		size, err := r.Overlay.Stat(digest)
		if errors.Is(err, overlay.ErrUnknown) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			note(digest, err)
			continue
		}
		sound, err := r.verifyFile(ctx, digest, size, func(w io.Writer) error {
			return r.Overlay.Copy(w, digest, 0, size)
		})
		if err == nil && !sound {
			err = r.Overlay.Discard(digest)
			r.foundDamaged(digest, "among the pushed images; push the image again")
		}
		note(digest, err)
	}
	r.notify() // copies are made again
	return failures, ctx.Err()
}

// verifyFile compares what write writes with a digest. A file that is too short, or whose bytes the
// disk can't give any more, is not sound.
func (r *Registry) verifyFile(ctx context.Context, digest string, size int64,
	write func(io.Writer) error) (sound bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	sum := sha256.New()
	err = write(sum)
	r.mu.Lock()
	r.verify.Done += size
	r.mu.Unlock()
	if errors.Is(err, io.ErrUnexpectedEOF) || isOfDisk(err) {
		return false, nil
	}
	return err == nil && "sha256:"+hex.EncodeToString(sum.Sum(nil)) == digest, err
}

// isOfDisk reports whether an error is that of a disk that can't give bytes any more.
func isOfDisk(err error) bool { return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG) }

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
	remedy := r.remedy(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify.Done += n
	if damaged {
		r.verify.Damaged = append(r.verify.Damaged, digest+" on "+m.place(digest)+"; "+remedy)
	}
	return nil
}
