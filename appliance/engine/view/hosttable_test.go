package view

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailures_hardwareFirst(t *testing.T) {
	count, first, err := failures([]byte(`{"operators": [{"status": "failure", "message": "operator"}],
		"network": [{"status": "error", "message": "network"}, {"status": "pending", "message": "wait"}],
		"hardware": [{"status": "success", "message": "ok"}, {"status": "failure", "message": "hardware"}]}`))
	require.NoError(t, err)
	require.Equal(t, 3, count)
	require.Equal(t, "hardware", first)
	count, first, err = failures(nil)
	require.NoError(t, err)
	require.Zero(t, count)
	require.Empty(t, first)
}

func TestHardware_leavesOutLinkLocalAddressesAndDrives(t *testing.T) {
	summary, err := hardware([]byte(`{"cpu": {"count": 8}, "memory": {"physical_bytes": 1024},
		"system_vendor": {"serial_number": "S1"}, "bmc_address": "0.0.0.0",
		"disks": [{"size_bytes": 100, "drive_type": "SSD"}, {"size_bytes": 1, "drive_type": "ODD"}],
		"interfaces": [{"mac_address": "52:54:00:AA:00:01", "ipv4_addresses": ["192.0.2.7/24"],
			"ipv6_addresses": ["fe80::1/64"]}]}`))
	require.NoError(t, err)
	require.Equal(t, &Hardware{Serial: "S1", CPUs: 8, MemoryBytes: 1024, Disks: 1, DiskBytes: 100,
		Addresses: []string{"192.0.2.7"}, MACs: []string{"52:54:00:aa:00:01"}}, summary)
}
