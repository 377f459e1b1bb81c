package metal

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// The controllers forget a host that was deleted, also if another one has its name by then.
func TestHostReconcile_forgetsDeletedHosts(t *testing.T) {
	s := kubetest.New(t)
	c := New(Options{DB: s.DB, Objects: s.Objects, Servers: &refusingServers{}, Clock: s.Clock})
	remember := func(id string) {
		c.refusals[id], c.relayed[id], c.drains[id] = "refused", time.Now(), drainOutcome{drained: true}
		c.lastEvents[id], c.trusting[id] = "message", "config"
	}
	create := func() {
		s.Update(func(tx *store.Tx) error {
			return s.Objects.Create(tx, objects.BareMetalHosts, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
				Namespace: "site", Name: "node0"}}, s.Clock.Now())
		})
	}
	remove := func() {
		s.Update(func(tx *store.Tx) error {
			if err := s.Objects.Update(tx, objects.BareMetalHosts, "site", "node0",
				func(u *unstructured.Unstructured) error {
					u.SetFinalizers(nil)
					return nil
				}); err != nil {
				return err
			}
			return s.Objects.Delete(tx, objects.BareMetalHosts, "site", "node0", s.Clock.Now())
		})
	}
	reconcile := func() (id string) {
		t.Helper()
		_, err := hosts{c}.Reconcile(t.Context(), "site", "node0")
		require.NoError(t, err)
		return c.index.hosts[ref{"site", "node0"}].server
	}
	forgotten := func(id string) bool {
		_, refused := c.refusals[id]
		_, relayed := c.relayed[id]
		_, drained := c.drains[id]
		return !refused && !relayed && !drained && c.lastEvents[id] == "" && c.trusting[id] == ""
	}
	create()
	first := reconcile()
	remember(first)
	require.Equal(t, first, reconcile())
	require.False(t, forgotten(first), "the host still exists")
	remove()
	create()
	second := reconcile()
	require.NotEqual(t, first, second)
	require.True(t, forgotten(first), "another host has the name")
	remember(second)
	remove()
	require.Empty(t, reconcile())
	require.True(t, forgotten(second))
}
