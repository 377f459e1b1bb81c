//go:build etcd

package appliance_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/appliance/fleet/etcdtest"
	"landfall/porttest"
	"landfall/randtest"
)

// TestFleetClients_getNothingOfMembers uses the paths by which members ask each other, as a client,
// at each listener of each member. They give away all data and keys.
func TestFleetClients_getNothingOfMembers(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, randtest.New(t, 0), func(s *site) {
		s.config.Registry.Listen, s.config.Registry.TLS = porttest.Reserve(t), false
		s.config.Kubernetes.Enabled, s.config.Kubernetes.Listen = true, porttest.Reserve(t)
	})
	leader := f.leader(t)
	paths := []string{"snapshot", "condition", "contacts", "reads", "polls", "content/a", "image/a", "blob/a",
		"trail/export?after=0", "leave"}
	for _, m := range f.members {
		for _, address := range []string{m.address, "http://" + m.boot, "http://" + m.registry,
			"http://" + m.kubernetes} {
			for _, path := range paths {
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
					request, err := http.NewRequestWithContext(t.Context(), method, address+"/fleet/"+path, nil)
					require.NoError(t, err)
					request.Header.Set("Landfall-Revision", "1") // below that of the copy: it may answer
					request.Header.Set("Connection", "Upgrade")
					request.Header.Set("Upgrade", "landfall-polls")
					answer, err := http.DefaultTransport.RoundTrip(request) // follows no redirect
					require.NoError(t, err)
					text, err := io.ReadAll(answer.Body)
					require.NoError(t, err)
					require.NoError(t, answer.Body.Close())
					isPage := m == leader && method == http.MethodGet && answer.StatusCode == http.StatusOK
					if isPage {
						require.Contains(t, string(text), "<!doctype html>")
						continue
					}
					require.GreaterOrEqual(t, answer.StatusCode, http.StatusMultipleChoices, "%s %s: %s", method,
						request.URL, text)
				}
			}
		}
	}
	require.Equal(t, leader, f.leader(t), "it has not left")
	status, err := leader.status()
	require.NoError(t, err)
	require.Len(t, status.Members, 3)
}

func TestFleetClients_useTheNameInTheURLOfTheLeader(t *testing.T) {
	t.Parallel()
	f := &fleetTest{site: newSite(t), server: etcdtest.Start(t, etcdtest.Options{}), direct: true}
	var err error
	f.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{f.server.URL()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.etcd.Close()) })
	f.site.config.TLS.Enabled, f.site.config.Fleet.URL = true, "https://site-a.example.com:8090"
	f.add(t, "one", func() {})
	for name, want := range map[string]int{"site-a.example.com": http.StatusOK,
		"site-b.example.com": http.StatusMisdirectedRequest} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			f.members[0].address+apiPath+"/clusters", http.NoBody)
		require.NoError(t, err)
		request.Host = name
		answer, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode, name)
	}
}
