package console

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/registry"
	"landfall/store"
	"landfall/web"
	webregistry "landfall/web/registry"
)

// An identity with a limited scope does not see the clusters and the hosts of others.
func TestRegistry_limitedScope(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	logger := slog.New(slog.DiscardHandler)
	server, err := webregistry.Open(t.Context(), webregistry.ServerOptions{Listen: "127.0.0.1:0",
		URL: "http://127.0.0.1:8090", Logins: new(webregistry.Logins),
		Web:      web.Options{Logger: logger, Connections: web.NewConnections(1 << 10)},
		Registry: registry.Options{DB: db, Dir: t.TempDir(), Clock: clockwork.NewFakeClock(), Logger: logger}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	server.Traffic.Begin("192.0.2.7").End()
	show := RegistryOperations(server, func(status *registry.Status) error {
		status.Dependents = []registry.Dependent{{ID: "other"}}
		return nil
	})[0].Handler
	for shown, scope := range map[int]access.Scope{1: {}, 0: {Clusters: []string{"own"}}} {
		request := httptest.NewRequest(http.MethodGet, RegistryRoute, nil)
		answer := httptest.NewRecorder()
		require.NoError(t, show(echo.New().NewContext(request.WithContext(access.With(request.Context(),
			access.Identity{Kind: access.Person, Role: access.Viewer, Scope: scope})), answer)))
		var status registry.Status
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &status))
		require.Len(t, status.Dependents, shown)
		require.Len(t, status.Clients, shown)
	}
}
