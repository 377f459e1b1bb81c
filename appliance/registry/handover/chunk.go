package handover

import (
	"bytes"
	"io"
	"sync/atomic"
)

// chunkSize is the largest part of a blob in one request, in bytes. 0 sends blobs as a whole,
// which most registries take and which needs the fewest requests.
type chunkSize struct{ bytes atomic.Int64 }

// of returns the size of the next part if n bytes are left.
func (c *chunkSize) of(n int64) int64 {
	if limit := c.bytes.Load(); limit > 0 {
		return min(n, limit)
	}
	return n
}

// reduce makes the parts smaller. It reports false if they are as small as they get.
func (c *chunkSize) reduce() bool {
	for {
		before := c.bytes.Load()
		next := int64(firstChunk)
		if before > 0 {
			next = before / 4
		}
		if next < smallestChunk {
			return false
		}
		if c.bytes.CompareAndSwap(before, next) {
			return true
		}
	}
}

func newBody(data []byte) io.Reader { return bytes.NewReader(data) }
