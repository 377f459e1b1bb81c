package steps

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
)

// Each step's reply has its own fuzz target, with seeds in testdata/fuzz. The parser must not
// panic. It must reject a reply with one sentence, or return reports that can be parsed again. The
// consumers of the parsed facts (groups, networks, validations, the next steps) must not panic
// either.

func FuzzInventory(f *testing.F) {
	fuzzReply(f, models.StepTypeInventory, smallInventory, `{"cpu":{},"memory":{},"disks":[null,{"drive_type":"Multipath","holders":"a,,b"},{"drive_type":"iSCSI","iscsi":{}}],
		"interfaces":[null,{"name":"eno1","ipv4_addresses":["1.2.3.4/33","::/0","192.168.1.11/24"]}],"routes":[null,{"destination":"::","gateway":"x"}],"gpus":[null],"boot":{}}`,
		`{"truncation":{"type":"full"}}`)
}

func FuzzConnectivity(f *testing.F) {
	fuzzReply(f, models.StepTypeConnectivityCheck,
		`{"remote_hosts":[{"host_id":"44444444-4444-4444-4444-444444444444","l2_connectivity":[{"successful":true,"remote_ip_address":"192.168.1.12","remote_mac":"a","outgoing_nic":"eno1"}],"l3_connectivity":[{"successful":true,"remote_ip_address":"192.168.1.12","average_rtt_ms":1e308}],"mtu_report":[{"outgoing_nic":"eno1","remote_ip_address":"192.168.1.12"}]}]}`,
		`{"remote_hosts":[null,{"host_id":"44444444-4444-4444-4444-444444444444","l2_connectivity":[null],"l3_connectivity":[null],"mtu_report":[null]}]}`)
}

func FuzzFreeAddresses(f *testing.F) {
	fuzzReply(f, models.StepTypeFreeNetworkAddresses,
		`[{"network":"192.168.1.0/24","free_addresses":["192.168.1.2","x"]}]`, `[{"network":"::/0"},null]`)
}

func FuzzLease(f *testing.F) {
	fuzzReply(f, models.StepTypeDhcpLeaseAllocate,
		`{"api_vip_address":"192.168.1.2","ingress_vip_address":"192.168.1.3","api_vip_lease":"lease {\n  interface \"eno1\";\n  renew 1;\n}"}`, `{"api_vip_address":"192.168.1.2%eno1"}`)
}

func FuzzNTP(f *testing.F) {
	fuzzReply(f, models.StepTypeNtpSynchronizer, `{"ntp_sources":[{"source_name":"a","source_state":"synced"},null]}`,
		`{"ntp_sources":[null]}`)
}

func FuzzDomains(f *testing.F) {
	fuzzReply(f, models.StepTypeDomainResolution,
		`{"resolutions":[{"domain_name":"api.c.example.com","ipv4_addresses":["1.2.3.4"],"ipv6_addresses":["x"],"cnames":[""]},{}]}`, `{"resolutions":[null]}`)
}

func FuzzVIPs(f *testing.F) {
	fuzzReply(f, models.StepTypeVerifyVips, `[{"vip":"192.168.1.2","vip_type":"api","verification":"succeeded"}]`,
		`[null]`)
}

func FuzzTang(f *testing.F) {
	fuzzReply(f, models.StepTypeTangConnectivityCheck,
		`{"is_success":true,"tang_server_response":[null,{"tang_url":"x"}]}`, `{}`)
}

func FuzzAPIConnectivity(f *testing.F) {
	fuzzReply(f, models.StepTypeAPIVipConnectivityCheck, `{"is_success":true,"ignition":"{}"}`,
		`{"url":"\u0000","download_error":"."}`)
}

func FuzzDiskSpeed(f *testing.F) {
	fuzzReply(f, models.StepTypeInstallationDiskSpeedCheck, `{"path":"/dev/disk/by-id/a","io_sync_duration":4}`,
		`{"path":"x","io_sync_duration":-9223372036854775808}`)
}

func FuzzImages(f *testing.F) {
	fuzzReply(f, models.StepTypeContainerImageAvailability,
		`{"images":[{"name":"mirror/mco","result":"success","download_rate":-1}]}`, `{"images":[null]}`)
}

func FuzzUpgrade(f *testing.F) {
	fuzzReply(f, models.StepTypeUpgradeAgent, `{"agent_image":"x","result":"failure"}`, `{}`)
}

// TestApply_deeplyNestedReply sends replies that could exhaust the parser's stack.
func TestApply_deeplyNestedReply(t *testing.T) {
	for kind, read := range readers {
		if read == nil || kind == models.StepTypeDownloadBootArtifacts {
			continue
		}
		for _, prefix := range []string{"[", `{"a":`, `{"disks":[`, `{"remote_hosts":[`} {
			_, err := Apply(&models.StepReply{StepType: kind, Output: strings.Repeat(prefix, 1_000_000)},
				replySituation())
			require.Error(t, err, "%s %s", kind, prefix)
		}
	}
}

func fuzzReply(f *testing.F, kind models.StepType, seeds ...string) {
	for _, seed := range append(seeds, "", "null", "[null]", "{}", "[]", "\xff") {
		f.Add(seed, int64(0))
	}
	f.Add(seeds[0], int64(1))
	f.Add("", int64(exitMediaGone))
	f.Fuzz(func(t *testing.T, output string, code int64) {
		s := replySituation()
		e, err := Apply(&models.StepReply{StepType: kind, Output: output, Error: output, ExitCode: code}, s)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		read, err := inventory.Parse(e.Merge(inventory.Reports{}))
		require.NoError(t, err, "the stored reports can be parsed again")
		useFacts(t, s, read)
		useFacts(t, s, understood(s, e))
	})
}

// understood returns the facts of a host after a reply.
func understood(s Situation, e *Effect) *inventory.Facts {
	facts := *s.Host.Facts
	if e.Inventory != nil {
		facts.Inventory, facts.Truncation = e.Inventory.Inventory, e.Inventory.Truncation
	}
	if e.Connectivity != nil {
		facts.Connectivity = e.Connectivity
	}
	if e.FreeAddresses != nil {
		facts.FreeAddresses = e.FreeAddresses
	}
	if e.NTPSources != nil {
		facts.NTPSources = e.NTPSources
	}
	if e.Domains != nil {
		facts.Domains = e.Domains
	}
	if e.Tang != nil {
		facts.Tang = e.Tang
	}
	if e.APIConnectivity != nil {
		facts.APIConnectivity = e.APIConnectivity
	}
	return &facts
}

// useFacts passes a host's facts to all consumers.
func useFacts(t *testing.T, s Situation, facts *inventory.Facts) {
	in := situation()
	in.Host = inventory.NewHost(s.Host.Record, facts)
	in.Peers = []*inventory.Host{in.Host, machine(peerID, "192.168.1.12")}
	requirements := validation.DefaultRequirements(in.Cluster.OpenshiftVersion)
	groups, err := network.MajorityGroups(in.Peers, 3).JSON()
	require.NoError(t, err)
	require.NotEmpty(t, groups)
	report := validation.Host(validation.HostInput{
		Host: in.Host, Cluster: in.Cluster, InfraEnv: in.InfraEnv, Peers: in.Peers,
		Groups:     network.MajorityGroups(in.Peers, 3),
		Collisions: network.Collisions(in.Peers), Requirements: requirements, Connected: true,
	})
	require.True(t, json.Valid(report.JSON()))
	cluster := validation.Cluster(validation.ClusterInput{Cluster: in.Cluster, Hosts: in.Peers,
		Requirements: requirements, PullSecretSet: true})
	require.True(t, json.Valid(cluster.JSON()))
	for _, state := range []string{models.HostStatusKnown, models.HostStatusPreparingForInstallation,
		models.HostStatusInstalling} {
		s.Host.Record.Status = &state
		answer, err := For(in)
		require.NotNil(t, answer)
		if err != nil { // without disks or interfaces, some steps cannot be made
			require.NotEmpty(t, err.Error())
		}
	}
}
