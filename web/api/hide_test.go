package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/web/api"
)

// readers are the kinds of callers who may read an infra-env.
var readers = map[string]access.Identity{
	"viewer":   {Kind: access.Person, Role: access.Viewer},
	"operator": {Kind: access.Program, Role: access.Operator},
	"admin":    {Kind: access.Person, Role: access.Administrator},
	"link":     {Kind: access.Link},
	"agent":    {Kind: access.Agent},
}

func (s *served) sendAs(name, method, path string, body any) *httptest.ResponseRecorder {
	s.Helper()
	text, err := json.Marshal(body)
	require.NoError(s, err)
	r := httptest.NewRequest(method, api.BasePath+path, strings.NewReader(string(text)))
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r.WithContext(access.With(r.Context(), readers[name])))
	return w
}

// passwordNetwork returns the network of a host with 802.1X. The VLAN makes it differ.
func passwordNetwork(mac, password string, vlan int) *models.HostStaticNetworkConfig {
	return &models.HostStaticNetworkConfig{
		MacInterfaceMap: models.MacInterfaceMap{{MacAddress: mac, LogicalNicName: "eth0"}},
		NetworkYaml: fmt.Sprintf("interfaces:\n- name: eth0\n  type: ethernet\n  802.1x: {identity: host, "+
			"eap-methods: [tls], password: %q}\n- name: eth0.%d\n  type: vlan\n  vlan: {base-iface: eth0, id: %d}\n",
			password, vlan, vlan)}
}

func networksIn(t *testing.T, w *httptest.ResponseRecorder) (hosts []*models.HostStaticNetworkConfig) {
	t.Helper()
	var env models.InfraEnv
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &env), w.Body)
	require.NoError(t, json.Unmarshal([]byte(env.StaticNetworkConfig), &hosts), w.Body)
	return hosts
}

func TestHiding_staticNetworks(t *testing.T) {
	s := newServed(t)
	at := "/v2/infra-envs/" + s.ids()["infra_env_id"]
	s.patch(at, object{"static_network_config": []any{passwordNetwork("52:54:00:00:00:01", "Planted-1", 7),
		passwordNetwork("52:54:00:00:00:02", "Planted-2", 8)}}, http.StatusCreated)
	for name := range readers {
		shown := name == "admin" || name == "agent"
		answers := map[string]*httptest.ResponseRecorder{"get": s.sendAs(name, http.MethodGet, at, nil),
			"list":    s.sendAs(name, http.MethodGet, "/v2/infra-envs", nil),
			"patch":   s.sendAs(name, http.MethodPatch, at, object{"additional_ntp_sources": "192.0.2.1"}),
			"archive": s.sendAs(name, http.MethodGet, at+"/downloads/files?file_name=static-network-config", nil)}
		for what, answer := range answers {
			require.Less(t, answer.Code, 300, answer.Body)
			wanted := shown || name == "link" && what == "archive"
			require.Equal(t, wanted, strings.Contains(answer.Body.String(), "Planted-1"), "%s as %s", what, name)
			require.Equal(t, !wanted, strings.Contains(answer.Body.String(), "only administrators"), "%s as %s",
				what, name)
		}
	}
}

func TestHiding_staticNetworksAreKept(t *testing.T) {
	s := newServed(t)
	at := "/v2/infra-envs/" + s.ids()["infra_env_id"]
	stored := []*models.HostStaticNetworkConfig{passwordNetwork("52:54:00:00:00:01", "Planted-1", 7),
		passwordNetwork("52:54:00:00:00:02", "Planted-2", 8)}
	s.patch(at, object{"static_network_config": stored}, http.StatusCreated)
	read := networksIn(t, s.sendAs("operator", http.MethodGet, at, nil))
	sent := s.sendAs("operator", http.MethodPatch, at, object{"static_network_config": read})
	require.Equal(t, http.StatusCreated, sent.Code, sent.Body)
	require.NotContains(t, sent.Body.String(), "Planted")
	require.Equal(t, stored, networksIn(t, s.sendAs("admin", http.MethodGet, at, nil)))

	read[0], read[1] = read[1], read[0]
	read[0].NetworkYaml = strings.ReplaceAll(read[0].NetworkYaml, "identity: host", "identity: second")
	sent = s.sendAs("operator", http.MethodPatch, at, object{"static_network_config": read})
	require.Equal(t, http.StatusCreated, sent.Code, sent.Body)
	now := networksIn(t, s.sendAs("admin", http.MethodGet, at, nil))
	require.Contains(t, now[0].NetworkYaml, "second")
	require.Contains(t, now[0].NetworkYaml, "Planted-2")
	require.Equal(t, stored[0], now[1])

	read[0].MacInterfaceMap[0].MacAddress = "52:54:00:00:00:03"
	const refused = "Static network: host 0: interfaces[0].802.1x.password (line 4) has a text that stands for a " +
		"hidden value; give the value itself."
	for _, answer := range []*httptest.ResponseRecorder{
		s.sendAs("operator", http.MethodPatch, at, object{"static_network_config": read}),
		s.sendAs("operator", http.MethodPost, "/v2/infra-envs", object{"name": "new", "openshift_version": "4.20",
			"pull_secret": anyPullSecret, "static_network_config": read}),
	} {
		require.Equal(t, http.StatusBadRequest, answer.Code)
		require.Contains(t, answer.Body.String(), refused)
	}
	require.Equal(t, now, networksIn(t, s.sendAs("admin", http.MethodGet, at, nil)))
}
