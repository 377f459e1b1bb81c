package sequence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lease is what this machine knows about its lease by its own clock. etcd counts the time to live
// from the moment at which it gets a renewal, which is later than the moment of sending. So the
// lease is valid at least until the time of sending plus the time to live. A process that was
// stopped finds old answers when it wakes up: they count from the time of sending too.
type lease struct {
	now func() instant

	mu    sync.Mutex
	until instant
}

// instant is a time by two clocks. The monotonic clock does not count while the machine is
// suspended, and the wall clock can be set.
type instant struct{ monotonic, wall time.Time }

func now(clock clockwork.Clock) instant {
	t := clock.Now()
	return instant{t, t.Round(0)}
}

func (i instant) add(d time.Duration) instant { return instant{i.monotonic.Add(d), i.wall.Add(d)} }

// renewed notes a renewal that was sent at a time. A tenth of the time to live is left for clocks
// of different speeds.
func (l *lease) renewed(sent instant, live time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := sent.add(live - live/10); until.monotonic.After(l.until.monotonic) {
		l.until = until
	}
}

func (l *lease) valid() bool { return l.remaining() > 0 }

// remaining returns for how long the lease is valid.
func (l *lease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	return max(0, min(l.until.monotonic.Sub(now.monotonic), l.until.wall.Sub(now.wall)))
}

var errExpired = errors.New("the lease has expired")

// renew renews a lease of etcd once. It returns the time to live that etcd granted and the term of
// the consensus in which it did. It returns errExpired if the lease does not exist. Each renewal
// has a stream of its own: on a shared one, a late answer could be taken for that of the next
// request. clientv3.Lease.KeepAliveOnce is not used: without a leader, it repeats the request
// without a pause.
func renew(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID) (time.Duration, uint64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	stream, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("renew the lease: %w", err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return 0, 0, fmt.Errorf("renew the lease: %w", err)
	}
	response, err := stream.Recv()
	if err != nil {
		return 0, 0, fmt.Errorf("renew the lease: %w", err)
	}
	if response.TTL <= 0 {
		return 0, 0, errExpired
	}
	return time.Duration(response.TTL) * time.Second, response.Header.RaftTerm, nil
}
