package config

import (
	"log/slog"
	"net"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// Other members reach a member at an address of its machine, also if hosts use a load balancer.
func TestFleet_memberURL(t *testing.T) {
	config := Default()
	listening := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8090}
	const balancer, own = "https://landfall.example.com:8090", "https://127.0.0.1:8090"
	for name, urls := range map[string][]string{
		"only a load balancer": {balancer}, "a load balancer and this machine": {balancer, own}, "this machine": {own},
	} {
		config.URL = urls
		options := config.Fleet.Options(config, urls, listening, "v1", clockwork.NewFakeClock(), slog.Default())
		require.Equal(t, own, options.URL, name)
	}
}
