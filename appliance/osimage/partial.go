package osimage

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// checkpointInterval is the maximum number of received bytes that a power failure can lose.
const checkpointInterval = 64 << 20

// partial is the file of an image during its transfer. The digest is computed as the file is
// written. The state of the hash is stored with the synced offset, so that a later attempt need not
// read the file again.
type partial struct {
	file       *os.File
	sum        hash.Hash
	offset     int64 // bytes written
	synced     int64 // number of bytes synced to the disk
	checkpoint func(offset int64, state []byte) error
}

// openPartial continues a file at an offset with the stored state of its hash. If the file and the
// state do not match, it starts a new file.
func openPartial(path string, offset int64, state []byte, checkpoint func(int64,
	[]byte) error) (_ *partial, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, spaceError(filepath.Dir(path), err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	p := &partial{file: file, sum: sha256.New(), checkpoint: checkpoint}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if offset > 0 && info.Size() >= offset {
		restored, ok := p.sum.(encoding.BinaryUnmarshaler)
		if ok && restored.UnmarshalBinary(state) == nil {
			p.offset, p.synced = offset, offset
		} else {
			p.sum.Reset()
		}
	}
	return p, p.rewind(p.offset)
}

// rewind truncates the file to an offset.
func (p *partial) rewind(offset int64) error {
	if err := p.file.Truncate(offset); err != nil {
		return err
	}
	_, err := p.file.Seek(offset, io.SeekStart)
	return err
}

// restart removes the content.
func (p *partial) restart() error {
	p.sum.Reset()
	p.offset, p.synced = 0, 0
	return p.rewind(0)
}

// Write appends bytes.
func (p *partial) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.sum.Write(b[:n])
	p.offset += int64(n)
	if err != nil {
		return n, spaceError(filepath.Dir(p.file.Name()), err)
	}
	if p.offset-p.synced >= checkpointInterval {
		err = p.sync()
	}
	return n, err
}

// sync syncs the file to the disk and updates the record.
func (p *partial) sync() error {
	if err := p.file.Sync(); err != nil {
		return spaceError(filepath.Dir(p.file.Name()), err)
	}
	state, ok := p.sum.(encoding.BinaryMarshaler)
	if !ok {
		return errors.New("the state of the hash cannot be encoded")
	}
	data, err := state.MarshalBinary()
	if err != nil {
		return fmt.Errorf("store the state of the hash: %w", err)
	}
	if err := p.checkpoint(p.offset, data); err != nil {
		return err
	}
	p.synced = p.offset
	return nil
}

// reserve reserves space for a file of the given size, if the file system supports reservations. It
// checks the free space first, because a failed reservation can use up the space of other files.
func (p *partial) reserve(size int64) error {
	need := size - p.offset
	if need <= 0 {
		return nil
	}
	dir := filepath.Dir(p.file.Name())
	free, err := freeSpace(dir)
	if err != nil {
		return fmt.Errorf("determine the free space of %s: %w", dir, err)
	}
	if free < need {
		return &SpaceError{Dir: dir, Need: need, Free: free}
	}
	full := new(SpaceError)
	if err := spaceError(dir, allocate(p.file, p.offset, need)); errors.As(err, &full) {
		return errors.Join(&SpaceError{Dir: dir, Need: need, Free: free, Err: err}, p.rewind(p.offset))
	}
	return nil // the file system does not support reservations; the free space is currently sufficient
}

func (p *partial) digest() string { return hex.EncodeToString(p.sum.Sum(nil)) }

// close closes the file and keeps its content.
func (p *partial) close() error { return errors.Join(p.sync(), p.file.Close()) }
