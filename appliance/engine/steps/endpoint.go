package steps

import (
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

const ignitionPointerVersion = "3.1.0"

// MachineConfigServer returns the endpoint that provides the ignition config of a joining host: the
// endpoint that a user set, or else the cluster's machine config server. Its port depends on
// whether its certificate is available. The endpoint is empty while the address of the API is
// unknown.
func MachineConfigServer(cluster *models.Cluster, host *inventory.Host) IgnitionEndpoint {
	pool := host.Record.MachineConfigPoolName
	if pool == "" {
		pool = string(models.HostRoleWorker)
		if host.Role() == models.HostRoleMaster {
			pool = string(models.HostRoleMaster)
		}
	}
	endpoint := IgnitionEndpoint{}
	if given := cluster.IgnitionEndpoint; given != nil {
		endpoint.CACertificate = conv.Value(given.CaCertificate)
		if root := conv.Value(given.URL); root != "" {
			endpoint.URL = strings.TrimSuffix(root, "/") + "/" + pool
			return endpoint
		}
	}
	address := conv.Value(cluster.APIVipDNSName)
	if address == "" && len(cluster.APIVips) > 0 {
		address = string(cluster.APIVips[0].IP)
	}
	switch {
	case address == "":
		return endpoint
	case endpoint.CACertificate != "":
		endpoint.URL = "https://" + net.JoinHostPort(address, "22623") + "/config/" + pool
	default:
		endpoint.URL = "http://" + net.JoinHostPort(address, "22624") + "/config/" + pool
	}
	return endpoint
}

// Pointer returns an ignition config that only references the endpoint.
func (endpoint IgnitionEndpoint) Pointer() ([]byte, error) {
	type object map[string]any
	var headers []object
	if endpoint.Token != "" {
		headers = append(headers, object{"name": "Authorization", "value": "Bearer " + endpoint.Token})
	}
	for _, name := range slices.Sorted(maps.Keys(endpoint.Headers)) {
		headers = append(headers, object{"name": name, "value": endpoint.Headers[name]})
	}
	source := object{"source": endpoint.URL}
	if headers != nil {
		source["httpHeaders"] = headers
	}
	config := object{"version": ignitionPointerVersion, "config": object{"merge": []object{source}}}
	if endpoint.CACertificate != "" {
		config["security"] = object{"tls": object{"certificateAuthorities": []object{
			{"source": "data:text/plain;base64," + endpoint.CACertificate}}}}
	}
	return json.Marshal(object{"ignition": config})
}
