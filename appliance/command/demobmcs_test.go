package command

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
	"landfall/logtest"
	"landfall/web/console"
)

func TestDemoServers_keptServerGetsItsPasswordAgain(t *testing.T) {
	servers := &demoServers{machines: &simulate.Servers{First: firstServer}}
	t.Cleanup(func() { require.NoError(t, servers.close()) })
	require.NoError(t, servers.add(0, t.TempDir(), logtest.New(t, slog.LevelWarn)))
	var changes []map[string]string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPatch && r.URL.Path == console.BMCsRoute+"/b-1":
			var change map[string]string
			if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
				t.Error(err)
			}
			changes = append(changes, change)
		case r.Method == http.MethodGet && r.URL.Path == console.BMCsRoute:
			_, _ = io.WriteString(w, `{"bmcs": [{"id": "b-1", "name": "server-1"}]}`)
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `[{"id": "5f6a1f3c-8f0e-4d0a-9a77-0b2f3c1d4e5f", "name": "servers"}]`)
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	defer api.Close()
	require.NoError(t, servers.register(t.Context(), clientAt(api.URL)))
	require.Equal(t, []map[string]string{{"address": "redfish-virtualmedia+" + servers.bmcs[0].URL(),
		"username": demoUser, "password": demoPassword}}, changes)
}
