package validation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

func platformOf(c *models.Cluster) models.PlatformType {
	if c == nil || c.Platform == nil || c.Platform.Type == nil {
		return ""
	}
	return *c.Platform.Type
}

// Manufacturers of the virtual machines of certain platforms, as in the firmware (SMBIOS).
const (
	vmware  = "VMware, Inc."
	nutanix = "Nutanix"
	// openStack is the product name of OpenStack's virtual machines.
	openStack = "OpenStack Compute"
)

func compatibleWithPlatform(c *hostContext) (Status, string) {
	if c.Cluster == nil {
		return Success, unbound
	}
	platform := platformOf(c.Cluster)
	switch {
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	case platform == "":
		return Pending, "Waiting for the cluster's platform."
	}
	want := map[models.PlatformType]string{models.PlatformTypeVsphere: vmware,
		models.PlatformTypeNutanix: nutanix}[platform]
	if want == "" || vendor(c.Host.Inventory) == want {
		return Success, fmt.Sprintf("The host fits the cluster's platform %s.", platform)
	}
	return Failure,
		fmt.Sprintf("The cluster's platform %s needs hosts of the manufacturer %q, not %q; remove the host or "+
			"change the platform.",
			platform, want, vendor(c.Host.Inventory))
}

func vendor(inv *models.Inventory) string {
	if inv == nil || inv.SystemVendor == nil {
		return ""
	}
	return inv.SystemVendor.Manufacturer
}

func vsphereDiskUUID(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case c.Host.Inventory == nil && platformOf(c.Cluster) == models.PlatformTypeVsphere:
		return Pending, waitInventory
	case vendor(c.Host.Inventory) != vmware:
		return Success, "Required on VMware vSphere only."
	}
	for _, d := range c.Host.Inventory.Disks {
		if d.InstallationEligibility.Eligible && !d.HasUUID {
			return Failure,
				fmt.Sprintf("Disk %s has no UUID; set disk.EnableUUID to TRUE in the virtual machine's settings and "+
					"restart it.", d.Name)
		}
	}
	return Success, "The disks of the virtual machine have UUIDs."
}

func diskEncryption(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case c.Host.Day2():
		return joinsEncrypted(c)
	case !encrypted(c.Cluster):
		return Success, "Disk encryption is not chosen."
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	}
	role := c.Host.Role()
	if role == models.HostRoleAutoAssign &&
		text(c.Cluster.DiskEncryption.EnableOn) != models.DiskEncryptionEnableOnAll {
		return Pending, "Waiting for the host's role, which decides whether its disk is encrypted."
	}
	if !encryptedFor(c.Cluster.DiskEncryption, role) {
		return Success, fmt.Sprintf("Disks are not encrypted on hosts of role %s.", role)
	}
	if text(c.Cluster.DiskEncryption.Mode) == models.DiskEncryptionModeTang {
		return tangReachable(c)
	}
	return hasTPM(c)
}

// joinsEncrypted validates the disk encryption in the ignition config that a joining host gets from
// its cluster.
func joinsEncrypted(c *hostContext) (Status, string) {
	joins := c.Host.JoinsEncrypted()
	switch {
	case joins == nil:
		return Success, "The ignition config that the host gets from its cluster does not encrypt the disk, or is " +
			"not available yet."
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	case joins.TPM:
		return hasTPM(c)
	case joins.Tang != "":
		return tangReachable(c)
	}
	return Failure, "The ignition config that the host gets from its cluster encrypts the disk with neither a TPM " +
		"nor Tang servers; correct the cluster's MachineConfig for disk encryption."
}

func hasTPM(c *hostContext) (Status, string) {
	switch version := c.Host.Inventory.TpmVersion; version {
	case models.InventoryTpmVersionNr20:
		return Success, "The host has a TPM 2.0 for the encryption of its disk."
	case models.InventoryTpmVersionNone, "":
		return Failure,
			"Disk encryption needs a TPM 2.0, which the host lacks; enable it in the firmware or use Tang " +
				"servers."
	default:
		return Failure,
			fmt.Sprintf("Disk encryption needs a TPM 2.0 and the host has version %s; use another host or Tang "+
				"servers.", version)
	}
}

func tangReachable(c *hostContext) (Status, string) {
	switch {
	case strings.Contains(c.Host.TangError, "failed to find action for step"):
		return Success, "The host's agent is too old to check the Tang servers."
	case c.Host.TangError != "":
		return Failure,
			fmt.Sprintf("The Tang servers could not be checked: %s. Check their addresses and that the host can reach "+
				"them.", oneLine(c.Host.TangError))
	case c.Host.Tang == nil:
		return Pending, "Waiting for the host to check the Tang servers."
	case c.Host.Tang.IsSuccess:
		return Success, "The host can reach the Tang servers."
	}
	return Failure, "The host cannot reach every Tang server; check their addresses, thumbprints and the network " +
		"between."
}

func compatibleAgent(c *hostContext) (Status, string) {
	have := c.Host.Record.DiscoveryAgentVersion
	switch {
	case c.AgentImage == "" || have == c.AgentImage:
		return Success, "The host runs the appliance's version of the agent."
	case c.Host.Stage() != "":
		return Success, "The agent is not replaced during the installation."
	}
	return Failure,
		fmt.Sprintf("The host runs agent %q instead of %q; the appliance replaces it, which takes a few minutes.",
			have, c.AgentImage)
}

func noSkipInstallationDisk(c *hostContext) (Status, string) {
	path := c.Host.InstallationDiskPath()
	if path != "" && slices.Contains(c.Host.SkipFormatting(), path) {
		return Failure,
			fmt.Sprintf("Disk %s is the installation disk and must not keep its contents; choose another "+
				"installation disk or allow it to be formatted.", path)
	}
	return Success, "The installation disk may be formatted."
}

func noSkipMissingDisk(c *hostContext) (Status, string) {
	if c.Host.Inventory == nil {
		return Pending, waitInventory
	}
	for _, id := range c.Host.SkipFormatting() {
		found := slices.ContainsFunc(c.Host.Inventory.Disks,
			func(d *models.Disk) bool { return inventory.DiskID(d) == id })
		if !found {
			return Failure,
				fmt.Sprintf("The host no longer has the disk %s, which must keep its contents; its id may have "+
					"changed, so choose the disks to keep again.", id)
		}
	}
	return Success, "The disks that must keep their contents are in the host."
}

// oneLine joins the lines of a program's output for use in a sentence.
func oneLine(s string) string {
	s = strings.TrimRight(strings.Join(strings.Fields(s), " "), ".")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// sentenceList joins the parts of an enumeration.
func sentenceList(parts []string) string { return oneLine(strings.Join(parts, "; ")) }
