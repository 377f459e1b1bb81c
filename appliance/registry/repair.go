package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"

	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/unpacked"
)

// This file makes the tar archives of compressed archives sound again.

// isDamaged reports whether the tar archive of an archive is damaged.
func (r *Registry) isDamaged(p *packed) bool {
	r.mu.Lock()
	repairs := p.repairs
	r.mu.Unlock()
	m := r.tarOf(p)
	if m == nil || repairs {
		return repairs
	}
	m.mu.Lock()
	damaged := len(m.damaged) > 0 || m.index.Damaged()
	m.mu.Unlock()
	return damaged && r.isAsRead(m) // a file that was repaired is read again
}

// isAsRead reports whether the file of a medium is the one that was read.
func (r *Registry) isAsRead(m *held) bool {
	stamp, _, err := stampOf(m.location)
	r.mu.Lock()
	defer r.mu.Unlock()
	return err == nil && stamp == m.stamp
}

// isInRepair reports whether a file is the tar archive of an archive whose repair has not ended.
// Its sound parts can be read during the repair. The caller holds the mutex.
func (r *Registry) isInRepair(location medium.Location) bool {
	key, ok := r.unpacked.KeyOf(location.Path)
	return ok && r.packed[key] != nil && r.packed[key].repairs
}

// setRepairs notes that a repair begins, or that the tar archive is sound.
func (r *Registry) setRepairs(p *packed, repairs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.repairs = repairs
}

// Errors of a repair.
var (
	errSameDamage = errors.New("the compressed archive has the same damage")
	errNoChecksum = errors.New("the compressed archive has no checksum")
)

// repair makes the tar archive of an archive sound. It compares the two first: whether what the
// compressed one has is right is known at its end.
func (r *Registry) repair(ctx context.Context, p *packed) error {
	r.setRepairs(p, true)
	row := r.rowOf(p)
	if err := r.withDeadline(ctx, row.Location, func() error {
		if checked, err := medium.HasChecksum(row.Location, r.options.Open); err != nil || checked {
			return err
		}
		return errNoChecksum
	}); err != nil {
		return err
	}
	var differences *unpacked.Differences
	if err := r.unpackTo(ctx, p, func(plain io.Reader) (err error) {
		differences, err = r.unpacked.Compare(p.key, row.Name, plain)
		return err
	}); err != nil {
		return err
	}
	if differences.Bytes == 0 {
		return r.compareMarked(ctx, p)
	}
	if err := r.unpackTo(ctx, p, func(plain io.Reader) error {
		return r.unpacked.Repair(p.key, row.Name, plain, differences)
	}); err != nil {
		return err
	}
	r.log.Info("The damaged copy of a compressed archive was made again.", "medium", row.Location.Label(), "bytes",
		differences.Bytes)
	return nil
}

// compareMarked compares the blobs of a tar archive that count as damaged, although it is the same
// as the compressed one: the disk may have failed to give them only once. It returns errSameDamage
// if some are damaged.
func (r *Registry) compareMarked(ctx context.Context, p *packed) error {
	m := r.tarOf(p)
	if m == nil || !r.isAsRead(m) {
		return nil // it is read again
	}
	m.mu.Lock()
	marked, reader := slices.Sorted(maps.Keys(m.damaged)), m.reader
	m.mu.Unlock()
	if reader == nil {
		return m.unavailable()
	}
	isWrong := m.index.Damaged()
	for _, digest := range marked {
		sum, blob := sha256.New(), m.index.Blobs[digest]
		_, err := reader.Copy(ctx, struct{ io.Writer }{sum}, blob, 0, blob.Size())
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if err != nil || "sha256:"+hex.EncodeToString(sum.Sum(nil)) != digest {
			isWrong = true
			continue
		}
		m.mu.Lock()
		delete(m.damaged, digest)
		m.sound[digest] = true
		m.mu.Unlock()
	}
	if isWrong {
		return errSameDamage
	}
	return nil
}
