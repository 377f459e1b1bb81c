package supply

import (
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/record"
	"landfall/appliance/registry/traffic"
	"landfall/store"
)

// Clients have the names of hosts whose interfaces have their addresses.
func TestNameClients_byTheirInterfaces(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		for id, inventory := range map[string]string{
			"00000000-0000-4000-8000-000000000001": `{"cpu":{},"memory":{},"hostname":"worker-1","interfaces":[` +
				`{"ipv4_addresses":["192.0.2.7/24"],"ipv6_addresses":["2001:db8::7/64"]}]}`,
			"00000000-0000-4000-8000-000000000002": "",
		} {
			row := &record.Host{API: models.Host{ID: conv.Pointer(strfmt.UUID(id)), Inventory: inventory}}
			if err := record.Hosts.Put(tx, "env/"+id, row); err != nil {
				return err
			}
		}
		return nil
	}))
	clients := []traffic.Client{{Address: "192.0.2.7"}, {Address: "2001:db8::7"}, {Address: "192.0.2.8"}}
	require.NoError(t, NameClients(db, clients))
	require.Equal(t, []traffic.Client{{Address: "192.0.2.7", Host: "worker-1"},
		{Address: "2001:db8::7", Host: "worker-1"}, {Address: "192.0.2.8"}}, clients)
}
