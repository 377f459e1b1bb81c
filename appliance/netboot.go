package appliance

import (
	"context"
	"net"

	"landfall/appliance/engine"
	"landfall/isogen"
	"landfall/web/api"
	"landfall/web/image"
	"landfall/web/problem"
)

// The values of ipxe_script_type.
const (
	scriptAlways    = "discovery-image-always" // boots the discovery image whatever became of the host
	scriptBootOrder = "boot-order-control"     // lets a host that is installed go on to its disk
)

// Script implements image.Source. With boot-order-control a script only has the machine ask again
// with its MAC address; one that was installed is answered 404 then, at which iPXE goes on to the
// disk.
func (d *discoveryImages) Script(ctx context.Context, wanted image.Script) ([]byte, error) {
	if wanted.Type != "" && wanted.Type != scriptAlways && wanted.Type != scriptBootOrder {
		return nil, problem.BadRequest("ipxe_script_type is %q; expected %s or %s", wanted.Type, scriptAlways,
			scriptBootOrder)
	}
	recipe, err := d.recipe(ctx, wanted.InfraEnvID)
	if err != nil {
		return nil, err
	}
	if wanted.MAC != "" {
		mac, err := net.ParseMAC(wanted.MAC)
		if err != nil {
			return nil, problem.BadRequest("mac is %q; expected a MAC address such as 52:54:00:12:34:56", wanted.MAC)
		}
		if err := d.engine.CheckNetworkBoot(recipe.InfraEnvID, mac.String()); err != nil {
			return nil, api.Problem(err)
		}
	}
	script, err := d.script(recipe, wanted)
	if err != nil {
		return nil, problem.Conflict("infra-env %s can't be booted over the network: %s", recipe.Name, err)
	}
	return []byte(script), nil
}

func (d *discoveryImages) script(recipe *engine.Recipe, wanted image.Script) (string, error) {
	if wanted.Type == scriptBootOrder && wanted.MAC == "" && wanted.Format == image.IPXE {
		return isogen.IPXEChain(wanted.URL)
	}
	base, err := d.bases.find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	if err != nil {
		return "", err
	}
	if _, err := base.Kernel(); err != nil {
		return "", err
	}
	boot := networkBoot(recipe, wanted.Network)
	if wanted.Format == image.GRUB {
		return isogen.GRUBMenu("Discover this machine for "+recipe.Name, boot)
	}
	return isogen.IPXEScript(boot)
}

// networkBoot is where a machine fetches its live system from. The paths have no query: an
// ampersand would be taken apart by one boot loader or another.
func networkBoot(recipe *engine.Recipe, network image.Network) isogen.NetworkBoot {
	files := network.Boot + imagePath(recipe)
	return isogen.NetworkBoot{
		KernelURL: files + "kernel", InitrdURL: files + "initrd.img", RootfsURL: files + "rootfs.img",
		Arguments: kernelArguments(recipe),
	}
}
