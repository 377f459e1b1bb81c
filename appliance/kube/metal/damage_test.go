package metal

import (
	"testing"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// A damaged Agent still belongs to the hosts that it belonged to.
func TestHostsOfAgent_damagedAgent(t *testing.T) {
	s := kubetest.New(t)
	c := New(Options{DB: s.DB, Objects: s.Objects, Clock: s.Clock})
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "node0"}}
	host.Spec.BootMACAddress = "52:54:00:00:00:07"
	agent := &agentinstall.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "a"}}
	agent.Status.Inventory.Interfaces = []agentinstall.HostInterface{{MACAddress: "52:54:00:00:00:07"}}
	s.Update(func(tx *store.Tx) error {
		if err := s.Objects.Create(tx, objects.BareMetalHosts, host, s.Clock.Now()); err != nil {
			return err
		}
		return s.Objects.Create(tx, objects.Agents, agent, s.Clock.Now())
	})
	requireHost := func() {
		t.Helper()
		require.NoError(t, s.DB.View(func(tx *store.Tx) error {
			keys, err := c.hostsOfAgent(tx, "site", "a")
			require.Equal(t, []controller.Key{{Kind: objects.BareMetalHosts, Namespace: "site", Name: "node0"}}, keys)
			return err
		}))
	}
	requireHost()
	s.Damage(objects.Agents, "site", "a")
	requireHost()
}
