//go:build etcd

package member

import (
	"log/slog"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/dataversion"
	"landfall/appliance/fleet/etcdtest"
)

// TestOpen_notesTheProgram opens a member that does not lead yet. landfall upgrade waits for the
// version of the program that it has started.
func TestOpen_notesTheProgram(t *testing.T) {
	t.Parallel()
	settings := config.Default()
	settings.DataDir, settings.Listen = t.TempDir(), "127.0.0.1:0"
	settings.Fleet.Etcd, settings.Fleet.Name = []string{etcdtest.Start(t, etcdtest.Options{}).URL()}, "a"
	m := &member{Options: Options{Config: settings, Logger: slog.New(slog.DiscardHandler), Version: "1.1"},
		clock: clockwork.NewRealClock()}
	defer func() { require.NoError(t, m.close()) }()
	require.NoError(t, m.open(t.Context()))
	noted, err := dataversion.Read(settings.DataDir)
	require.NoError(t, err)
	require.Equal(t, "1.1", noted.Program)
}
