package appliance

import (
	"context"
	"sync"

	"landfall/isogen"
)

// digests are the digests of images, computed one at a time in the background and kept for those
// asked for last.
type digests struct {
	mu      sync.Mutex
	known   map[string]string // by ETag; empty while it is being computed
	order   []string
	pending chan *isogen.Image
}

func newDigests() *digests {
	return &digests{known: make(map[string]string), pending: make(chan *isogen.Image, heldImages)}
}

// of returns the digest of an image or "" when it is not known yet; it is computed then if that is
// wanted.
func (d *digests) of(image *isogen.Image, compute bool) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	tag := image.ETag()
	if sum, ok := d.known[tag]; ok || !compute {
		return sum
	}
	select {
	case d.pending <- image:
		d.known[tag] = ""
		d.order = append(d.order, tag)
		if len(d.order) > heldImages {
			delete(d.known, d.order[0])
			d.order = d.order[1:]
		}
	default: // too many wait already; the next question tries again
	}
	return ""
}

// run computes digests until the context ends.
func (d *digests) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case image := <-d.pending:
			sum, err := image.SHA256(ctx)
			d.mu.Lock()
			if err != nil {
				delete(d.known, image.ETag())
			} else {
				d.known[image.ETag()] = sum
			}
			d.mu.Unlock()
			// A base that was changed meanwhile has no digest; whoever asks for the image next is
			// told.
		}
	}
}
