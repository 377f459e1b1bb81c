package inventory

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestSameConnectivity(t *testing.T) {
	limit := 100.0
	report := func(change func(*models.ConnectivityRemoteHost)) *models.ConnectivityReport {
		host := &models.ConnectivityRemoteHost{
			HostID: "00000000-0000-4000-8000-000000000001",
			L2Connectivity: []*models.L2Connectivity{{OutgoingNic: "eno1", RemoteIPAddress: "192.168.10.11",
				Successful: true}},
			L3Connectivity: []*models.L3Connectivity{{OutgoingNic: "eno1", RemoteIPAddress: "192.168.10.11",
				AverageRTTMs: 98, Successful: true}},
			MtuReport: []*models.MtuReport{{OutgoingNic: "eno1", RemoteIPAddress: "192.168.10.11",
				MtuSuccessful: true}},
		}
		change(host)
		return &models.ConnectivityReport{RemoteHosts: []*models.ConnectivityRemoteHost{host}}
	}
	trip := func(ms float64) func(*models.ConnectivityRemoteHost) {
		return func(h *models.ConnectivityRemoteHost) { h.L3Connectivity[0].AverageRTTMs = ms }
	}
	for name, c := range map[string]struct {
		change func(*models.ConnectivityRemoteHost)
		same   bool
	}{
		"nothing":                 {func(*models.ConnectivityRemoteHost) {}, true},
		"a slightly shorter trip": {trip(92.5), true},
		"a trip beyond the limit": {trip(100.5), false},
		"a much shorter trip":     {trip(9), false},
		"a missing host": {
			func(h *models.ConnectivityRemoteHost) { h.L3Connectivity[0].Successful = false }, false},
		"lost packets": {
			func(h *models.ConnectivityRemoteHost) { h.L3Connectivity[0].PacketLossPercentage = 1 }, false},
		"a missing address": {func(h *models.ConnectivityRemoteHost) { h.L3Connectivity = nil }, false},
		"an unreachable neighbour": {
			func(h *models.ConnectivityRemoteHost) { h.L2Connectivity[0].Successful = false }, false},
		"lost large packets": {func(h *models.ConnectivityRemoteHost) { h.MtuReport[0].MtuSuccessful = false },
			false},
		"another host": {
			func(h *models.ConnectivityRemoteHost) { h.HostID = "00000000-0000-4000-8000-000000000002" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.same, SameConnectivity(report(func(*models.ConnectivityRemoteHost) {}), report(c.change),
				&limit))
		})
	}
	require.False(t, SameConnectivity(nil, report(func(*models.ConnectivityRemoteHost) {}), nil))
}

func TestSameInventory(t *testing.T) {
	inventory := func(change func(*models.Inventory)) *models.Inventory {
		inv := &models.Inventory{
			Hostname: "node-1", Memory: &models.Memory{UsableBytes: 1 << 30},
			Disks: []*models.Disk{{Name: "sda", SizeBytes: 1 << 40, Smart: `{"temperature":31}`}, {Name: "sdb"}},
		}
		change(inv)
		return inv
	}
	nothing := func(*models.Inventory) {}
	for name, c := range map[string]struct {
		change func(*models.Inventory)
		same   bool
	}{
		"nothing":        {nothing, true},
		"a warmer disk":  {func(i *models.Inventory) { i.Disks[0].Smart = `{"temperature":32}` }, true},
		"a larger disk":  {func(i *models.Inventory) { i.Disks[0].SizeBytes = 2 << 40 }, false},
		"a missing disk": {func(i *models.Inventory) { i.Disks = i.Disks[:1] }, false},
		"swapped disks":  {func(i *models.Inventory) { i.Disks[0], i.Disks[1] = i.Disks[1], i.Disks[0] }, false},
		"no disk":        {func(i *models.Inventory) { i.Disks[0] = nil }, false},
		"more memory":    {func(i *models.Inventory) { i.Memory.UsableBytes++ }, false},
		"another name":   {func(i *models.Inventory) { i.Hostname = "node-2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.same, SameInventory(inventory(nothing), inventory(c.change)))
		})
	}
	require.False(t, SameInventory(nil, inventory(nothing)))
}
