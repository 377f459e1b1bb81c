package blob

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"landfall/store/seal"
	"landfall/store/wal"
)

// A sealed blob has a header and chunks. The header contains the blob's own random key, sealed with
// a data key. Each chunk is sealed with the blob's key by AES-256-GCM. So a blob can be read from
// any offset, and a new data key changes the header only. The nonce of a chunk is its number; the
// first byte is 1 for the last chunk, so that a truncated blob is noticed.

const (
	// sealedSuffix is the end of a sealed blob's name.
	sealedSuffix   = ".sealed"
	blobHeaderSize = 128
	// chunkSize is the size of the clear content of a chunk in bytes. The last chunk is smaller.
	chunkSize   = 64 << 10
	sealedChunk = chunkSize + 16
)

var blobContext = []byte("blob")

// sealedSize returns the size of a sealed blob in bytes.
func sealedSize(size int64) int64 {
	chunks := max((size+chunkSize-1)/chunkSize, 1)
	return blobHeaderSize + size + chunks*(sealedChunk-chunkSize)
}

// blobHeader returns the header of a blob with a key.
func blobHeader(ring *seal.Ring, key []byte) ([]byte, error) {
	sealed, err := ring.Seal(make([]byte, 1, blobHeaderSize), key, blobContext)
	if err != nil {
		return nil, err
	}
	sealed[0] = byte(len(sealed) - 1)
	return append(sealed, make([]byte, blobHeaderSize-len(sealed))...), nil
}

// blobKey returns the key in the header of a blob and the number of the data key that seals it.
func blobKey(ring *seal.Ring, file io.ReaderAt) (key []byte, number uint64, err error) {
	var header [blobHeaderSize]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return nil, 0, err
	}
	sealed := header[1:]
	sealed = sealed[:min(int(header[0]), len(sealed))]
	if key, err = ring.Open(sealed, blobContext); err != nil {
		return nil, 0, err
	}
	number, err = seal.Number(sealed)
	return key, number, err
}

func blobCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func chunkNonce(number int64, last bool) []byte {
	var nonce [12]byte
	binary.BigEndian.PutUint64(nonce[4:], uint64(number))
	if last {
		nonce[0] = 1
	}
	return nonce[:]
}

// chunkWriter writes a sealed blob. Close writes the last chunk.
type chunkWriter struct {
	to      io.Writer
	aead    cipher.AEAD
	clear   []byte
	sealed  []byte
	written int64 // chunks
}

// newChunkWriter writes the header of a sealed blob.
func newChunkWriter(ring *seal.Ring, to io.Writer) (*chunkWriter, error) {
	key := seal.NewKey(1).Secret
	aead, err := blobCipher(key)
	if err != nil {
		return nil, err
	}
	header, err := blobHeader(ring, key)
	if err != nil {
		return nil, err
	}
	if _, err := to.Write(header); err != nil {
		return nil, err
	}
	return &chunkWriter{to: to, aead: aead, clear: make([]byte, 0, chunkSize)}, nil
}

// Write implements io.Writer.
func (w *chunkWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if len(w.clear) == chunkSize {
			if err := w.flush(false); err != nil {
				return n, err
			}
		}
		taken := copy(w.clear[len(w.clear):chunkSize], p)
		w.clear = w.clear[:len(w.clear)+taken]
		p, n = p[taken:], n+taken
	}
	return n, nil
}

func (w *chunkWriter) flush(last bool) error {
	w.sealed = w.aead.Seal(w.sealed[:0], chunkNonce(w.written, last), w.clear, nil)
	w.written, w.clear = w.written+1, w.clear[:0]
	_, err := w.to.Write(w.sealed)
	return err
}

// Close implements io.Closer.
func (w *chunkWriter) Close() error { return w.flush(true) }

// sealedFile reads the clear content of a sealed blob.
type sealedFile struct {
	file *os.File
	aead cipher.AEAD
	size int64 // of the clear content
	at   int64

	damaged func(error) error // returns the error of a damaged chunk

	chunk  int64 // number of the chunk in clear; -1: none
	clear  []byte
	sealed []byte
}

// openSealed opens a sealed blob of a known clear size. It closes the file if it fails.
func openSealed(ring *seal.Ring, file *os.File, size int64, damaged func(error) error) (_ *sealedFile, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", file.Name(), err), file.Close())
		}
	}()
	key, _, err := blobKey(ring, file)
	if err != nil {
		return nil, err
	}
	aead, err := blobCipher(key)
	if err != nil {
		return nil, err
	}
	return &sealedFile{file: file, aead: aead, size: size, chunk: -1, damaged: damaged}, nil
}

// Read implements io.Reader.
func (f *sealedFile) Read(p []byte) (int, error) {
	if f.at >= f.size {
		return 0, io.EOF
	}
	if number := f.at / chunkSize; number != f.chunk {
		if err := f.load(number); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.clear[f.at%chunkSize:])
	f.at += int64(n)
	return n, nil
}

func (f *sealedFile) load(number int64) (err error) {
	begin := number * chunkSize
	size := int(min(chunkSize, f.size-begin)) + sealedChunk - chunkSize
	if f.sealed == nil {
		f.sealed, f.clear = make([]byte, sealedChunk), make([]byte, 0, chunkSize)
	}
	f.chunk = -1
	if _, err := f.file.ReadAt(f.sealed[:size], blobHeaderSize+number*sealedChunk); err != nil {
		return fmt.Errorf("read %s: %w", f.file.Name(), err)
	}
	last := begin+chunkSize >= f.size
	if f.clear, err = f.aead.Open(f.clear[:0], chunkNonce(number, last), f.sealed[:size], nil); err != nil {
		return f.damaged(fmt.Errorf("read %s at %d: %w", f.file.Name(), begin, seal.ErrOpen))
	}
	f.chunk = number
	return nil
}

// Seek implements io.Seeker.
func (f *sealedFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: f.file.Name(), Err: fs.ErrInvalid}
	}
	f.at = offset
	return offset, nil
}

// Close implements io.Closer.
func (f *sealedFile) Close() error { return f.file.Close() }

// each calls fn with the path of each blob, sealed or not.
func (d *Dir) each(fn func(path string) error) error {
	dirs, err := readDir(d.dir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if !dir.IsDir() || len(dir.Name()) != 2 {
			continue
		}
		entries, err := readDir(filepath.Join(d.dir, dir.Name()))
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if err := fn(filepath.Join(d.dir, dir.Name(), entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// SealAll writes a sealed copy of each blob in clear.
func (d *Dir) SealAll() error {
	return d.each(func(path string) error {
		if strings.HasSuffix(path, sealedSuffix) {
			return nil
		}
		from, err := os.Open(path)
		if err != nil {
			return err
		}
		defer from.Close()
		info, err := from.Stat()
		if err != nil {
			return err
		}
		return d.replace(path+sealedSuffix, func(to io.Writer) error {
			sealed, err := newChunkWriter(d.ring, to)
			if err != nil {
				return err
			}
			if _, err := io.Copy(sealed, from); err != nil {
				return err
			}
			return sealed.Close()
		}, info)
	})
}

// RemoveClear removes the blobs in clear after the database was sealed.
func (d *Dir) RemoveClear() error {
	return d.each(func(path string) error {
		if strings.HasSuffix(path, sealedSuffix) {
			return nil
		}
		return os.Remove(path)
	})
}

// refreshHeader seals the header of a staged blob with the newest data key, which may have changed
// since the header was written.
func (d *Dir) refreshHeader(staged string) (err error) {
	if d.ring == nil {
		return nil
	}
	file, err := os.OpenFile(staged, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	key, number, err := blobKey(d.ring, file)
	if err != nil || number == d.ring.Current() {
		return err
	}
	header, err := blobHeader(d.ring, key)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(header, 0); err != nil {
		return err
	}
	return file.Sync()
}

// waitForPublishing returns when no blob is being published with an older header.
func (d *Dir) waitForPublishing() {
	d.mu.Lock()
	defer d.mu.Unlock()
}

// Reseal replaces the headers of blobs that were not sealed with the newest data key.
func (d *Dir) Reseal(ctx context.Context) error {
	// A blob that is published later has a new header: see publish.
	d.waitForPublishing()
	return d.each(func(path string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer from.Close()
		key, number, err := blobKey(d.ring, from)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if number == d.ring.Current() {
			return nil
		}
		header, err := blobHeader(d.ring, key)
		if err != nil {
			return err
		}
		info, err := from.Stat()
		if err != nil {
			return err
		}
		chunks := io.NewSectionReader(from, blobHeaderSize, info.Size()-blobHeaderSize)
		d.mu.Lock()
		defer d.mu.Unlock()
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil // collected in the meantime
		}
		return d.replace(path, func(to io.Writer) error {
			_, err := io.Copy(to, io.MultiReader(bytes.NewReader(header), chunks))
			return err
		}, info)
	})
}

// replace writes a file completely or not at all. The file gets the modification time of another
// one, because CollectBlobs decides by it.
func (d *Dir) replace(path string, write func(io.Writer) error, like fs.FileInfo) (err error) {
	stage := filepath.Join(d.dir, "stage")
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(stage, "")
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Chtimes(file.Name(), like.ModTime(), like.ModTime())
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return wal.SyncDirs(filepath.Dir(path))
}
