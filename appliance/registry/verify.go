package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"landfall/appliance/fault"
	"landfall/appliance/registry/medium"
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
	compare := func(d *disk, digests []string) {
		for _, digest := range digests {
			if ctx.Err() != nil {
				return
			}
			size, _ := d.size(digest)
			sound, err := r.compareOnDisk(d, digest)
			r.mu.Lock()
			r.verify.Done += size
			if err == nil && !sound {
				r.verify.Damaged = append(r.verify.Damaged, digest+" "+d.place)
			}
			r.mu.Unlock()
			if err != nil {
				failures = append(failures, digest+": "+err.Error())
			}
		}
	}
	compare(r.copies, copies)
	compare(r.pushed, pushed)
	return failures, ctx.Err()
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
