package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// These tests cover the hosts and agents' reports of upstream's HTTP tests (directory subsystem).
// docs/compatibility.md maps the tests.

func TestHostname_requestedThenOwnThenID(t *testing.T) {
	a := newServed(t).newAgent()
	require.Equal(t, a.id, a.host().RequestedHostname)
	a.reportMachine(machine("its-own"))
	require.Equal(t, "its-own", a.host().RequestedHostname)
	for _, forbidden := range []string{"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4",
		"localhost6", "localhost6.localdomain6"} {
		a.patch(a.at()+"/"+a.id, object{"host_name": forbidden}, http.StatusBadRequest)
	}
	a.patch(a.at()+"/"+a.id, object{"host_name": "arbitrary.hostname"}, http.StatusCreated)
	require.Equal(t, "arbitrary.hostname", a.host().RequestedHostname)
}

func TestHostname_duplicateFailsUntilRenamed(t *testing.T) {
	s := newServed(t)
	a := s.newAgent()
	b := &agent{s, a.cluster, a.env, "7b1c5a0e-0000-4000-8000-000000000002"}
	require.Equal(t, http.StatusCreated, b.register(agentImage))
	a.reportMachine(machine("same"))
	other := machine("same")
	other.Interfaces[0].IPV4Addresses, other.Interfaces[0].MacAddress = []string{"192.0.2.11/24"}, "52:54:00:00:00:02"
	b.reportMachine(other)
	require.Equal(t, "failure", validationStatus(t, a.host().ValidationsInfo, "hostname-unique"))
	b.patch(b.at()+"/"+b.id, object{"host_name": "another"}, http.StatusCreated)
	for _, host := range []*agent{a, b} {
		require.Equal(t, "success", validationStatus(t, host.host().ValidationsInfo, "hostname-unique"))
	}
	b.reportMachine(machine("localhost"))
	require.Equal(t, "success", validationStatus(t, b.host().ValidationsInfo, "hostname-valid"),
		"the requested name has priority over the agent's")
	c := &agent{s, a.cluster, a.env, "7b1c5a0e-0000-4000-8000-000000000003"}
	require.Equal(t, http.StatusCreated, c.register(agentImage))
	c.reportMachine(machine("localhost"))
	require.Equal(t, "failure", validationStatus(t, c.host().ValidationsInfo, "hostname-valid"))
}

func TestInstallationDisk_bestOrChosen(t *testing.T) {
	a := newServed(t).newAgent()
	inventory := machine("node")
	disk := func(id, name string, bootable bool) *models.Disk {
		return &models.Disk{ID: id, ByID: id, DriveType: models.DriveTypeSSD, Name: name, Path: "/dev/" + name,
			SizeBytes: 480_000_000_000, Bootable: bootable}
	}
	first, second := disk("/dev/disk/by-id/wwn-1", "nvme0n1", false), disk("/dev/disk/by-id/wwn-2", "nvme1n1", true)
	inventory.Disks = []*models.Disk{first, second}
	a.reportMachine(inventory)
	require.Equal(t, second.ID, a.host().InstallationDiskID, "a bootable disk has priority")
	require.Equal(t, "/dev/nvme1n1", a.host().InstallationDiskPath)
	a.patch(a.at()+"/"+a.id, object{"disks_selected_config": []object{{"id": first.ID, "role": "install"},
		{"id": second.ID, "role": "none"}}}, http.StatusCreated)
	require.Equal(t, first.ID, a.host().InstallationDiskID)
	require.Equal(t, "/dev/nvme0n1", a.host().InstallationDiskPath)
	a.patch(a.at()+"/"+a.id, object{"disks_selected_config": []object{{"id": "/dev/disk/by-id/none",
		"role": "install"}}}, http.StatusBadRequest)
}

func TestMachineNetwork_followsVIPs(t *testing.T) {
	a := newServed(t).newAgent()
	cluster := "/v2/clusters/" + a.cluster
	a.patch(cluster, object{"vip_dhcp_allocation": false}, http.StatusCreated)
	a.reportMachine(machine("node"))
	require.Empty(t, a.clusterNow().MachineNetworks, "without VIPs the machine network is unknown")
	a.patch(cluster, object{"api_vips": []object{{"ip": "192.0.2.4"}}}, http.StatusBadRequest)
	a.patch(cluster, object{"api_vips": []object{{"ip": "192.0.2.4"}}, "ingress_vips": []object{{"ip": "192.0.2.5"}}},
		http.StatusCreated)
	require.Equal(t, "192.0.2.0/24", a.clusterNow().MachineNetworkCidr)
	require.Equal(t, models.Subnet("192.0.2.0/24"), a.clusterNow().MachineNetworks[0].Cidr)
	require.Equal(t, "success", validationStatus(t, a.clusterNow().ValidationsInfo, "machine-cidr-defined"))
	require.Equal(t, http.StatusNoContent, a.send(http.MethodDelete, a.at()+"/"+a.id, nil, nil).Code)
	require.Empty(t, a.clusterNow().MachineNetworks)
	require.Empty(t, a.clusterNow().MachineNetworkCidr)

	require.Equal(t, http.StatusCreated, a.register(agentImage))
	a.reportMachine(machine("node"))
	require.Equal(t, "192.0.2.0/24", a.clusterNow().MachineNetworkCidr)
	a.patch(cluster, object{"machine_networks": []object{{"cidr": "192.0.2.0/24"}}}, http.StatusCreated)
	require.Equal(t, http.StatusNoContent, a.send(http.MethodDelete, a.at()+"/"+a.id, nil, nil).Code)
	require.Equal(t, "192.0.2.0/24", a.clusterNow().MachineNetworkCidr, "a user's value stays")
}

func TestVIPs_switchBetweenStaticAndDHCP(t *testing.T) {
	s := newServed(t)
	a := &agent{s, s.create("/v2/clusters", object{"name": "older", "openshift_version": "4.14",
		"pull_secret": anyPullSecret, "base_dns_domain": "site.test"}), "", "7b1c5a0e-0000-4000-8000-000000000004"}
	a.env = s.create("/v2/infra-envs", object{"name": "env", "openshift_version": "4.14", "pull_secret": anyPullSecret,
		"cluster_id": a.cluster})
	require.Equal(t, http.StatusCreated, a.register(agentImage))
	cluster := "/v2/clusters/" + a.cluster
	vips := object{"api_vips": []object{{"ip": "192.0.2.4"}}, "ingress_vips": []object{{"ip": "192.0.2.5"}}}
	a.reportMachine(machine("node"))
	require.NotContains(t, a.steps(""), models.StepTypeDhcpLeaseAllocate)
	a.patch(cluster, vips, http.StatusCreated)
	require.Len(t, a.clusterNow().APIVips, 1)
	a.patch(cluster, object{"vip_dhcp_allocation": true, "machine_networks": []object{{"cidr": "192.0.2.0/24"}}},
		http.StatusCreated)
	require.Empty(t, a.clusterNow().APIVips, "static VIPs are dropped when DHCP allocation is enabled")
	require.Contains(t, string(a.patch(cluster, vips, http.StatusBadRequest)), "DHCP")
	require.Contains(t, a.steps(""), models.StepTypeDhcpLeaseAllocate)
	require.Contains(t, a.clusterNow().FeatureUsage, "VIP auto alloc.")

	lease := models.DhcpAllocationResponse{}
	lease.APIVipAddress, lease.IngressVipAddress = ip("192.0.2.102"), ip("192.0.2.103")
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeDhcpLeaseAllocate, "dhcp-lease-allocate-1",
		lease).Code)
	require.Equal(t, models.IP("192.0.2.102"), a.clusterNow().APIVips[0].IP)
	require.Equal(t, models.IP("192.0.2.103"), a.clusterNow().IngressVips[0].IP)

	a.patch(cluster, object{"vip_dhcp_allocation": false}, http.StatusCreated)
	require.Empty(t, a.clusterNow().APIVips)
	require.Equal(t, models.ClusterStatusPendingForInput, *a.clusterNow().Status)
	require.Equal(t, http.StatusBadRequest, a.reply(models.StepTypeDhcpLeaseAllocate, "dhcp-lease-allocate-2",
		lease).Code, "DHCP allocation is disabled")
	require.Empty(t, a.clusterNow().APIVips)
}

func TestNTPSource_sentWithNextPoll(t *testing.T) {
	a := newServed(t).newAgent()
	a.reportMachine(machine("node"))
	source := func() string {
		recorder := a.send(http.MethodGet, a.at()+"/"+a.id+"/instructions?discovery_agent_version="+agentImage,
			nil, nil)
		var steps models.Steps
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &steps))
		for _, step := range steps.Instructions {
			if step.StepType == models.StepTypeNtpSynchronizer {
				var request models.NtpSynchronizationRequest
				require.NoError(t, json.Unmarshal([]byte(step.Args[0]), &request))
				return *request.NtpSource
			}
		}
		return "no step"
	}
	require.Equal(t, a.clusterNow().AdditionalNtpSource, source())
	a.patch("/v2/clusters/"+a.cluster, object{"additional_ntp_source": "5.5.5.5"}, http.StatusCreated)
	require.Equal(t, "5.5.5.5", source())
	a.patch("/v2/clusters/"+a.cluster, object{"additional_ntp_source": "not a name"}, http.StatusBadRequest)
}

func TestConnectivityReport_keepsKnownFields(t *testing.T) {
	a := newServed(t).newAgent()
	const known = `{"remote_hosts":[{"host_id":"b8a1228d-1091-4e79-be66-738a160f9ff7","l2_connectivity":null,"l3_connectivity":null,"mtu_report":null}]}`
	more := strings.Replace(known, "{", `{"extra":"data",`, 1)
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeConnectivityCheck, "connectivity-check-1", more).Code)
	require.JSONEq(t, known, a.host().Connectivity)
	require.Equal(t, http.StatusBadRequest, a.reply(models.StepTypeConnectivityCheck, "connectivity-check-2",
		"not a json").Code)
	require.JSONEq(t, known, a.host().Connectivity)
	failed := a.post(a.at()+"/"+a.id+"/instructions", object{"step_type": "connectivity-check",
		"step_id": "connectivity-check-3", "exit_code": -1, "error": "some error", "output": "not a json"})
	require.Equal(t, http.StatusNoContent, failed.Code, failed.Body)
	require.JSONEq(t, known, a.host().Connectivity)
}

func TestFeatureUsage(t *testing.T) {
	s := newServed(t)
	usage := func(cluster string) map[string]models.Usage {
		recorder := s.send(http.MethodGet, "/v2/clusters/"+cluster, nil, nil)
		var shown struct {
			FeatureUsage string `json:"feature_usage"`
		}
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &shown))
		usages := make(map[string]models.Usage)
		require.NoError(t, json.Unmarshal([]byte(shown.FeatureUsage), &usages))
		return usages
	}
	description := func(changes object) object {
		whole := object{"name": "east", "base_dns_domain": "example.com", "openshift_version": "4.20",
			"pull_secret": anyPullSecret}
		for name, value := range changes {
			whole[name] = value
		}
		return whole
	}
	single := usage(s.create("/v2/clusters", description(object{"control_plane_count": 1})))
	require.Equal(t, models.Usage{ID: "SNO", Name: "SNO"}, single["SNO"])
	require.Equal(t, map[string]any{"hyperthreading_enabled": "all"}, single["Hyperthreading"].Data)
	require.Contains(t, single, "OVN network type")
	for _, absent := range []string{"VIP auto alloc.", "arm64 architecture", "SDN network type", "Dual-stack",
		"Dual-stack VIPs", "CONSOLE"} {
		require.NotContains(t, single, absent)
	}

	networks := object{
		"cluster_networks": []object{{"cidr": "10.128.0.0/14", "host_prefix": 23},
			{"cidr": "fd01::/48", "host_prefix": 64}},
		"service_networks": []object{{"cidr": "172.30.0.0/16"}, {"cidr": "fd02::/112"}},
		"machine_networks": []object{{"cidr": "1.2.3.0/24"}, {"cidr": "1001:db8::/120"}},
		"api_vips":         []object{{"ip": "1.2.3.8"}}, "ingress_vips": []object{{"ip": "1.2.3.9"}},
	}
	dual := s.create("/v2/clusters", description(networks))
	require.Contains(t, usage(dual), "Dual-stack")
	require.NotContains(t, usage(dual), "Dual-stack VIPs")
	s.patch("/v2/clusters/"+dual, object{"api_vips": []object{{"ip": "1.2.3.8"}, {"ip": "1001:db8::8"}},
		"ingress_vips": []object{{"ip": "1.2.3.9"}, {"ip": "1001:db8::9"}}}, http.StatusCreated)
	require.Contains(t, usage(dual), "Dual-stack VIPs")
	s.patch("/v2/clusters/"+dual, object{
		"cluster_networks": networks["cluster_networks"].([]object)[:1],
		"service_networks": networks["service_networks"].([]object)[:1], "machine_networks": []object{},
		"api_vips": []object{}, "ingress_vips": []object{},
	}, http.StatusCreated)
	require.NotContains(t, usage(dual), "Dual-stack")
	require.NotContains(t, usage(dual), "Dual-stack VIPs")

	a := s.newAgent()
	virtual := machine("node")
	virtual.SystemVendor.Virtual = true
	a.reportMachine(virtual)
	a.patch(a.at()+"/"+a.id, object{"host_name": "h1"}, http.StatusCreated)
	a.patch("/v2/clusters/"+a.cluster, object{
		"additional_ntp_source": "1.1.1.1,2.2.2.2", "http_proxy": "http://1.1.1.1:8080",
		"https_proxy": "http://1.1.1.1:8080", "no_proxy": "a.redhat.com",
		"network_type": "OVNKubernetes", "user_managed_networking": false, "hyperthreading": "none",
		"tags": "edge,far away", "schedulable_masters": true,
	}, http.StatusCreated)
	a.patch("/v2/infra-envs/"+a.env, object{"kernel_arguments": []object{{"operation": "append", "value": "p1"}}},
		http.StatusCreated)
	used := usage(a.cluster)
	require.Equal(t, map[string]any{"VM Hosts": []any{a.id}}, used["Cluster managed networking with VMs"].Data)
	require.Equal(t, map[string]any{"source_count": 2.0}, used["Additional NTP Source"].Data)
	require.Equal(t, map[string]any{"http_proxy": 1.0, "https_proxy": 1.0, "no_proxy": 1.0}, used["Proxy"].Data)
	require.Equal(t, map[string]any{"host_count": 1.0}, used["Requested hostname"].Data)
	for _, present := range []string{"OVN network type", "Cluster Tags", "Schedulable masters",
		"discovery kernel arguments"} {
		require.Contains(t, used, present)
	}
	require.NotContains(t, used, "Hyperthreading")
}

func TestVIPs_inconsistentAreRefused(t *testing.T) {
	s := newServed(t)
	vips := func(addresses ...string) []object {
		list := []object{}
		for _, address := range addresses {
			list = append(list, object{"ip": address})
		}
		return list
	}
	registered := s.ids()["cluster_id"]
	for name, wrong := range map[string]struct {
		api, ingress []object
		want         string
	}{
		"two IPv4 addresses": {vips("1.2.3.8", "8.8.8.8"), vips("1.2.3.9", "8.8.8.2"), "of the same family"},
		"two IPv6 addresses": {vips("2001:db8::1", "2001:db8::3"), vips("2001:db8::2", "2001:db8::4"),
			"of the same family"},
		"three": {vips("1.2.3.8", "2001:db8::3", "8.8.8.3"),
			vips("1.2.3.9", "2001:db8::4", "8.8.8.4"), "3 API VIPs"},
		"none is an address": {vips("1.1.1.300"), vips("1.1.1.301"), "not an IP address"},
		"one is not an address": {vips("1.1.1.300", "2001:db8::3"), vips("1.2.3.101", "2001:db8::4"),
			"not an IP address"},
		"one API VIP, two ingress VIPs": {vips("1.2.3.8"), vips("1.2.3.9", "2001:db8::4"), "the same number of both"},
		"no ingress VIP":                {vips("1.2.3.8"), nil, "the same number of both"},
		"an API VIP twice":              {vips("1.2.3.8", "1.2.3.8"), vips("1.2.3.9", "2001:db8::4"), "given twice"},
		"an ingress VIP twice":          {vips("1.2.3.8", "2001:db8::3"), vips("1.2.3.9", "1.2.3.9"), "given twice"},
		"one address for both": {vips("1.2.3.8", "2001:db8::3"), vips("1.2.3.8", "2001:db8::4"),
			"both an API VIP and an ingress VIP"},
		"outside the network": {vips("1.2.4.8"), vips("1.2.3.9"), "is not in a machine network"},
	} {
		t.Run(name, func(t *testing.T) {
			body := object{"name": "east", "openshift_version": "4.20", "pull_secret": anyPullSecret,
				"api_vips": wrong.api, "ingress_vips": wrong.ingress}
			change := object{"api_vips": wrong.api, "ingress_vips": wrong.ingress}
			if name == "outside the network" {
				body["machine_networks"] = []object{{"cidr": "1.2.3.0/24"}}
				change["machine_networks"] = body["machine_networks"]
			}
			text, err := json.Marshal(body)
			require.NoError(t, err)
			recorder := s.send(http.MethodPost, "/v2/clusters", nil, text)
			require.Equal(t, http.StatusBadRequest, recorder.Code, recorder.Body)
			require.Contains(t, recorder.Body.String(), wrong.want)
			require.Contains(t, string(s.patch("/v2/clusters/"+registered, change, http.StatusBadRequest)), wrong.want)
		})
	}
	for name, right := range map[string]struct{ api, ingress []object }{
		"IPv4 first": {vips("1.2.3.8", "2001:db8::1"), vips("1.2.3.9", "2001:db8::2")},
		"IPv6 first": {vips("2001:db8::1", "1.2.3.8"), vips("2001:db8::2", "1.2.3.9")},
	} {
		s.patch("/v2/clusters/"+registered, object{"api_vips": right.api, "ingress_vips": right.ingress},
			http.StatusCreated)
		require.NotEmpty(t, s.create("/v2/clusters", object{"name": "east", "openshift_version": "4.20",
			"pull_secret": anyPullSecret, "api_vips": right.api, "ingress_vips": right.ingress}), name)
	}
	s.patch("/v2/clusters/"+registered, object{"api_vips": vips("1.2.3.8"), "ingress_vips": vips("1.2.3.8"),
		"load_balancer": object{"type": "user-managed"}, "machine_networks": []object{{"cidr": "1.2.3.0/24"}}},
		http.StatusCreated)
}

func TestClusterValidation_sameRulesAsUpstream(t *testing.T) {
	s := newServed(t)
	good := object{"name": "east", "openshift_version": "4.20", "pull_secret": anyPullSecret}
	registered := s.ids()["cluster_id"]
	for i, example := range []struct {
		field  string
		value  any
		taken  bool
		status int
	}{
		{"base_dns_domain", "example", true, 0}, {"base_dns_domain", "example.c", false, 400},
		{"base_dns_domain", "-example.com", false, 400},
		{"base_dns_domain", "1-example.com", true, 0}, {"base_dns_domain", "example.com", true, 0},
		{"base_dns_domain", "sub.example.com", true, 0},
		{"base_dns_domain", "deep.sub.example.com", true, 0}, {"base_dns_domain", "exam-ple.com", true, 0},
		{"base_dns_domain", "exam--ple.com", true, 0},
		{"base_dns_domain", "example.com1", true, 0}, {"base_dns_domain", "abc.com.c", false, 400},
		{"name", strings.Repeat("abcdefghij", 6), false, 422}, {"name", strings.Repeat("a", 54), true, 0},
		{"no_proxy", "*", true, 0}, {"no_proxy", "a.com,,", false, 400},
		{"ssh_public_key", "ssh-rsa AAAAB3NzaC1yc2EAAAADAABgQD14Gv4V5DVvyr7O6 someone", false, 400},
		{"ssh_public_key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g someone",
			true, 0},
		{"tags", "one,two words,three_3", true, 0}, {"tags", "one,,two", false, 400}, {"tags", "a-b", false, 400},
		{"additional_ntp_source", "clock.example.com,10.0.0.1", true, 0}, {"additional_ntp_source", "clock 1",
			false, 400},
		{"cluster_network_cidr", "0.0.0.a/8", false, 422},
	} {
		t.Run(strconv.Itoa(i)+" "+example.field, func(t *testing.T) {
			body := object{example.field: example.value}
			for name, value := range good {
				if _, set := body[name]; !set {
					body[name] = value
				}
			}
			text, err := json.Marshal(body)
			require.NoError(t, err)
			recorder := s.send(http.MethodPost, "/v2/clusters", nil, text)
			if example.taken {
				require.Equal(t, http.StatusCreated, recorder.Code, recorder.Body)
				s.patch("/v2/clusters/"+registered, object{example.field: example.value}, http.StatusCreated)
			} else {
				require.Equal(t, example.status, recorder.Code, recorder.Body)
				s.patch("/v2/clusters/"+registered, object{example.field: example.value}, example.status)
			}
		})
	}
}

func TestNetworkType_ofOtherVendors(t *testing.T) {
	s := newServed(t)
	for _, kind := range []string{"Cilium", "Calico", "CiscoACI", "None"} {
		id := s.create("/v2/clusters", object{"name": "east", "openshift_version": "4.20",
			"pull_secret": anyPullSecret, "network_type": kind})
		var shown models.Cluster
		require.NoError(t, json.Unmarshal(s.send(http.MethodGet, "/v2/clusters/"+id, nil, nil).Body.Bytes(), &shown))
		require.Equal(t, kind, *shown.NetworkType)
		require.Equal(t, "failure",
			validationStatus(t, shown.ValidationsInfo, "custom-manifests-requirements-satisfied"))
		s.patch("/v2/clusters/"+id, object{"network_type": "OVNKubernetes"}, http.StatusCreated)
		s.patch("/v2/clusters/"+id, object{"network_type": kind}, http.StatusCreated)
		refused := string(s.patch("/v2/clusters/"+id, object{"network_type": "Flannel"},
			http.StatusUnprocessableEntity))
		require.Contains(t, refused, "network_type in body should be one of [OpenShiftSDN OVNKubernetes")
		require.Contains(t, refused, kind)
		s.patch("/v2/clusters/"+id, object{"network_type": kind, "hyperthreading": "some"},
			http.StatusUnprocessableEntity)
	}
}

func TestTimeServers_insteadOfAdditional(t *testing.T) {
	s := newServed(t)
	description := object{"name": "east", "openshift_version": "4.20", "pull_secret": anyPullSecret}
	for path, field := range map[string]string{"/v2/clusters": "additional_ntp_source",
		"/v2/infra-envs": "additional_ntp_sources"} {
		held := func(id string) any {
			var shown object
			require.NoError(t, json.Unmarshal(s.send(http.MethodGet, path+"/"+id, nil, nil).Body.Bytes(), &shown))
			return shown[field]
		}
		whole := maps.Clone(description)
		whole["ntp_sources"], whole[field] = "192.0.2.123,clock.site.test", ""
		id := s.create(path, whole)
		require.Equal(t, "192.0.2.123,clock.site.test", held(id))
		s.patch(path+"/"+id, object{"ntp_sources": "192.0.2.124"}, http.StatusCreated)
		require.Equal(t, "192.0.2.124", held(id))
		refused := s.patch(path+"/"+id, object{"ntp_sources": "192.0.2.125", field: "192.0.2.126"},
			http.StatusBadRequest)
		require.Contains(t, string(refused), "ntp_sources and "+field+" cannot be set together")
		s.patch(path+"/"+id, object{"ntp_sources": "", field: "192.0.2.126"}, http.StatusCreated)
		require.Equal(t, "192.0.2.126", held(id))
		s.patch(path+"/"+id, object{"ntp_sources": "not a name"}, http.StatusBadRequest)
		s.patch(path+"/"+id, object{"ntp_sources": ""}, http.StatusCreated)
		require.Contains(t, []any{nil, ""}, held(id))
	}
}

func TestKernelArguments_replaceKeepClear(t *testing.T) {
	s := newServed(t)
	description := object{"name": "env", "openshift_version": "4.20", "pull_secret": anyPullSecret,
		"image_type": "minimal-iso"}
	arguments := func(values ...string) []object {
		list := []object{}
		for _, value := range values {
			list = append(list, object{"operation": "append", "value": value})
		}
		return list
	}
	description["kernel_arguments"] = arguments("p1", `p2="this is an argument"`)
	env := "/v2/infra-envs/" + s.create("/v2/infra-envs", description)
	held := func() string {
		var shown struct {
			KernelArguments string `json:"kernel_arguments"`
		}
		require.NoError(t, json.Unmarshal(s.send(http.MethodGet, env, nil, nil).Body.Bytes(), &shown))
		return shown.KernelArguments
	}
	require.JSONEq(t,
		`[{"operation":"append","value":"p1"},{"operation":"append","value":"p2=\"this is an argument\""}]`, held())
	s.patch(env, object{"kernel_arguments": arguments("p3", "p4")}, http.StatusCreated)
	require.JSONEq(t, `[{"operation":"append","value":"p3"},{"operation":"append","value":"p4"}]`, held())
	s.patch(env, object{"pull_secret": anyPullSecret}, http.StatusCreated)
	require.JSONEq(t, `[{"operation":"append","value":"p3"},{"operation":"append","value":"p4"}]`,
		held(), "absent fields stay")
	s.patch(env, object{"kernel_arguments": []object{}}, http.StatusCreated)
	require.Contains(t, []string{"", "[]"}, held())
	for _, wrong := range []object{{"operation": "illegal", "value": "p1"}, {"operation": "append",
		"value": "illegal value with unquoted space"}} {
		s.patch(env, object{"kernel_arguments": []object{wrong}}, http.StatusUnprocessableEntity)
	}
}

func TestInfraEnvUpdate_everyField(t *testing.T) {
	s := newServed(t)
	env := "/v2/infra-envs/" + s.create("/v2/infra-envs", object{"name": "env", "openshift_version": "4.20",
		"pull_secret": anyPullSecret})
	s.patch(env, object{"proxy": object{"no_proxy": "*"}}, http.StatusCreated)
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g someone"
	var shown models.InfraEnv
	require.NoError(t, json.Unmarshal(s.patch(env, object{
		"image_type": "minimal-iso", "ssh_authorized_key": key, "proxy": object{"http_proxy": "http://proxy.proxy",
			"no_proxy": "proxy.proxy"},
		"ignition_config_override": `{"ignition": {"version": "3.1.0"}, "storage": {"files": [{"path": "/tmp/example", "contents": {"source": "data:,x"}}]}}`,
	}, http.StatusCreated), &shown))
	require.Equal(t, []string{key, "http://proxy.proxy", "proxy.proxy"}, []string{shown.SSHAuthorizedKey,
		*shown.Proxy.HTTPProxy, *shown.Proxy.NoProxy})
	require.True(t, shown.Proxy.HTTPSProxy == nil || *shown.Proxy.HTTPSProxy == "")
	require.Equal(t, models.ImageTypeMinimalIso, *shown.Type)
	require.Contains(t, shown.IgnitionConfigOverride, "/tmp/example")
	for _, change := range []struct{ value, override any }{{nil, shown.IgnitionConfigOverride}, {"", nil}} {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(s.patch(env, object{"ignition_config_override": change.value},
			http.StatusCreated), &fields))
		require.Equal(t, change.override, fields["ignition_config_override"], "after %v", change.value)
	}
}

func TestVersions_multiArchitectureRelease(t *testing.T) {
	s := newServed(t)
	for _, query := range []string{"", "?only_latest=true"} {
		recorder := s.send(http.MethodGet, "/v2/openshift-versions"+query, nil, nil)
		require.Equal(t, http.StatusOK, recorder.Code, recorder.Body)
		var versions models.OpenshiftVersions
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &versions))
		require.Len(t, versions, 3)
		require.Equal(t, []string{"x86_64"}, versions["4.20.8"].CPUArchitectures)
		several := versions["4.20.8-multi"]
		require.Equal(t, "4.20.8-multi", *several.DisplayName)
		require.ElementsMatch(t, []string{"x86_64", "arm64", "ppc64le", "s390x"}, several.CPUArchitectures)
	}
	var levels struct{ Architectures models.SupportLevels }
	recorder := s.send(http.MethodGet, "/v2/support-levels/architectures?openshift_version=4.20.8", nil, nil)
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &levels))
	require.Len(t, levels.Architectures, 5)
	for architecture, level := range levels.Architectures {
		require.NotEqual(t, models.SupportLevelUnavailable, level, architecture)
	}
	id := s.create("/v2/clusters", object{"name": "east", "openshift_version": "4.20.8-multi",
		"pull_secret": anyPullSecret})
	var cluster models.Cluster
	require.NoError(t, json.Unmarshal(s.send(http.MethodGet, "/v2/clusters/"+id, nil, nil).Body.Bytes(), &cluster))
	require.Equal(t, []string{"multi", "quay.io/release:4.20.8-multi"}, []string{cluster.CPUArchitecture,
		cluster.OcpReleaseImage})
}
