package steps

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/runtime"
	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
)

func ptr[T any](v T) *T { return &v }

const (
	clusterID  = strfmt.UUID("11111111-1111-1111-1111-111111111111")
	infraEnvID = strfmt.UUID("22222222-2222-2222-2222-222222222222")
	hostID     = strfmt.UUID("33333333-3333-3333-3333-333333333333")
	peerID     = strfmt.UUID("44444444-4444-4444-4444-444444444444")
)

func machine(id strfmt.UUID, ip string) *inventory.Host {
	return inventory.NewHost(&models.Host{
		ID: ptr(id), ClusterID: ptr(clusterID), InfraEnvID: infraEnvID, Kind: ptr(models.HostKindHost),
		Role:   models.HostRoleMaster,
		Status: ptr(models.HostStatusKnown), InstallationDiskID: "/dev/disk/by-id/a",
		DiscoveryAgentVersion: "mirror/agent:1",
	}, &inventory.Facts{Inventory: &models.Inventory{
		Hostname: "node", CPU: &models.CPU{Architecture: "x86_64"}, Memory: &models.Memory{},
		Interfaces: []*models.Interface{
			{Name: "eno1", MacAddress: "52:54:00:00:00:01", IPV4Addresses: []string{ip + "/24"}},
			{Name: "eno2", MacAddress: "52:54:00:00:00:02", IPV4Addresses: []string{"10.0.0.1/16"},
				IPV6Addresses: []string{"fe80::1/64"}},
		},
		Disks: []*models.Disk{
			{ID: "/dev/disk/by-id/a", Name: "sda", Path: "/dev/sda", DriveType: models.DriveTypeSSD, Bootable: true},
			{ID: "/dev/disk/by-id/b", Name: "sdb", Path: "/dev/sdb", DriveType: models.DriveTypeSSD, Bootable: true},
		},
	}})
}

// situation returns the input of a bound host in a cluster that needs every step.
func situation() Input {
	return Input{
		Host: machine(hostID, "192.168.1.11"),
		Cluster: &models.Cluster{
			ID: ptr(clusterID), Name: "harbour", BaseDNSDomain: "site.example", ControlPlaneCount: 3,
			OpenshiftVersion: "4.18.3", CPUArchitecture: "x86_64",
			VipDhcpAllocation: ptr(true), MachineNetworks: []*models.MachineNetwork{{Cidr: "192.168.1.0/24"}},
			AdditionalNtpSource: "ntp.site.example",
			APIVips:             []*models.APIVip{{IP: "192.168.1.2"}},
			IngressVips:         []*models.IngressVip{{IP: "192.168.1.3"}},
			DiskEncryption: &models.DiskEncryption{EnableOn: ptr("all"), Mode: ptr(models.DiskEncryptionModeTang),
				TangServers: `[{"url":"http://tang","thumbprint":"x"}]`},
		},
		InfraEnv: &models.InfraEnv{AdditionalNtpSources: "10.0.0.123"},
		Peers:    []*inventory.Host{machine(hostID, "192.168.1.11"), machine(peerID, "192.168.1.12")},
		Images: Images{Release: "mirror/release@sha256:1", Agent: "mirror/agent:1", Installer: "mirror/installer:1",
			Controller: "mirror/controller:1",
			MCO:        "mirror/mco:1", MustGather: map[string]string{"ocp": "mirror/must-gather:1"},
			CoreOS: "mirror/coreos:1"},
		Ignition: IgnitionEndpoint{URL: "https://api-int.harbour.site.example:22623/config/worker",
			CACertificate: "Y2E=", Token: "secret"},
		BootArtifacts: BootArtifacts{Kernel: "http://l/k", Initrd: "http://l/i", Rootfs: "http://l/r"},
		Random:        bytes.NewReader(bytes.Repeat([]byte{0xab, 1, 2, 3}, 100)),
	}
}

// agentAccepts runs the agent's check of a step's arguments.
func agentAccepts(t *testing.T, step *models.Step) {
	t.Helper()
	forms := map[models.StepType]runtime.Validatable{
		models.StepTypeConnectivityCheck:          &models.ConnectivityCheckParams{},
		models.StepTypeFreeNetworkAddresses:       &models.FreeAddressesRequest{},
		models.StepTypeDhcpLeaseAllocate:          &models.DhcpAllocationRequest{},
		models.StepTypeNtpSynchronizer:            &models.NtpSynchronizationRequest{},
		models.StepTypeDomainResolution:           &models.DomainResolutionRequest{},
		models.StepTypeVerifyVips:                 &models.VerifyVipsRequest{},
		models.StepTypeTangConnectivityCheck:      &models.TangConnectivityRequest{},
		models.StepTypeAPIVipConnectivityCheck:    &models.APIVipConnectivityRequest{},
		models.StepTypeInstallationDiskSpeedCheck: &models.DiskSpeedCheckRequest{},
		models.StepTypeContainerImageAvailability: &models.ContainerImageAvailabilityRequest{},
		models.StepTypeLogsGather:                 &models.LogsGatherCmdRequest{},
		models.StepTypeUpgradeAgent:               &models.UpgradeAgentRequest{},
		models.StepTypeDownloadBootArtifacts:      &models.DownloadBootArtifactsRequest{},
		models.StepTypeRebootForReclaim:           &models.RebootForReclaimRequest{},
		models.StepTypeInstall:                    &models.InstallCmdRequest{},
	}
	require.Regexp(t, regexp.MustCompile("^"+string(step.StepType)+"-[0-9a-f]{8}$"), step.StepID)
	require.NoError(t, step.Validate(strfmt.Default))
	switch step.StepType {
	case models.StepTypeStopInstallation:
		require.NotNil(t, step.Args)
		require.Empty(t, step.Args)
		return
	case models.StepTypeInventory:
		require.Len(t, step.Args, 1)
		require.True(t, strfmt.IsUUID(step.Args[0]))
		return
	case models.StepTypeInstallationDiskSpeedCheck:
		require.Len(t, step.Args, 2)
		require.Equal(t, "480.00", step.Args[1])
	default:
		require.Len(t, step.Args, 1)
	}
	form := forms[step.StepType]
	require.NotNil(t, form, step.StepType)
	require.NoError(t, json.Unmarshal([]byte(step.Args[0]), form))
	require.NoError(t, form.Validate(strfmt.Default))
}

func TestFor_stepsOfEachState(t *testing.T) {
	const (
		checks = "inventory connectivity-check tang-connectivity-check free-network-addresses " +
			"dhcp-lease-allocate ntp-synchronizer domain-resolution verify-vips"
		joinChecks = "inventory connectivity-check api-vip-connectivity-check ntp-synchronizer domain-resolution"
		dayOne     = models.HostKindHost
		dayTwo     = models.HostKindAddToExistingClusterHost
	)
	tests := []struct {
		kind, state, steps string
		seconds            int64
		exit               bool
	}{
		{dayOne, models.HostStatusDiscovering, "inventory", 60, false},
		{dayOne, models.HostStatusKnown, checks, 60, false},
		{dayOne, models.HostStatusInsufficient, checks, 60, false},
		{dayOne, models.HostStatusPendingForInput, checks, 60, false},
		{dayOne, models.HostStatusDisconnected, "inventory", 120, false},
		{dayOne, models.HostStatusPreparingForInstallation,
			"dhcp-lease-allocate installation-disk-speed-check container-image-availability", 60, false},
		{dayOne, models.HostStatusPreparingSuccessful, "", 60, false},
		{dayOne, models.HostStatusInstalling, "install dhcp-lease-allocate", 60, false},
		{dayOne, models.HostStatusInstallingInProgress, "dhcp-lease-allocate", 60, false},
		{dayOne, models.HostStatusInstalled, "", 60, false},
		{dayOne, models.HostStatusError, "logs-gather stop-installation", 120, false},
		{dayOne, models.HostStatusCancelled, "logs-gather stop-installation", 120, false},
		{dayOne, models.HostStatusDisabled, "", 120, false},
		{dayOne, models.HostStatusResetting, "", 120, false},
		{dayOne, models.HostStatusBinding, "", 0, true},
		{dayTwo, models.HostStatusDiscovering, "inventory ntp-synchronizer domain-resolution", 60, false},
		{dayTwo, models.HostStatusKnown, joinChecks, 60, false},
		{dayTwo, models.HostStatusInsufficient, joinChecks, 60, false},
		{dayTwo, models.HostStatusPendingForInput, "inventory connectivity-check api-vip-connectivity-check",
			60, false},
		{dayTwo, models.HostStatusDisconnected, "inventory", 120, false},
		{dayTwo, models.HostStatusInstalling, "install", 60, false},
		{dayTwo, models.HostStatusInstallingInProgress, "", 60, false},
		{dayTwo, models.HostStatusError, "logs-gather stop-installation", 120, false},
		{dayTwo, models.HostStatusCancelled, "logs-gather stop-installation", 120, false},
		{dayTwo, models.HostStatusDisabled, "", 120, false},
		{dayTwo, models.HostStatusResetting, "", 120, false},
		{"", models.HostStatusDiscoveringUnbound, "inventory ntp-synchronizer", 60, false},
		{"", models.HostStatusKnownUnbound, "inventory ntp-synchronizer", 60, false},
		{"", models.HostStatusInsufficientUnbound, "inventory ntp-synchronizer", 60, false},
		{"", models.HostStatusDisconnectedUnbound, "inventory", 120, false},
		{"", models.HostStatusDisabledUnbound, "", 120, false},
		{"", models.HostStatusUnbinding, "", 0, true},
		{"", models.HostStatusUnbindingPendingUserAction, "", 0, true},
		{"", models.HostStatusReclaiming, "download-boot-artifacts", 60, false},
		{"", models.HostStatusReclaimingRebooting, "reboot-for-reclaim", 120, true},
	}
	for _, tt := range tests {
		t.Run(tt.kind+" "+tt.state, func(t *testing.T) {
			in := situation()
			in.Host.Record.Status, in.Host.Record.Kind = ptr(tt.state), ptr(tt.kind)
			if tt.kind == "" {
				in.Cluster, in.Host.Record.Kind = nil, ptr(dayOne)
			}
			answer, err := For(in)
			require.NoError(t, err)
			var kinds []string
			for _, step := range answer.Instructions {
				kinds = append(kinds, string(step.StepType))
				agentAccepts(t, step)
			}
			require.Equal(t, tt.steps, strings.Join(kinds, " "))
			require.Equal(t, tt.seconds, answer.NextInstructionSeconds)
			require.Equal(t, map[bool]string{true: "exit", false: "continue"}[tt.exit], *answer.PostStepAction)
			require.NotNil(t, answer.Instructions, "an agent expects a list")
		})
	}
}

func steps(t *testing.T, in Input) map[models.StepType]*models.Step {
	t.Helper()
	answer, err := For(in)
	require.NoError(t, err)
	all := make(map[models.StepType]*models.Step)
	for _, s := range answer.Instructions {
		all[s.StepType] = s
	}
	return all
}

func TestFor_leavesOutNeedlessSteps(t *testing.T) {
	in := situation()
	in.Cluster.VipDhcpAllocation, in.Cluster.DiskEncryption, in.Cluster.APIVips, in.Cluster.IngressVips = nil,
		nil, nil, nil
	in.Cluster.BaseDNSDomain, in.Peers = "", nil
	// a /16 is too large for the search for free addresses
	in.Host.Inventory.Interfaces = in.Host.Inventory.Interfaces[1:]
	all := steps(t, in)
	require.Len(t, all, 2)
	require.Contains(t, all, models.StepTypeInventory)
	require.Contains(t, all, models.StepTypeNtpSynchronizer)

	in = situation()
	in.Host.Record.Status = ptr(models.HostStatusPreparingForInstallation)
	in.Host.Disks = map[string]models.DiskInfo{"/dev/disk/by-id/a": {DiskSpeed: &models.DiskSpeed{Tested: true}}}
	in.Host.Images = map[string]*models.ContainerImageAvailability{"mirror/release@sha256:1": {}, "mirror/mco:1": {},
		"mirror/must-gather:1": {}}
	all = steps(t, in)
	require.NotContains(t, all, models.StepTypeInstallationDiskSpeedCheck)
	require.JSONEq(t, `{"images":["mirror/installer:1"],"timeout":960}`,
		all[models.StepTypeContainerImageAvailability].Args[0])

	in.Attempt = 2 // the agent does not repeat a reply that equals its last one
	all = steps(t, in)
	require.JSONEq(t,
		`{"images":["mirror/must-gather:1","mirror/installer:1","mirror/release@sha256:1","mirror/mco:1"],"timeout":960}`,
		all[models.StepTypeContainerImageAvailability].Args[0])

	in = situation()
	in.Host.Record.Status = ptr(models.HostStatusError)
	in.Host.Record.LogsCollectedAt = strfmt.DateTime(time.Unix(1, 0))
	require.Len(t, steps(t, in), 1)
}

func TestFor_tangServersOfJoiningHost(t *testing.T) {
	in := situation()
	in.Host.Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
	require.NotContains(t, steps(t, in), models.StepTypeTangConnectivityCheck,
		"the host has not downloaded the config yet")
	in.Host.APIConnectivity = &models.APIVipConnectivityResponse{IsSuccess: true,
		Ignition: `{"storage":{"luks":[{"name":"root","clevis":{"tpm2":true}}]}}`}
	require.NotContains(t, steps(t, in), models.StepTypeTangConnectivityCheck)
	in.Host.APIConnectivity.Ignition = `{"storage":{"luks":[{"name":"root","clevis":{"tang":[{"url":"http://tang.other","thumbprint":"y"}]}}]}}`
	step := steps(t, in)[models.StepTypeTangConnectivityCheck]
	agentAccepts(t, step)
	require.JSONEq(t, `{"tang_servers":"[{\"url\":\"http://tang.other\",\"thumbprint\":\"y\"}]"}`, step.Args[0])
}

func TestFor_absentPeersAreNotContacted(t *testing.T) {
	in := situation()
	request := steps(t, in)[models.StepTypeConnectivityCheck].Args[0]
	require.Contains(t, request, string(peerID))
	require.NotContains(t, request, string(hostID))
	require.NotContains(t, request, "fe80", "link-local addresses are unusable for other hosts")
	in.Peers[1].Record.Status = ptr(models.HostStatusDisconnected)
	require.NotContains(t, steps(t, in), models.StepTypeConnectivityCheck)
}

func TestFor_replacesOtherAgents(t *testing.T) {
	in := situation()
	in.Host.Record.DiscoveryAgentVersion = "old"
	all := steps(t, in)
	require.Len(t, all, 1)
	require.JSONEq(t, `{"agent_image":"mirror/agent:1"}`, all[models.StepTypeUpgradeAgent].Args[0])

	in.Host.Record.Status = ptr(models.HostStatusInstalling)
	require.NotContains(t, steps(t, in), models.StepTypeUpgradeAgent)
	in.Host.Record.Status, in.Images.Agent = ptr(models.HostStatusKnown), ""
	require.NotContains(t, steps(t, in), models.StepTypeUpgradeAgent)
}

func TestVIPMAC_isStable(t *testing.T) {
	request := func() models.DhcpAllocationRequest {
		var r models.DhcpAllocationRequest
		require.NoError(t, json.Unmarshal([]byte(steps(t, situation())[models.StepTypeDhcpLeaseAllocate].Args[0]), &r))
		return r
	}
	a, b := request(), request()
	require.Equal(t, a, b)
	require.NotEqual(t, *a.APIVipMac, *a.IngressVipMac)
	require.True(t, strings.HasPrefix(a.APIVipMac.String(), "02:"))
	require.Equal(t, "eno1", *a.Interface)
}

func TestFor_returnsOtherStepsAfterAnError(t *testing.T) {
	in := situation()
	in.Cluster.MachineNetworks[0].Cidr = "172.16.0.0/24"
	answer, err := For(in)
	require.ErrorContains(t, err, "no interface in machine network 172.16.0.0/24")
	require.Len(t, answer.Instructions, 7)

	in = situation()
	in.Random = bytes.NewReader(nil)
	_, err = For(in)
	require.ErrorContains(t, err, "make the id of step")
}

func TestFor_bootstrapFetchesLogs(t *testing.T) {
	in := situation()
	in.Host.Record.Status, in.Host.Record.Bootstrap = ptr(models.HostStatusError), true
	var r models.LogsGatherCmdRequest
	require.NoError(t, json.Unmarshal([]byte(steps(t, in)[models.StepTypeLogsGather].Args[0]), &r))
	require.Equal(t, []string{"192.168.1.12"}, r.MasterIps)
	in.Cluster.MachineNetworks = nil
	require.NoError(t, json.Unmarshal([]byte(steps(t, in)[models.StepTypeLogsGather].Args[0]), &r))
	require.Equal(t, []string{"192.168.1.12", "10.0.0.1"}, r.MasterIps)
}

func TestRunner(t *testing.T) {
	text, err := Runner(situation().Host.Record, "mirror/agent:1")
	require.NoError(t, err)
	var r models.NextStepCmdRequest
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	require.NoError(t, r.Validate(strfmt.Default))
}
