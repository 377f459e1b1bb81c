package isogen

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync/atomic"
)

// digest is a SHA-256 that is computed once, in the goroutine of the first caller. Other callers
// wait for the result. If the first caller is canceled, the next caller computes the digest.
type digest struct {
	lock chan struct{} // holds one item while the digest is computed
	sum  atomic.Pointer[string]
}

func newDigest() *digest { return &digest{lock: make(chan struct{}, 1)} }

// of returns, in hex, the digest of the content of the reader that open returns.
func (d *digest) of(ctx context.Context, open func() io.ReadCloser) (string, error) {
	if sum := d.sum.Load(); sum != nil {
		return *sum, nil
	}
	select {
	case d.lock <- struct{}{}:
		defer func() { <-d.lock }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if sum := d.sum.Load(); sum != nil {
		return *sum, nil
	}
	sum, err := hash(ctx, open())
	if err != nil {
		return "", err
	}
	d.sum.Store(&sum)
	return sum, nil
}

func hash(ctx context.Context, r io.ReadCloser) (sum string, err error) {
	defer func() {
		if e := r.Close(); err == nil {
			err = e
		}
	}()
	h := sha256.New()
	for buf := make([]byte, 1<<20); ; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", fmt.Errorf("reading for the SHA-256: %w", err)
		}
	}
}
