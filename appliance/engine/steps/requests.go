package steps

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
)

func inventoryStep(in Input) (*models.Step, error) {
	return &models.Step{StepType: models.StepTypeInventory, Args: []string{string(in.Host.ID())}}, nil
}

// connectivityStep returns the step in which a host contacts the other hosts of the cluster.
func connectivityStep(in Input) (*models.Step, error) {
	var hosts models.ConnectivityCheckParams
	for _, peer := range in.Peers {
		if peer.ID() == in.Host.ID() || peer.Inventory == nil {
			continue
		}
		switch peer.Status() {
		case models.HostStatusDiscovering, models.HostStatusDisconnected:
			continue
		}
		host := &models.ConnectivityCheckHost{HostID: peer.ID(), Nics: []*models.ConnectivityCheckNic{}}
		for _, nic := range peer.Inventory.Interfaces {
			addresses := inventory.Addresses(nic)
			ips := make([]string, 0, len(addresses))
			for _, p := range addresses {
				ips = append(ips, p.Addr().String())
			}
			host.Nics = append(host.Nics, &models.ConnectivityCheckNic{Name: nic.Name, Mac: strfmt.MAC(nic.MacAddress),
				IPAddresses: ips})
		}
		hosts = append(hosts, host)
	}
	if len(hosts) == 0 {
		return nil, nil
	}
	return request(models.StepTypeConnectivityCheck, hosts)
}

// smallestScan is the prefix length of the largest IPv4 network in which a host searches for free
// addresses: 1024 addresses.
const smallestScan = 22

func freeAddressesStep(in Input) (*models.Step, error) {
	var list models.FreeAddressesRequest
	for _, n := range network.Networks(in.Host.Inventory) {
		if n.Addr().Is4() && n.Bits() >= smallestScan {
			list = append(list, n.String())
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return request(models.StepTypeFreeNetworkAddresses, list)
}

// dhcpStep returns the step in which a host requests the addresses of the cluster by DHCP, or
// renews them.
func dhcpStep(in Input) (*models.Step, error) {
	c := in.Cluster
	machines := network.MachineNetworks(c)
	if c.VipDhcpAllocation == nil || !*c.VipDhcpAllocation || len(machines) == 0 || in.Host.Inventory == nil {
		return nil, nil
	}
	_, nic, ok := network.AddressIn(machines[0], in.Host.Inventory)
	if !ok {
		return nil, fmt.Errorf("host %s has no interface in machine network %s for DHCP requests",
			in.Host.Name(), machines[0])
	}
	api, ingress := VIPMAC(c, "api"), VIPMAC(c, "ingress")
	return request(models.StepTypeDhcpLeaseAllocate, models.DhcpAllocationRequest{
		Interface: &nic.Name, APIVipMac: &api, IngressVipMac: &ingress, APIVipLease: in.APIVIPLease,
		IngressVipLease: in.IngressVIPLease,
	})
}

// VIPMAC returns the MAC address for the DHCP requests of a VIP. It is always the same for a
// cluster, and it is a locally administered address (IEEE 802).
func VIPMAC(c *models.Cluster, name string) strfmt.MAC {
	sum := sha256.Sum256([]byte(string(*c.ID) + "-" + name))
	return strfmt.MAC(net.HardwareAddr(append([]byte{0x02}, sum[:5]...)).String())
}

func ntpStep(in Input) (*models.Step, error) {
	sources := ""
	if in.InfraEnv != nil {
		sources = in.InfraEnv.AdditionalNtpSources
	}
	if in.Cluster != nil && in.Cluster.AdditionalNtpSource != "" {
		sources = in.Cluster.AdditionalNtpSource
	}
	return request(models.StepTypeNtpSynchronizer, models.NtpSynchronizationRequest{NtpSource: &sources})
}

func domainsStep(in Input) (*models.Step, error) {
	names := validation.DomainNames(in.Cluster)
	if len(names) == 0 {
		return nil, nil
	}
	var req models.DomainResolutionRequest
	for _, name := range names {
		req.Domains = append(req.Domains, models.DomainResolutionRequestDomain{DomainName: &name})
	}
	return request(models.StepTypeDomainResolution, req)
}

func verifyVIPsStep(in Input) (*models.Step, error) {
	if in.Host.Inventory == nil {
		return nil, nil
	}
	var list models.VerifyVipsRequest
	for _, v := range in.Cluster.APIVips {
		list = append(list, &models.VerifyVip{Vip: v.IP, VipType: models.VipTypeAPI})
	}
	for _, v := range in.Cluster.IngressVips {
		list = append(list, &models.VerifyVip{Vip: v.IP, VipType: models.VipTypeIngress})
	}
	if len(list) == 0 {
		return nil, nil
	}
	return request(models.StepTypeVerifyVips, list)
}

// tangStep returns the step in which a host contacts the Tang servers of its disk encryption. For a
// joining host, they are in the ignition config that it gets from the cluster.
func tangStep(in Input) (*models.Step, error) {
	if in.Host.Day2() {
		joins := in.Host.JoinsEncrypted()
		if joins == nil || joins.Tang == "" {
			return nil, nil
		}
		return request(models.StepTypeTangConnectivityCheck, models.TangConnectivityRequest{TangServers: &joins.Tang})
	}
	if !validation.TangEncryption(in.Cluster, in.Host.Role()) {
		return nil, nil
	}
	return request(models.StepTypeTangConnectivityCheck,
		models.TangConnectivityRequest{TangServers: &in.Cluster.DiskEncryption.TangServers})
}

func apiConnectivityStep(in Input) (*models.Step, error) {
	e := in.Ignition
	if e.URL == "" {
		return nil, nil
	}
	req := models.APIVipConnectivityRequest{URL: &e.URL}
	if e.CACertificate != "" {
		req.CaCertificate = &e.CACertificate
	}
	if e.Token != "" {
		req.IgnitionEndpointToken = &e.Token
		req.RequestHeaders = []*models.APIVipConnectivityAdditionalRequestHeader{{Key: "Authorization",
			Value: "Bearer " + e.Token}}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		req.RequestHeaders = append(req.RequestHeaders, &models.APIVipConnectivityAdditionalRequestHeader{Key: name,
			Value: e.Headers[name]})
	}
	return request(models.StepTypeAPIVipConnectivityCheck, req)
}

// runsFromDisk reports whether a host runs the discovery system from its installation disk.
func runsFromDisk(h *inventory.Host) bool {
	return h.Inventory != nil && h.Inventory.Boot != nil &&
		h.Inventory.Boot.DeviceType == models.BootDeviceTypePersistent
}

// diskSpeedStep returns the step in which a host measures its installation disk once. The result is
// kept until it is reset.
func diskSpeedStep(in Input) (*models.Step, error) {
	path := in.Host.InstallationDiskPath()
	switch {
	case !DiskUnmeasured(in.Host):
		return nil, nil
	case path == "":
		return nil, fmt.Errorf("host %s has no installation disk whose speed could be measured", in.Host.Name())
	}
	step, err := request(models.StepTypeInstallationDiskSpeedCheck, models.DiskSpeedCheckRequest{Path: &path})
	if err != nil {
		return nil, err
	}
	step.Args = append(step.Args, strconv.FormatFloat(max(in.PreparationLimit, 8*time.Minute).Seconds(),
		'f', 2, 64))
	return step, nil
}

// DiskUnmeasured reports whether a host must still measure its installation disk. A disk whose
// content must be kept is never measured.
func DiskUnmeasured(h *inventory.Host) bool {
	info := h.Disks[h.InstallationDiskPath()]
	return !runsFromDisk(h) && !keepsPartitions(h.Record.InstallerArgs) && (info.DiskSpeed == nil ||
		!info.DiskSpeed.Tested || info.DiskSpeed.ExitCode != 0)
}

// imagesStep returns the step in which a host pulls the images of the installation that it has not
// pulled yet.
func imagesStep(in Input) (*models.Step, error) {
	var needed, missing []string
	for _, image := range []string{in.Images.Release, in.Images.MCO, in.Images.MustGather["ocp"], in.Images.Installer} {
		if image == "" || slices.Contains(needed, image) {
			continue
		}
		needed = append(needed, image)
		if _, tried := in.Host.Images[image]; !tried {
			missing = append(missing, image)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if in.Attempt > 1 {
		// An agent does not send a reply that equals its last one, so a repeated failure of the
		// same image would go unnoticed. Another order of the images changes the reply. An agent
		// does not pull an image that it already has.
		shift := in.Attempt % len(needed)
		missing = slices.Concat(needed[shift:], needed[:shift])
	}
	return request(models.StepTypeContainerImageAvailability, models.ContainerImageAvailabilityRequest{
		Images: missing, Timeout: int64(max(in.PreparationLimit, 16*time.Minute).Seconds()),
	})
}

// logsStep returns the step in which a host sends its logs once, after its installation failed.
func logsStep(in Input) (*models.Step, error) {
	if !time.Time(in.Host.Record.LogsCollectedAt).IsZero() {
		return nil, nil
	}
	r := in.Host.Record
	req := models.LogsGatherCmdRequest{
		ClusterID: r.ClusterID, HostID: r.ID, InfraEnvID: &r.InfraEnvID, Bootstrap: &r.Bootstrap, InstallerGather: true,
		MasterIps: []string{},
	}
	if r.Bootstrap {
		req.MasterIps = controlPlaneAddresses(in)
	}
	return request(models.StepTypeLogsGather, req)
}

// controlPlaneAddresses returns the addresses of the other control-plane hosts, whose logs the
// bootstrap host collects. It returns the address of each host in the machine network, or all
// addresses if that network is unknown.
func controlPlaneAddresses(in Input) []string {
	machines := network.MachineNetworks(in.Cluster)
	ips := []string{}
	for _, peer := range in.Peers {
		if peer.Record.Bootstrap || peer.ID() == in.Host.ID() || peer.Role() == models.HostRoleWorker ||
			peer.Inventory == nil {
			continue
		}
		if len(machines) > 0 {
			if ip, _, ok := network.AddressIn(machines[0], peer.Inventory); ok {
				ips = append(ips, ip.String())
			}
			continue
		}
		for _, nic := range peer.Inventory.Interfaces {
			for _, p := range inventory.Addresses(nic) {
				ips = append(ips, p.Addr().String())
			}
		}
	}
	return ips
}

func stopStep(Input) (*models.Step, error) {
	return &models.Step{StepType: models.StepTypeStopInstallation, Args: []string{}}, nil
}

func upgradeStep(in Input) (*models.Step, error) {
	return request(models.StepTypeUpgradeAgent, models.UpgradeAgentRequest{AgentImage: in.Images.Agent})
}

func (a BootArtifacts) mount() *string {
	m := a.HostMount
	if m == "" {
		m = hostMount
	}
	return &m
}

func bootArtifactsStep(in Input) (*models.Step, error) {
	a := in.BootArtifacts
	if a.Kernel == "" || a.Initrd == "" || a.Rootfs == "" {
		return nil, fmt.Errorf("host %s cannot be reclaimed: its boot artifacts are unknown", in.Host.Name())
	}
	return request(models.StepTypeDownloadBootArtifacts, models.DownloadBootArtifactsRequest{
		KernelURL: &a.Kernel, InitrdURL: &a.Initrd, RootfsURL: &a.Rootfs, HostFsMountDir: a.mount(),
	})
}

func reclaimStep(in Input) (*models.Step, error) {
	return request(models.StepTypeRebootForReclaim,
		models.RebootForReclaimRequest{HostFsMountDir: in.BootArtifacts.mount()})
}

// primaryNetwork returns the machine network from which the hosts of a cluster get their addresses.
// It is the first configured network, or else a network of the bootstrap host, preferably IPv4.
func primaryNetwork(in Input) (netip.Prefix, bool) {
	if machines := network.MachineNetworks(in.Cluster); len(machines) > 0 {
		return machines[0], true
	}
	for _, h := range append([]*inventory.Host{in.Host}, in.Peers...) {
		if h.Record.Bootstrap {
			if list := network.Networks(h.Inventory); len(list) > 0 {
				return list[0], true
			}
		}
	}
	return netip.Prefix{}, false
}
