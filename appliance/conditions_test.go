package appliance

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
	"landfall/appliance/config"
	"landfall/appliance/notice/sources"
)

// A registry and a BMC of the site do not respond. Both become notifications.
func TestConditions_reportedBySite(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	silent := listener.Addr().String()
	require.NoError(t, listener.Close())
	settings := config.Default()
	settings.DataDir, settings.Listen, settings.BootListen = t.TempDir(), "127.0.0.1:0", "none"
	settings.Mirror.RegistriesConf = filepath.Join(t.TempDir(), "registries.conf")
	require.NoError(t, os.WriteFile(settings.Mirror.RegistriesConf, []byte(`
[[registry]]
location = "quay.io/openshift-release-dev/ocp-release"
[[registry.mirror]]
location = "`+silent+`/openshift/release"
`), 0o600))
	clock := newSetClock(time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC))
	site, err := open(t.Context(), settings, slog.New(slog.DiscardHandler), "test", clock, surroundings{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- site.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	_, err = site.bmcs.Ensure(t.Context(), bmc.NewID(), bmc.Desired{Name: "rack-1", Address: "redfish://" + silent +
		"/redfish/v1/Systems/1", Username: "root", Password: "secret"})
	require.NoError(t, err)
	messages := map[string]string{}
	require.Eventually(t, func() bool {
		clock.Advance(time.Minute)
		list, err := site.notices.List(func(cluster string) bool { return cluster == "" })
		require.NoError(t, err)
		for _, n := range list {
			messages[n.Event] = n.Message
		}
		return messages[sources.MirrorUnusable] != "" && messages[sources.ServerFails] != ""
	}, time.Minute, 50*time.Millisecond)
	require.Contains(t, messages[sources.MirrorUnusable], "The registry "+silent+" of the mirror cannot be used: ")
	require.Contains(t, messages[sources.ServerFails], "The server rack-1 has an error. ")
}
