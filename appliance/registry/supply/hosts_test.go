package supply

import (
	"context"
	"log/slog"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/record"
	"landfall/appliance/registry"
	"landfall/appliance/registry/traffic"
	"landfall/logtest"
	"landfall/store"
)

// siteWithHost returns a database with the host worker-1 and a host that has reported nothing.
func siteWithHost(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		for id, inventory := range map[string]string{
			hostID: `{"cpu":{},"memory":{},"hostname":"worker-1","interfaces":[` +
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
	return db
}

const hostID = "00000000-0000-4000-8000-000000000001"

// Clients have the names of hosts whose interfaces have their addresses.
func TestNameClients_byTheirInterfaces(t *testing.T) {
	clients := []traffic.Client{{Address: "192.0.2.7"}, {Address: "2001:db8::7"}, {Address: "192.0.2.8"}}
	require.NoError(t, NameClients(siteWithHost(t), clients))
	require.Equal(t, []traffic.Client{{Address: "192.0.2.7", Host: "worker-1"},
		{Address: "2001:db8::7", Host: "worker-1"}, {Address: "192.0.2.8"}}, clients)
}

// A host that asks for an architecture that was not mirrored gets one event for each image.
func TestFault14_oneEventOfTheHost(t *testing.T) {
	var events []*models.Event
	report := func(_ context.Context, e *models.Event) error {
		events = append(events, e)
		return nil
	}
	reporter := NewLeftOut(siteWithHost(t), report, logtest.New(t, slog.LevelInfo))
	image := &registry.LeftOutError{List: "sha256:a", Digest: "sha256:b", Architecture: "arm64"}
	for range 3 {
		reporter.Report(t.Context(), "192.0.2.7", image)
		reporter.Report(t.Context(), "192.0.2.8", image) // no host of the site
	}
	require.Len(t, events, 1)
	require.Equal(t, hostID, events[0].HostID.String())
	require.Equal(t, "Host worker-1 can't pull an image from the appliance's registry: the image of sha256:a for "+
		"arm64 is on none of the media; mirror this architecture too, with platform.architectures in the image set "+
		"configuration.", *events[0].Message)
}
