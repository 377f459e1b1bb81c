package appliance_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// Each invalid input is sent to a running appliance over HTTP. The response must be one sentence
// with a remedy, and the appliance must store nothing and keep working. docs/testing.md lists all
// inputs.

func TestBadInput_cluster(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	clusters := address + apiPath + "/clusters"
	network := func(cidr string) []object { return []object{{"cidr": cidr}} }

	for name, wrong := range map[string]struct {
		changes  object
		status   int
		contains []string
	}{
		"a name with an underscore": {object{"name": "my_cluster"}, 400,
			[]string{`The cluster name "my_cluster" has the character '_'`,
				"use only lower-case letters, digits and hyphens"}},
		"a name in upper case": {object{"name": "East"}, 400, []string{`"East" has the character 'E'`}},
		"a name with a dot":    {object{"name": "a.b"}, 400, []string{`"a.b" has the character '.'`}},
		"a name that ends in a hyphen": {object{"name": "east-"}, 400, []string{"begins or ends with a hyphen",
			"use a letter or digit there"}},
		"a name that is too long": {object{"name": strings.Repeat("a", 55)}, 422, []string{"name", "54"}},
		"no name":                 {object{"name": nil}, 422, []string{"name", "required"}},
		"an empty name":           {object{"name": ""}, 422, []string{"name"}},
		"a domain with a space": {object{"base_dns_domain": "my site.test"}, 400,
			[]string{`The base domain "my site.test" cannot be used`, `"my site"`}},
		"a domain with an empty part": {object{"base_dns_domain": "site..test"}, 400,
			[]string{"is empty, remove the extra dot"}},
		"a domain that is an address": {object{"base_dns_domain": "192.168.1.1"}, 400,
			[]string{"looks like an IP address"}},
		"a pull secret that is not JSON": {object{"pull_secret": "hunter2"}, 400,
			[]string{"The pull secret is not JSON", `{"auths":{"registry":{"auth":"…"}}}`}},
		"a pull secret without auths": {object{"pull_secret": `{"registry":"hunter2"}`},
			400, []string{`The pull secret has no "auths"`}},
		"a pull secret with a bad entry": {object{"pull_secret": `{"auths":{"mirror.site.test":{"auth":"hunter2"}}}`},
			400, []string{`"mirror.site.test"`, "base64 of user:password"}},
		"no pull secret": {object{"pull_secret": nil}, 422, []string{"pull_secret", "required"}},
		"overlapping cluster and service networks": {object{"cluster_networks": []object{{"cidr": "10.128.0.0/14",
			"host_prefix": 23}}, "service_networks": network("10.130.0.0/16")}, 400,
			[]string{"The service network 10.130.0.0/16 overlaps with the cluster network 10.128.0.0/14",
				"change one of them"}},
		"a machine network in the service network": {object{"machine_networks": network("172.30.4.0/24")}, 400,
			[]string{"machine network 172.30.4.0/24 overlaps with the service network 172.30.0.0/16"}},
		"an invalid network": {object{"machine_networks": network("192.168.1.0")}, 422,
			[]string{`machine_networks.0.cidr is "192.168.1.0"`, "CIDR notation, such as"}},
		"a network with host bits": {object{"machine_networks": network("192.168.1.7/24")}, 400,
			[]string{"192.168.1.7/24", "the network is 192.168.1.0/24"}},
		"a VIP that is not an address": {object{"api_vips": []object{{"ip": "api.site.test"}}}, 422,
			[]string{`api_vips.0.ip is "api.site.test"`, "not an IP address"}},
		"a version that is not configured": {object{"openshift_version": "3.11"}, 400,
			[]string{`no release image for OpenShift "3.11" on x86_64`, "the site has " + s.release.Version}},
		"an architecture that is not configured": {object{"cpu_architecture": "s390x"}, 400, []string{"on s390x"}},
		"a proxy that is not a URL": {object{"http_proxy": "me:hunter2@proxy:3128"},
			400, []string{`The proxy "…@proxy:3128" is not a URL, such as`}},
		"six control-plane nodes": {object{"control_plane_count": 6}, 400,
			[]string{"has 2 to 5 control-plane nodes, not 6"}},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusal(t, call(t, http.MethodPost, clusters, s.newCluster("east").with(wrong.changes)),
				wrong.status,
				wrong.contains...)
		})
	}
	requireNothing(t, clusters)
	requireNothing(t, address+apiPath+"/events")

	id := create(t, clusters, s.newCluster("east"))
	for name, wrong := range map[string]struct {
		changes  object
		status   int
		contains []string
	}{
		"a name":        {object{"name": "west!"}, 400, []string{`"west!" has the character '!'`}},
		"a pull secret": {object{"pull_secret": "hunter2"}, 400, []string{"The pull secret is not JSON"}},
		"networks": {object{"name": "west", "machine_networks": network("10.128.7.0/24")},
			400, []string{"overlaps with the cluster network 10.128.0.0/14"}},
		"the older networks": {object{"name": "west", "machine_network_cidr": "10.128.7.0/24"}, 400,
			[]string{"overlaps with the cluster network 10.128.0.0/14"}},
	} {
		t.Run("changing "+name, func(t *testing.T) {
			requireRefusal(t, call(t, http.MethodPatch, clusters+"/"+id, wrong.changes), wrong.status,
				wrong.contains...)
			var cluster models.Cluster
			call(t, http.MethodGet, clusters+"/"+id, nil).read(t, http.StatusOK, &cluster)
			require.Equal(t, "east", cluster.Name)
			require.Empty(t, cluster.MachineNetworks)
		})
	}
}

func TestBadInput_infraEnv(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	infraEnvs := address + apiPath + "/infra-envs"
	for name, wrong := range map[string]struct {
		changes  object
		status   int
		contains []string
	}{
		"a pull secret that is not JSON": {object{"pull_secret": "hunter2"}, 400,
			[]string{"The pull secret is not JSON"}},
		"an empty name": {object{"name": " "}, 400, []string{"An infra-env needs a name"}},
		"an unknown cluster": {object{"cluster_id": "3a930088-e49c-4584-b7d1-54d2f0d8a9c3"},
			404, []string{"There is no cluster 3a930088-e49c-4584-b7d1-54d2f0d8a9c3."}},
		"a version without a release": {object{"openshift_version": "3.11"}, 400,
			[]string{`OpenShift "3.11"`, "the site has"}},
		"overrides that are not JSON":    {object{"ignition_config_override": "{hunter2"}, 400, []string{"JSON"}},
		"a trust bundle that is not PEM": {object{"additional_trust_bundle": "hunter2"}, 400, []string{"PEM"}},
		"an invalid name of a time server": {object{"additional_ntp_sources": "not a name"},
			400, []string{"not a name"}},
		"a proxy that is not a URL": {object{"proxy": object{"http_proxy": "proxy.site.test"}},
			400, []string{`The proxy "proxy.site.test" is not a URL, such as`}},
		"a network description that is not YAML": {object{"static_network_config": []object{
			{"network_yaml": "interfaces: [", "mac_interface_map": []object{
				{"mac_address": "02:00:00:00:00:01", "logical_nic_name": "eth0"}}}}}, 400, []string{"YAML"}},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusal(t, call(t, http.MethodPost, infraEnvs, s.newInfraEnv("east").with(wrong.changes)),
				wrong.status, wrong.contains...)
		})
	}
	requireNothing(t, infraEnvs)
}

func TestBadInput_body(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	clusters := address + apiPath + "/clusters"
	const megabytes = 50 << 20
	for name, wrong := range map[string]struct {
		body     any
		status   int
		contains []string
	}{
		"no body": {nil, 400, []string{"the request has no body", "requires a JSON object"}},
		"no JSON": {"name: east\n", 400, []string{"the request body is not JSON", "line 1, column 2"}},
		"JSON that is cut off": {`{"name": "east",`, 400, []string{"the request body is not JSON",
			"ends within a value"}},
		"two values": {`{} {}`, 400, []string{"continues after the end of its JSON value", "send one value only"}},
		"another type": {`{"name": 7}`, 400,
			[]string{"name is a JSON number; expected a string"}},
		"a list": {`[]`, 400,
			[]string{"the request body is a JSON array; expected an object"}},
		"an unknown field": {s.newCluster("east").with(object{"colour": "red"}), 400,
			[]string{`the unknown field "colour"`, "leave it out or correct its name"}},
		"50 MB": {bytes.NewReader(make([]byte, megabytes)), 413,
			[]string{"larger than the limit of 4194304 bytes", "raise the limit under limits in the configuration"}},
		"50 MB without a length": {struct{ io.Reader }{bytes.NewReader(bytes.Repeat([]byte(" "), megabytes))}, 413,
			[]string{"larger than the limit of 4194304 bytes", "raise the limit under limits in the configuration"}},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusal(t, call(t, http.MethodPost, clusters, wrong.body), wrong.status, wrong.contains...)
		})
	}
	requireNothing(t, clusters)
	create(t, clusters, s.newCluster("east"))
}

func TestHostRegistration_twiceIsOneHost(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	first, second := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("first")),
		create(t, address+apiPath+"/infra-envs", s.newInfraEnv("second"))
	id := uuid.NewString()
	register := func(infraEnv string) answer {
		return call(t, http.MethodPost, address+apiPath+"/infra-envs/"+infraEnv+"/hosts",
			object{"host_id": id, "discovery_agent_version": "quay.io/agent:1"})
	}
	hosts := func(infraEnv string) []models.Host {
		var list []models.Host
		call(t, http.MethodGet, address+apiPath+"/infra-envs/"+infraEnv+"/hosts", nil).read(t, http.StatusOK, &list)
		return list
	}
	registered := func() int {
		var list []models.Event
		call(t, http.MethodGet, address+apiPath+"/events?host_id="+id, nil).read(t, http.StatusOK, &list)
		count := 0
		for _, event := range list {
			if strings.Contains(*event.Message, "registered") {
				count++
			}
		}
		return count
	}

	var together sync.WaitGroup
	answers := make([]answer, 8)
	for i := range answers {
		together.Go(func() { answers[i] = register(first) })
	}
	together.Wait()
	for _, got := range answers {
		require.Equal(t, http.StatusCreated, got.status, "%s", got.body)
	}
	require.Len(t, hosts(first), 1)
	require.Equal(t, 1, registered())

	require.Equal(t, http.StatusCreated, register(second).status)
	require.Empty(t, hosts(first), "the machine left its first infra-env")
	require.Len(t, hosts(second), 1)

	requireRefusal(t, call(t, http.MethodPost, fmt.Sprintf("%s%s/infra-envs/%s/hosts", address, apiPath, first),
		object{"host_id": "no-uuid"}), http.StatusUnprocessableEntity, "host_id", "uuid")
	requireRefusal(t, register(uuid.NewString()), http.StatusNotFound, "There is no infra-env")
}

func TestBadInput_hostName(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	infraEnv := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("east"))
	hosts := address + apiPath + "/infra-envs/" + infraEnv + "/hosts"
	id := uuid.NewString()
	require.Equal(t, http.StatusCreated, call(t, http.MethodPost, hosts, object{"host_id": id}).status)
	for name, contains := range map[string]string{
		"my_host":               `The host name "my_host" cannot be used: the part "my_host" has the character '_'`,
		"Host":                  "use only lower-case letters, digits and hyphens",
		"a..b":                  "is empty, remove the extra dot",
		"localhost":             "give the host another name",
		strings.Repeat("a", 64): "use at most 63",
	} {
		requireRefusal(t, call(t, http.MethodPatch, hosts+"/"+id, object{"host_name": name}), http.StatusBadRequest,
			contains)
	}
	var host models.Host
	call(t, http.MethodGet, hosts+"/"+id, nil).read(t, http.StatusOK, &host)
	require.Equal(t, id, host.RequestedHostname, "a host without a name is called by its id")
}
