package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Verify reads a blob completely.
func (d *Dir) Verify(ctx context.Context, sum string) error {
	size, err := d.Size(sum)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the file %s is missing", d.Path(sum))
	}
	if err != nil {
		return err
	}
	content, err := d.Open(sum, size, func(err error) error { return err })
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, contextReader{ctx, content})
	if err = errors.Join(err, content.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(hash.Sum(nil)) != sum {
		return fmt.Errorf("%s has the content of another file", d.Path(sum))
	}
	return nil
}

// Size returns the size of the content of a blob in bytes.
func (d *Dir) Size(sum string) (int64, error) {
	info, err := os.Stat(d.Path(sum))
	if err != nil {
		return 0, err
	}
	if d.ring == nil {
		return info.Size(), nil
	}
	size := clearSize(info.Size())
	if size < 0 {
		return 0, fmt.Errorf("%s has %d bytes", d.Path(sum), info.Size())
	}
	return size, nil
}

// clearSize returns the size of the clear content of a sealed blob, or -1.
func clearSize(sealed int64) int64 {
	rest := sealed - blobHeaderSize
	chunks := (rest + sealedChunk - 1) / sealedChunk
	size := rest - chunks*(sealedChunk-chunkSize)
	if rest <= 0 || size < 0 || sealedSize(size) != sealed {
		return -1
	}
	return size
}
