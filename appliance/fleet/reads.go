package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// largestReads limits the answer of a member about the reads of its images, in bytes.
const largestReads = 4 << 20

// reads answers which machines read images of this member.
func (p *Peers) reads(w http.ResponseWriter, r *http.Request) {
	reads, err := p.Reads()
	if err != nil {
		p.Refuse(w, r, err)
		return
	}
	writeJSON(w, reads)
}

// Reads asks a follower which machines read its images. The answer is what its Peers.Reads
// returned, as JSON.
func (c *Client) Reads(ctx context.Context, of Peer) ([]byte, error) {
	body, err := c.ask(ctx, asked{method: http.MethodGet, of: of, at: readsPath})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	reads, err := io.ReadAll(io.LimitReader(body, largestReads))
	if err != nil {
		return nil, fmt.Errorf("read the reads of images of the member %s: %w", of.Name, err)
	}
	return reads, nil
}
