//go:build etcd

package sequence

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lossy loses some transactions and some of their answers, and carries some out later.
type lossy struct {
	clientv3.KV

	mu   sync.Mutex
	rand *rand.Rand
	late sync.WaitGroup
}

func (k *lossy) intN(n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rand.IntN(n)
}

func (k *lossy) Txn(ctx context.Context) clientv3.Txn {
	return &lossyTxn{kv: k, now: k.KV.Txn(ctx), later: k.KV.Txn(context.WithoutCancel(ctx))}
}

type lossyTxn struct {
	kv         *lossy
	now, later clientv3.Txn
}

func (t *lossyTxn) If(conditions ...clientv3.Cmp) clientv3.Txn {
	t.now, t.later = t.now.If(conditions...), t.later.If(conditions...)
	return t
}

func (t *lossyTxn) Then(operations ...clientv3.Op) clientv3.Txn {
	t.now, t.later = t.now.Then(operations...), t.later.Then(operations...)
	return t
}

func (t *lossyTxn) Else(operations ...clientv3.Op) clientv3.Txn {
	t.now, t.later = t.now.Else(operations...), t.later.Else(operations...)
	return t
}

func (t *lossyTxn) Commit() (*clientv3.TxnResponse, error) {
	errors := []error{rpctypes.ErrTimeout, rpctypes.ErrLeaderChanged, context.DeadlineExceeded}
	err := errors[t.kv.intN(len(errors))]
	switch t.kv.intN(100) {
	case 0, 1:
		return nil, err
	case 2, 3:
		_, _ = t.now.Commit()
		return nil, err
	case 4:
		_, _ = t.now.Commit()
		return nil, rpctypes.ErrNoSpace
	case 5:
		return nil, rpctypes.ErrNoSpace
	case 6, 7, 8:
		pause := time.Duration(t.kv.intN(100)) * time.Millisecond
		t.kv.late.Go(func() {
			time.Sleep(pause)
			_, _ = t.later.Commit()
		})
		return nil, err
	}
	return t.now.Commit()
}
