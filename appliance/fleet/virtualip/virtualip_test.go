package virtualip_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/virtualip"
)

func TestNew_refusesWrongConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		address, device, want string
	}{
		"no address":            {"member.example.com", "", "expected an IPv4 or IPv6 address"},
		"loopback":              {"127.0.0.1", "", "expected an IPv4 or IPv6 address"},
		"prefix":                {"192.0.2.9/24", "", "expected an IPv4 or IPv6 address"},
		"unknown interface":     {"192.0.2.9", "none0", "no such network interface"},
		"network of no machine": {"203.0.113.9", "", "set fleet.interface"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := virtualip.New(virtualip.Options{Address: c.address, Interface: c.device,
				Logger: slog.New(slog.DiscardHandler)})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAddress_nilIsNone(t *testing.T) {
	none, err := virtualip.New(virtualip.Options{})
	require.NoError(t, err)
	require.Nil(t, none)
	require.False(t, none.Is("192.0.2.9"))
	require.Nil(t, none.State())
	require.True(t, none.Linked(), "the interface does not matter")
	none.Hold(t.Context(), func() time.Duration { return time.Minute })
}
