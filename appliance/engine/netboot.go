package engine

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-openapi/swag"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/ignition"
	"landfall/store"
)

// The kinds of iPXE scripts, the API's ipxe_script_type.
const (
	// AlwaysDiscovery boots the discovery image whenever a machine asks.
	AlwaysDiscovery = "discovery-image-always"
	// BootOrderControl lets a machine ask again with its MAC address, and go on to its disk when that was installed.
	BootOrderControl = "boot-order-control"
)

// BootLinks are where a machine that boots over the network fetches what it needs.
type BootLinks struct {
	Kernel, Initrd, Rootfs string
	Script                 string // the script itself, which the MAC address is put to as one more parameter
}

// BootLinks returns the links of an infra-env below a base URL: the appliance's own, or that of another of its networks.
func (e *Engine) BootLinks(env *models.InfraEnv, base string) BootLinks {
	of := url.Values{"version": {env.OpenshiftVersion}, "arch": {env.CPUArchitecture}}.Encode()
	return BootLinks{
		Kernel: base + "/boot-artifacts/kernel?" + of,
		Rootfs: base + "/boot-artifacts/rootfs?" + of,
		Initrd: base + "/images/" + env.ID.String() + "/pxe-initrd?" + of,
		Script: base + apiRoot + "/infra-envs/" + env.ID.String() + "/downloads/files?file_name=ipxe-script",
	}
}

// IPXEScript returns the script by which a machine with iPXE boots the discovery image of an infra-env. A machine that
// names a MAC address gets an [Error] of kind NotFound when it has been installed, so that it goes on to its disk; one that
// doesn't is sent to ask again with it, if the kind is BootOrderControl.
func (e *Engine) IPXEScript(ctx context.Context, infraEnvID, kind, mac string, links BootLinks) ([]byte, error) {
	recipe, err := e.Recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	switch {
	case mac != "":
		if err := e.CheckNetworkBoot(infraEnvID, mac); err != nil {
			return nil, err
		}
	case kind == BootOrderControl:
		join := "?"
		if strings.Contains(links.Script, "?") {
			join = "&"
		}
		return fmt.Appendf(nil, "#!ipxe\nchain %s%smac=${net0/mac}\n", links.Script, join), nil
	}
	return fmt.Appendf(nil, "#!ipxe\ninitrd --name initrd %s\nkernel %s initrd=initrd %s\nboot\n",
		links.Initrd, links.Kernel, recipe.CommandLine(links.Rootfs)), nil
}

// networkBoot is the command line of a live system that was fetched over the network: the Assisted Installer's.
const networkBoot = `random.trust_cpu=on rd.luks.options=discard ignition.firstboot ignition.platform.id=metal ` +
	`console=tty1 console=ttyS1,115200n8 coreos.inst.persistent-kargs="console=tty1 console=ttyS1,115200n8"`

// CommandLine returns the kernel's command line for network boot: where the rest of the system is fetched, what all such
// systems need, and the recipe's own edits, deletions first, then what is appended, then replacements.
func (r *Recipe) CommandLine(rootfs string) string {
	line := " coreos.live.rootfs_url=" + rootfs + " " + networkBoot + " "
	each := func(operation string, edit func(value string)) {
		for _, argument := range r.KernelArguments {
			if argument.Operation == operation {
				edit(argument.Value)
			}
		}
	}
	each(models.KernelArgumentOperationDelete, func(value string) { line = strings.ReplaceAll(line, " "+value+" ", " ") })
	each(models.KernelArgumentOperationAppend, func(value string) { line += value + " " })
	each(models.KernelArgumentOperationReplace, func(value string) {
		if parts := replacement.FindStringSubmatch(value); parts != nil {
			line = strings.ReplaceAll(line, " "+parts[1]+"="+parts[2]+" ", " "+parts[1]+"="+parts[3]+" ")
		}
	})
	return strings.TrimSpace(line)
}

// replacement is the value of a kernel argument that replaces another: key=old=new.
var replacement = regexp.MustCompile(`^([^=]+)=([^=]+)=([^=]+)$`)

// CheckNetworkBoot refuses with kind NotFound to boot the discovery image on a machine of an infra-env that was installed
// and is to start from its disk. A machine that isn't known yet may boot it.
func (e *Engine) CheckNetworkBoot(infraEnvID, mac string) error {
	return e.DB.View(func(tx *store.Tx) error {
		return hostRows.Each(tx, infraEnvID+"/", func(key string, h *hostRecord) error {
			if !startsFromDisk(h) {
				return nil
			}
			reports, err := loadReports(tx, key)
			if err != nil {
				return err
			}
			facts, err := inventory.Parse(reports)
			if err != nil || facts.Inventory == nil || !hasCard(facts.Inventory, mac) {
				return err
			}
			return notFound("The host %s with the MAC address %s starts from its disk: it is %s.", h.API.ID, mac, *h.API.Status)
		})
	})
}

func hasCard(inv *models.Inventory, mac string) bool {
	return slices.ContainsFunc(inv.Interfaces, func(nic *models.Interface) bool { return strings.EqualFold(nic.MacAddress, mac) })
}

// startsFromDisk tells whether a host's disk holds the installed system.
func startsFromDisk(h *hostRecord) bool {
	switch swag.StringValue(h.API.Status) {
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster, models.HostStatusInstallingPendingUserAction:
		return true
	case models.HostStatusInstallingInProgress:
		return h.API.Progress != nil && slices.Contains([]models.HostStage{
			models.HostStageRebooting, models.HostStageConfiguring, models.HostStageWaitingForIgnition, models.HostStageJoined, models.HostStageDone,
		}, h.API.Progress.CurrentStage)
	}
	return false
}

// StaticNetworkFiles returns the static network of an infra-env's machines as the Assisted Installer lays it out, with paths
// relative to the root; none if they all use DHCP.
func (e *Engine) StaticNetworkFiles(infraEnvID string) ([]ignition.File, error) {
	row, err := e.infraEnvRow(infraEnvID)
	if err != nil {
		return nil, err
	}
	config, err := e.discoveryConfig(row, "")
	if err != nil || len(config.StaticNetwork) == 0 {
		return nil, err
	}
	files, err := ignition.NetworkFiles(config.StaticNetwork, config.OpenshiftVersion)
	if err != nil {
		return nil, &Error{Kind: Invalid, Reason: sentence(err), Err: err}
	}
	return files, nil
}
