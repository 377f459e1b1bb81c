package osimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// hashFile computes the digest of a file and returns it with the file's information. It returns an
// error if the file changes during the computation.
func hashFile(ctx context.Context, path string, progress func(done int64)) (sum string, info os.FileInfo, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err = file.Stat(); err != nil {
		return "", nil, err
	}
	hash, buffer, done := sha256.New(), make([]byte, 1<<20), int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return "", nil, err
		}
		n, err := file.Read(buffer)
		hash.Write(buffer[:n])
		if done += int64(n); n > 0 {
			progress(done)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", nil, err
		}
	}
	after, err := file.Stat()
	if err != nil {
		return "", nil, err
	}
	if after.Size() != info.Size() || !after.ModTime().Equal(info.ModTime()) {
		return "", nil, fmt.Errorf("%s changed while its digest was computed", path)
	}
	return hex.EncodeToString(hash.Sum(nil)), info, nil
}
