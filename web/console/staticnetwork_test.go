package console

import (
	"net/http"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/ignition"
	"landfall/web/problem"
)

// networks contains the infra-env i-1.
type networks struct{}

func (networks) PreviewStaticNetwork(id string, hosts []*models.HostStaticNetworkConfig) (
	*ignition.NetworkPreview, error) {
	if id != "i-1" {
		return nil, problem.NotFound("there is no infra-env %s", id)
	}
	var all []ignition.HostNetwork
	for _, host := range hosts {
		all = append(all, ignition.HostNetwork{YAML: host.NetworkYaml,
			Interfaces: []ignition.NetworkInterface{{MAC: host.MacInterfaceMap[0].MacAddress,
				Name: host.MacInterfaceMap[0].LogicalNicName}}})
	}
	return ignition.PreviewNetwork(all, "4.20", nil)
}

func TestStaticNetwork_previewPerHost(t *testing.T) {
	s := newTestServer(t, application)
	response := send(s, http.MethodPost, "/infra-envs/i-1/static-network/preview", `{"static_network_config": [
		{"network_yaml": "interfaces:\n- name: eth0\n  ipv4: {address: [{ip: 192.0.2.7, prefix-length: 24}]}\nroutes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.3.1, next-hop-interface: eth0}]}", "mac_interface_map": [{"mac_address": "52:54:00:00:00:01", "logical_nic_name": "eth0"}]},
		{"network_yaml": "interfaces:\n- name: eth0\n  mtu: many", "mac_interface_map": [{"mac_address": "52:54:00:00:00:02", "logical_nic_name": "eth0"}]}
	]}`)
	require.Equal(t, http.StatusOK, response.Code)
	require.JSONEq(t, `{"way": "keyfiles", "hosts": [
		{"warnings": ["routes.config[0].next-hop-address (line 4) is 192.0.3.1, which is in no network of eth0 (192.0.2.0/24); check the gateway and the prefix length"],
		"addresses": [{"interface": "eth0", "address": "192.0.2.7/24"}], "files": [{"name": "eth0.nmconnection", "content":
			"[connection]\nid=eth0\nuuid=2d22eb39-5974-5c1a-865b-da55f2be2004\ntype=ethernet\nautoconnect=true\nautoconnect-priority=1\n\n[ethernet]\nmac-address=52:54:00:00:00:01\n\n[ipv4]\nmethod=manual\naddress1=192.0.2.7/24\nroute1=0.0.0.0/0,192.0.3.1,0\nroute1_options=table=254\n\n[ipv6]\nmethod=disabled\n"}]},
		{"addresses": [], "files": [], "fault": {"field": "interfaces[0].mtu", "line": 3, "message": "interfaces[0].mtu (line 3) is \"many\"; it must be a whole number from 68 to 65535"}}
	]}`, response.Body.String())
	response = send(s, http.MethodPost, "/infra-envs/i-1/static-network/preview", `{"static_network_config": [
		{"network_yaml": "interfaces:\n- {name: eth0, 802.1x: {password: Planted}}", "mac_interface_map": [{"mac_address": "52:54:00:00:00:01", "logical_nic_name": "eth0"}]}]}`)
	require.Contains(t, response.Body.String(), `"network_yaml":"interfaces:\n  - {name: eth0, 802.1x: {password: \"`+
		ignition.HiddenSecret+`\"}}\n"`)
	require.Equal(t, http.StatusNotFound, send(s, http.MethodPost, "/infra-envs/none/static-network/preview",
		"{}").Code)
	require.Equal(t, http.StatusBadRequest, send(s, http.MethodPost, "/infra-envs/i-1/static-network/preview",
		`{"hosts": []}`).Code)
}
