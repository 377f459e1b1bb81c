package appliance

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/web"
)

// TestRoutes_everyRouteHasAnAccessRule walks the routes of all listeners: the main one, the boot
// listener's and that of the Kubernetes API.
func TestRoutes_everyRouteHasAnAccessRule(t *testing.T) {
	settings := config.Default()
	settings.TLS.Enabled = false
	settings.DataDir = t.TempDir()
	settings.Listen, settings.BootListen, settings.Kubernetes.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	settings.Kubernetes.Enabled = true
	a, err := New(t.Context(), settings, slog.New(slog.DiscardHandler), "test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	for name, server := range map[string]*web.Server{
		"all APIs": a.server, "boot files": a.bootServer, "the Kubernetes API": a.kubeServer.web,
	} {
		require.NotEmpty(t, server.Routes(), name)
		for route, operation := range server.Routes() {
			require.True(t, operation.Access.Valid(), "%s: %s %s", name, route.Method, route.Path)
		}
	}
}
