package fleet

import (
	"context"
	"io"

	"golang.org/x/time/rate"

	"landfall/appliance/fleet/filecopy"
)

// pace is the number of bytes a second with which a follower copies live ISOs, and blobs of pushed
// images, so that it leaves room for installations.
const pace, burst = 32 << 20, 1 << 20

// Paced limits the rate of the files that a function opens.
func Paced(open filecopy.Source) filecopy.Source {
	return func(ctx context.Context, id string, offset int64) (io.ReadCloser, error) {
		content, err := open(ctx, id, offset)
		if err != nil {
			return nil, err
		}
		return &paced{content, ctx, rate.NewLimiter(pace, burst)}, nil
	}
}

type paced struct {
	io.ReadCloser
	ctx     context.Context // of the reader
	limiter *rate.Limiter
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b[:min(len(b), burst)])
	if waited := p.limiter.WaitN(p.ctx, n); err == nil {
		err = waited
	}
	return n, err
}
