package steps

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
)

// installStep returns the install step. If the agent or the installer would reject the step, the
// function returns an error with a sentence for each fault. So no host starts an installation that
// cannot succeed.
func installStep(in Input) (*models.Step, error) {
	if err := checkInstall(in); err != nil {
		return nil, err
	}
	h, c, r := in.Host, in.Cluster, in.Host.Record
	role := h.Role()
	if r.Bootstrap {
		role = models.HostRoleBootstrap
	}
	device := h.BootDevice()
	day2 := h.Day2()
	args, err := installerArgs(in)
	if err != nil {
		return nil, err
	}
	checkCVO := true
	req := models.InstallCmdRequest{
		Role:                &role,
		ClusterID:           r.ClusterID,
		HostID:              r.ID,
		InfraEnvID:          &r.InfraEnvID,
		BootDevice:          &device,
		ControlPlaneCount:   c.ControlPlaneCount,
		InstallerImage:      &in.Images.Installer,
		ControllerImage:     &in.Images.Controller,
		CheckCvo:            &checkCVO,
		EnableSkipMcoReboot: skipsReboot(h, c),
		NotifyNumReboots:    true,
		Proxy:               proxy(c),
	}
	skipped := h.SkipFormatting()
	if len(args) > 0 {
		b, err := json.Marshal(args)
		if err != nil {
			return nil, fmt.Errorf("encode the arguments of coreos-installer: %w", err)
		}
		req.InstallerArgs = string(b)
		if keepsPartitions(req.InstallerArgs) {
			req.SkipInstallationDiskCleanup = true
			skipped = append(slices.Clone(skipped), h.InstallationDiskPath())
		}
	}
	req.DisksToFormat = slices.DeleteFunc(inventory.DisksToFormat(h.Inventory),
		func(id string) bool { return slices.Contains(skipped, id) })
	if runsFromDisk(h) {
		req.CoreosImage = in.coreOS()
	}
	if !day2 {
		req.McoImage = in.Images.MCO
		req.OpenshiftVersion = c.OpenshiftVersion
		if req.MustGatherImage, err = mustGather(in.Images.MustGather); err != nil {
			return nil, err
		}
	}
	return request(models.StepTypeInstall, req)
}

func checkInstall(in Input) error {
	h := in.Host
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch disk := h.InstallationDisk(); {
	case h.Inventory == nil:
		fault("host %s cannot be installed: its inventory is missing", h.Name())
	case disk == nil:
		fault("host %s cannot be installed: the host lacks its installation disk %q", h.Name(),
			h.InstallationDiskPath())
	case !strings.HasPrefix(h.BootDevice(), "/dev/"):
		fault("host %s cannot be installed: its installation disk %q is not a path below /dev", h.Name(),
			h.InstallationDiskPath())
	}
	switch h.Role() {
	case models.HostRoleMaster, models.HostRoleWorker, models.HostRoleArbiter:
	default:
		fault("host %s cannot be installed: it has no role", h.Name())
	}
	for _, image := range []struct{ name, spec string }{{"installer", in.Images.Installer},
		{"controller", in.Images.Controller}} {
		if image.spec == "" {
			fault("host %s cannot be installed: the release has no %s image", h.Name(), image.name)
		}
	}
	if !h.Day2() && in.Images.MCO == "" {
		fault("host %s cannot be installed: the release has no machine-config-operator image", h.Name())
	}
	if runsFromDisk(h) && in.coreOS() == "" {
		fault("host %s cannot be installed: it runs from its disk, and the release's CoreOS image is unknown",
			h.Name())
	}
	return errors.Join(faults...)
}

// coreOS returns the operating system image for a host that runs from its disk.
func (in Input) coreOS() string {
	if in.Host.Day2() {
		return cmp.Or(in.Host.JoinsCoreOS(), in.Images.CoreOS)
	}
	return in.Images.CoreOS
}

// skipsReboot reports whether the first boot may be the final one. That requires OpenShift 4.15,
// and does not work on mainframes and device mapper disks.
func skipsReboot(h *inventory.Host, c *models.Cluster) bool {
	disk := h.InstallationDisk()
	mapped := disk != nil && strings.HasPrefix(strings.TrimPrefix(disk.Path, "/dev/"), "dm-")
	return inventory.AtLeast(c.OpenshiftVersion, 4, 15) && c.CPUArchitecture != models.ClusterCPUArchitectureS390x &&
		!mapped
}

// mustGather returns the must-gather images: a pull spec if there is only OpenShift's own, or else
// a JSON map.
func mustGather(images map[string]string) (string, error) {
	if len(images) == 0 {
		return "", nil
	}
	if only := images["ocp"]; len(images) == 1 && only != "" {
		return only, nil
	}
	b, err := json.Marshal(images)
	if err != nil {
		return "", fmt.Errorf("encode the must-gather images: %w", err)
	}
	return string(b), nil
}

// proxy returns the proxy for the installer on the host, or nil. The cluster itself is always
// reached without a proxy.
func proxy(c *models.Cluster) *models.Proxy {
	if c.HTTPProxy == "" && c.HTTPSProxy == "" {
		return nil
	}
	p := &models.Proxy{}
	if c.HTTPProxy != "" {
		p.HTTPProxy = &c.HTTPProxy
	}
	if c.HTTPSProxy != "" {
		p.HTTPSProxy = &c.HTTPSProxy
	}
	direct := strings.TrimSpace(c.NoProxy)
	if direct != "*" {
		var list []string
		if direct != "" {
			list = strings.Split(direct, ",")
		}
		for _, name := range []string{"127.0.0.1", "localhost", ".svc", ".cluster.local",
			"api-int." + c.Name + "." + c.BaseDNSDomain} {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		direct = strings.Join(list, ",")
	}
	p.NoProxy = &direct
	return p
}

// keepsPartitions reports whether arguments of coreos-installer keep partitions of the installation
// disk.
func keepsPartitions(args string) bool {
	return strings.Contains(args, "--save-partlabel") || strings.Contains(args, "--save-partindex")
}

// installerArgs returns the arguments of coreos-installer: the arguments in the host's description,
// and the arguments for the first boot with its disk and network.
func installerArgs(in Input) ([]string, error) {
	var args []string
	if given := in.Host.Record.InstallerArgs; given != "" {
		if err := json.Unmarshal([]byte(given), &args); err != nil {
			return nil, fmt.Errorf("the installer arguments of host %s are not a JSON list of strings: %w",
				in.Host.Name(), err)
		}
	}
	ownIP := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "ip=") })
	primary, known := primaryNetwork(in)
	args, err := diskArgs(args, in.Host, !ownIP && (known || !in.Host.Day2()))
	if err != nil {
		return nil, err
	}
	switch static := in.InfraEnv != nil && in.InfraEnv.StaticNetworkConfig != ""; {
	case static && !slices.Contains(args, "--copy-network"):
		return append(args, "--copy-network"), nil
	case static || ownIP:
		return args, nil
	case !known && in.Host.Day2():
		return args, nil
	case !known:
		return nil, fmt.Errorf("host %s cannot be installed: the machine network of the cluster is unknown",
			in.Host.Name())
	}
	method := dhcpMethod(primary.Addr().Is6(), network.DualStack(in.Cluster))
	for _, nic := range in.Host.Inventory.Interfaces {
		if slices.ContainsFunc(inventory.Addresses(nic),
			func(p netip.Prefix) bool { return primary.Contains(p.Addr()) }) {
			args = withKernelArg(args, dhcpArg(nic, method))
		}
	}
	return args, nil
}

// diskArgs adds the kernel arguments for a first boot from RAID, multipath and iSCSI disks.
func diskArgs(args []string, h *inventory.Host, dhcp bool) ([]string, error) {
	disk := h.InstallationDisk()
	var err error
	switch disk.DriveType {
	case models.DriveTypeRAID:
		args = withKernelArg(withKernelArg(args, "rd.md=1"), "rd.auto=1")
	case models.DriveTypeISCSI:
		args, err = iscsiArgs(args, disk, h, dhcp)
	case models.DriveTypeMultipath:
		args = withKernelArg(withKernelArg(args, "rw"), "rd.multipath=default")
		for _, path := range inventory.PathsOf(disk, h.Inventory) {
			if path.DriveType == models.DriveTypeISCSI && err == nil {
				args, err = iscsiArgs(args, path, h, dhcp)
			}
		}
	}
	return args, err
}

func iscsiArgs(args []string, disk *models.Disk, h *inventory.Host, dhcp bool) ([]string, error) {
	args = withKernelArg(args, "rd.iscsi.firmware=1")
	if !dhcp {
		return args, nil
	}
	if disk.Iscsi == nil {
		return nil, fmt.Errorf("host %s cannot be installed: its address for iSCSI disk %s is unknown",
			h.Name(), disk.Name)
	}
	ip, err := netip.ParseAddr(disk.Iscsi.HostIPAddress)
	if err != nil {
		return nil, fmt.Errorf("host %s cannot be installed: its iSCSI address %q is not an IP address", h.Name(),
			disk.Iscsi.HostIPAddress)
	}
	for _, nic := range h.Inventory.Interfaces {
		if slices.ContainsFunc(inventory.Addresses(nic), func(p netip.Prefix) bool { return p.Addr() == ip }) {
			return withKernelArg(args, dhcpArg(nic, dhcpMethod(ip.Is6(), false))), nil
		}
	}
	return nil, fmt.Errorf("host %s cannot be installed: no interface has its iSCSI address %s", h.Name(), ip)
}

func dhcpMethod(v6, dual bool) string {
	switch {
	case dual:
		return "dhcp,dhcp6"
	case v6:
		return "dhcp6"
	}
	return "dhcp"
}

// dhcpArg returns the kernel argument that configures an interface by its MAC address
// (dracut.cmdline(7)).
func dhcpArg(nic *models.Interface, method string) string {
	return "ip=" + strings.ReplaceAll(nic.MacAddress, ":", "-") + ":" + method
}

func withKernelArg(args []string, arg string) []string {
	if slices.Contains(args, arg) {
		return args
	}
	return append(args, "--append-karg", arg)
}
