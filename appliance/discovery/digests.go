package discovery

import (
	"context"
	"sync"

	"landfall/isogen"
)

// digests computes the digests of images in the background, one at a time, and keeps the latest
// ones.
type digests struct {
	mu      sync.Mutex
	known   map[string]string // by ETag; "" while the digest is being computed
	order   []string
	pending chan *isogen.Image
}

func newDigests() *digests {
	return &digests{known: make(map[string]string), pending: make(chan *isogen.Image, keptImages)}
}

// of returns the digest of an image, or "" while it is unknown. With compute, an unknown digest is
// queued.
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
		if len(d.order) > keptImages {
			delete(d.known, d.order[0])
			d.order = d.order[1:]
		}
	default: // the queue is full; the next call queues the image
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
				// The base ISO has changed. The next download of the image reports this error.
				delete(d.known, image.ETag())
			} else {
				d.known[image.ETag()] = sum
			}
			d.mu.Unlock()
		}
	}
}
