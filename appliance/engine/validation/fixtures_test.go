package validation

import (
	"fmt"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func hostID(n int) strfmt.UUID {
	return strfmt.UUID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n))
}

// threeNodes is a bare-metal cluster of three hosts that passes all validations.
type threeNodes struct {
	cluster *models.Cluster
	hosts   []*inventory.Host
}

func newThreeNodes() *threeNodes {
	t := &threeNodes{cluster: &models.Cluster{
		ID: ptr(strfmt.UUID("11111111-0000-0000-0000-000000000000")), Name: "harbour", BaseDNSDomain: "site.example",
		Kind: ptr(models.ClusterKindCluster), ControlPlaneCount: 3, OpenshiftVersion: "4.18.3",
		CPUArchitecture: "x86_64",
		Platform:        &models.Platform{Type: ptr(models.PlatformTypeBaremetal)},
		NetworkType:     ptr(models.ClusterNetworkTypeOVNKubernetes),
		MachineNetworks: []*models.MachineNetwork{{Cidr: "192.168.10.0/24"}},
		ClusterNetworks: []*models.ClusterNetwork{{Cidr: "10.128.0.0/14", HostPrefix: 23}},
		ServiceNetworks: []*models.ServiceNetwork{{Cidr: "172.30.0.0/16"}},
		APIVips:         []*models.APIVip{{IP: "192.168.10.2", Verification: ptr(models.VipVerificationSucceeded)}},
		IngressVips:     []*models.IngressVip{{IP: "192.168.10.3", Verification: ptr(models.VipVerificationSucceeded)}},
	}}
	for n := 1; n <= 3; n++ {
		t.hosts = append(t.hosts, goodHost(n))
	}
	for _, h := range t.hosts {
		h.Connectivity = &models.ConnectivityReport{}
		for n := 1; n <= 3; n++ {
			if hostID(n) != h.ID() {
				h.Connectivity.RemoteHosts = append(h.Connectivity.RemoteHosts, reached(n))
			}
		}
	}
	return t
}

func reached(n int) *models.ConnectivityRemoteHost {
	ip := fmt.Sprintf("192.168.10.%d", 10+n)
	return &models.ConnectivityRemoteHost{
		HostID: hostID(n),
		L2Connectivity: []*models.L2Connectivity{{OutgoingNic: "eno1", RemoteIPAddress: ip,
			RemoteMac: fmt.Sprintf("52:54:00:00:00:%02d", n), Successful: true}},
		L3Connectivity: []*models.L3Connectivity{{OutgoingNic: "eno1", RemoteIPAddress: ip, AverageRTTMs: 0.3,
			Successful: true}},
		MtuReport: []*models.MtuReport{{OutgoingNic: "eno1", RemoteIPAddress: ip, MtuSuccessful: true}},
	}
}

func goodHost(n int) *inventory.Host {
	stray := strayName + ".harbour.site.example"
	return inventory.NewHost(&models.Host{
		ID: ptr(hostID(n)), Kind: ptr(models.HostKindHost), Status: ptr(models.HostStatusKnown),
		Role:      models.HostRoleMaster,
		ClusterID: ptr(strfmt.UUID("11111111-0000-0000-0000-000000000000")), Timestamp: noon.Unix(),
		DiscoveryAgentVersion: "mirror/agent:1",
		InstallationDiskID:    "/dev/disk/by-id/a",
	}, &inventory.Facts{
		Inventory: &models.Inventory{
			Hostname:     fmt.Sprintf("node-%d", n),
			CPU:          &models.CPU{Count: 8, Architecture: "x86_64", Flags: []string{"vmx"}},
			Memory:       &models.Memory{PhysicalBytes: 32 << 30, UsableBytes: 31 << 30},
			SystemVendor: &models.SystemVendor{Manufacturer: "Dell Inc.", ProductName: "PowerEdge R650"},
			TpmVersion:   models.InventoryTpmVersionNr20,
			Disks: []*models.Disk{{ID: "/dev/disk/by-id/a", Name: "sda", Path: "/dev/sda",
				DriveType: models.DriveTypeSSD, SizeBytes: 480e9, Bootable: true,
				HasUUID: true, InstallationEligibility: models.DiskInstallationEligibility{Eligible: true}}},
			Interfaces: []*models.Interface{{Name: "eno1", MacAddress: fmt.Sprintf("52:54:00:00:00:%02d", n),
				IPV4Addresses: []string{fmt.Sprintf("192.168.10.%d/24", 10+n)}}},
			Routes: []*models.Route{{Destination: "0.0.0.0", Gateway: "192.168.10.1", Interface: "eno1",
				Family: 2}},
		},
		NTPSources: []*models.NtpSource{{SourceName: "ntp.site.example", SourceState: models.SourceStateSynced}},
		Domains: &models.DomainResolutionResponse{Resolutions: []*models.DomainResolutionResponseDomain{
			{DomainName: ptr(stray + ".")}, {DomainName: ptr(stray)}}},
	})
}

// resolve adds a DNS reply to the report of a host.
func resolve(h *inventory.Host, name, ip string) {
	h.Domains.Resolutions = append(h.Domains.Resolutions, &models.DomainResolutionResponseDomain{DomainName: &name,
		IPV4Addresses: []strfmt.IPv4{strfmt.IPv4(ip)}})
}

func (t *threeNodes) input() HostInput {
	return HostInput{
		Host: t.hosts[0], Cluster: t.cluster, Peers: t.hosts, Groups: network.MajorityGroups(t.hosts,
			SmallestGroup(t.cluster, t.hosts)),
		Requirements: DefaultRequirements(t.cluster.OpenshiftVersion), Now: noon, Connected: true,
		AgentImage: "mirror/agent:1",
	}
}

func (t *threeNodes) clusterInput() ClusterInput {
	return ClusterInput{Cluster: t.cluster, Hosts: t.hosts,
		Requirements: DefaultRequirements(t.cluster.OpenshiftVersion), PullSecretSet: true}
}

// userManaged configures the cluster for the user's own load balancer and DNS.
func (t *threeNodes) userManaged() {
	t.cluster.UserManagedNetworking = ptr(true)
	t.cluster.Platform.Type = ptr(models.PlatformTypeNone)
	t.cluster.APIVips, t.cluster.IngressVips, t.cluster.MachineNetworks = nil, nil, nil
	for _, h := range t.hosts {
		for _, name := range []string{apiName, apiIntName, appsName} {
			resolve(h, domain(t.cluster, name), "192.168.10.200")
		}
	}
}

// joins makes the first host join an installed cluster and gives it an ignition config from there.
func (t *threeNodes) joins(ignition string) {
	t.hosts[0].Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
	t.hosts[0].APIConnectivity = &models.APIVipConnectivityResponse{IsSuccess: true, Ignition: ignition}
}

// singleNode removes all hosts but one, for a single-node cluster.
func (t *threeNodes) singleNode() {
	t.cluster.ControlPlaneCount = 1
	t.cluster.UserManagedNetworking = ptr(true)
	t.cluster.Platform.Type = ptr(models.PlatformTypeNone)
	t.cluster.APIVips, t.cluster.IngressVips = nil, nil
	t.hosts = t.hosts[:1]
	t.hosts[0].Connectivity = nil
	t.hosts[0].Record.Bootstrap = true
}

// fault is a change of a valid input with the expected result of a validation.
type fault[I any] struct {
	name      string
	id        ID
	want      Status
	readiness Readiness
	message   string
	change    func(*threeNodes, *I)
}
