package engine

import (
	"errors"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// nameIn returns the name of a host in its reports, as a change reads it.
func (b *harness) nameIn(c *change, key string) string {
	b.Helper()
	h, err := c.host(key)
	require.NoError(b, err)
	host, err := c.inventoryHost(h)
	require.NoError(b, err)
	return host.Inventory.Hostname
}

func TestReports_visibleAfterCommit(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	key := h.env + "/" + h.id
	rename := func(c *change, name string) {
		host, err := c.host(key)
		require.NoError(t, err)
		facts, err := c.hostFacts(host)
		require.NoError(t, err)
		renamed := *facts.Inventory
		renamed.Hostname = name
		text, err := inventory.Encode(&renamed, nil)
		require.NoError(t, err)
		require.NoError(t, c.setReport(host, record.PartInventory, text,
			func(f *inventory.Facts) { f.Inventory = &renamed }))
	}
	committed := func() (name string) {
		require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
			name = b.nameIn(newReading(t.Context(), b.Engine, tx), key)
			return nil
		}))
		return name
	}

	errNotThis := errors.New("rolled back")
	require.ErrorIs(t, b.options.DB.Update(t.Context(), func(tx *store.Tx) error {
		c := newChange(t.Context(), b.Engine, tx)
		rename(c, "never")
		require.Equal(t, "never", c.hostName(c.hosts[key]), "visible in the change itself")
		require.Equal(t, "node-1", committed(), "invisible to readers")
		require.NoError(t, c.write())
		require.Equal(t, "never", b.nameIn(newChange(t.Context(), b.Engine, tx), key),
			"visible in the same transaction")
		return errNotThis
	}), errNotThis)
	require.Equal(t, "node-1", committed())

	require.NoError(t, b.options.DB.View(func(before *store.Tx) error {
		require.NoError(t, b.update(t.Context(), func(c *change) error { rename(c, "node-2"); return nil }))
		require.Equal(t, "node-2", committed())
		require.Equal(t, "node-1", b.nameIn(newReading(t.Context(), b.Engine, before), key),
			"an earlier reader keeps its snapshot")
		return nil
	}))
	require.Equal(t, "node-2", committed(), "the earlier value is not cached")
}

func TestFacts_deletedWithTheirHost(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	require.NoError(t, b.DeregisterHost(t.Context(), env, h.id))
	require.NoError(t, h.register())
	require.Empty(t, h.require(lifecycle.HostDiscovering).Inventory)
	require.Contains(t, h.stepTypes(), models.StepTypeInventory)
	h.report()
	h.require(lifecycle.HostKnown)
}
