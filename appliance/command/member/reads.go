package member

import (
	"context"
	"sync"
	"time"
)

// readsTime limits how long an answer waits for the reads of images at other members.
const readsTime = time.Second

// otherReads asks the other members which machines read their images. A member that does not answer
// is left out.
func (m *member) otherReads(ctx context.Context) (all [][]byte) {
	ctx, cancel := context.WithTimeout(ctx, readsTime)
	defer cancel()
	others, err := m.membership.Others(ctx)
	if err != nil {
		m.Logger.DebugContext(ctx, "The reads of images at other members are not known.", "error", err)
		return nil
	}
	var lock sync.Mutex
	var asking sync.WaitGroup
	for _, other := range others {
		asking.Go(func() {
			reads, err := m.peers.Reads(ctx, other)
			if err != nil {
				m.Logger.DebugContext(ctx, "The reads of images at another member are not known.", "member", other.Name,
					"error", err)
				return
			}
			lock.Lock()
			defer lock.Unlock()
			all = append(all, reads)
		})
	}
	asking.Wait()
	return all
}
