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
	refused, err := servers.register(t.Context(), clientAt(api.URL))
	require.NoError(t, err)
	require.Empty(t, refused)
	require.Equal(t, []map[string]string{{"address": "redfish-virtualmedia+" + servers.bmcs[0].URL(),
		"username": demoUser, "password": demoPassword}}, changes)
}

func TestDemoServers_machineOfBareMetalHost(t *testing.T) {
	servers := &demoServers{machines: &simulate.Servers{First: firstServer}}
	t.Cleanup(func() { require.NoError(t, servers.close()) })
	for i := range 3 {
		require.NoError(t, servers.add(i, t.TempDir(), logtest.New(t, slog.LevelWarn)))
	}
	var added []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == console.BMCsRoute {
			_, _ = io.WriteString(w, `{"bmcs": [{"id": "b-2", "name": "server-2", "owner": "BareMetalHost site/n2"}]}`)
			return
		}
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `[{"id": "5f6a1f3c-8f0e-4d0a-9a77-0b2f3c1d4e5f", "name": "servers"}]`)
			return
		}
		var given struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
			t.Error(err)
		}
		if given.Name != "server-3" { // server-1 has another name now, and an object owns server-2
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"code": "409", "reason": "Another server has the machine."}`)
			return
		}
		added = append(added, given.Name)
	}))
	defer api.Close()
	refused, err := servers.register(t.Context(), clientAt(api.URL))
	require.NoError(t, err)
	require.Equal(t, []string{"server-3"}, added)
	require.Len(t, refused, 2)
	require.Equal(t, "The simulated server server-1 was neither added nor changed. Another server has the machine. "+
		"Its BMC now has the address redfish-virtualmedia+"+servers.bmcs[0].URL()+".", refused[0])
}
