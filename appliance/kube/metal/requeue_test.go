package metal

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// refusingServers rejects every desired state. The test sets the reason.
type refusingServers struct {
	mu     sync.Mutex
	reason string
	calls  int
}

func (r *refusingServers) Ensure(context.Context, string, bmc.Desired) (*bmc.Server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	return nil, &bmc.RequestError{Field: "address", Reason: r.reason}
}

func (r *refusingServers) Find(name string) (*bmc.Server, error) {
	return nil, &bmc.NotFoundError{ID: name}
}

func (r *refusingServers) RequestAction(context.Context, string, bmc.ActionKind) (*bmc.Server, error) {
	return nil, nil
}

func (r *refusingServers) Remove(context.Context, string, bool) error { return nil }

func (r *refusingServers) refuse(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reason, r.calls = reason, 0
}

func (r *refusingServers) called() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// A changed error of the BMC manager is written by the next reconcile, which the loop queues. The
// reconcile that received the error does not call itself.
func TestHostReconcile_changedRefusalIsQueued(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	clock, o := clockwork.NewFakeClock(), objects.New(nil, nil)
	loop := controller.New(db, clock, slog.New(slog.DiscardHandler))
	servers := &refusingServers{reason: "The first reason."}
	c := New(Options{DB: db, Objects: o, Servers: servers, Loop: loop, Clock: clock})
	loop.Add(c.Reconcilers()...)
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "node0"}}
	host.Spec.BMC = metal3.BMCDetails{Address: "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1",
		CredentialsName: "node0"}
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		if err := o.Create(tx, objects.BareMetalHosts, host, clock.Now()); err != nil {
			return err
		}
		return o.Create(tx, objects.Secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "node0"},
			Data:       map[string][]byte{"username": []byte("admin"), "password": []byte("secret")},
		}, clock.Now())
	}))
	held := func() (held metal3.BareMetalHost) {
		require.NoError(t, db.View(func(tx *store.Tx) error {
			return o.Get(tx, objects.BareMetalHosts, "site", "node0", &held)
		}))
		return held
	}

	_, err = hosts{c}.Reconcile(t.Context(), "site", "node0")
	require.NoError(t, err)
	require.Equal(t, 1, servers.called())
	require.Empty(t, held().Status.ErrorMessage)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	idle := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		require.NoError(t, loop.WaitIdle(ctx))
	}
	idle()
	require.Equal(t, "The first reason.", held().Status.ErrorMessage)

	servers.refuse("The second reason.")
	loop.Enqueue(controller.Key{Kind: objects.BareMetalHosts, Namespace: "site", Name: "node0"})
	idle()
	require.Equal(t, "The second reason.", held().Status.ErrorMessage)
	cancel()
	require.NoError(t, <-ended)
}
