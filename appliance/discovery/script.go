package discovery

import (
	"context"
	"net"

	"landfall/appliance/engine/recipe"
	"landfall/appliance/fault"
	"landfall/isogen"
)

// Values of the parameter ipxe_script_type.
const (
	scriptAlways    = "discovery-image-always" // boots the discovery image in every state of the host
	scriptBootOrder = "boot-order-control"     // an installed host boots from its disk
)

// Script returns the script for a boot loader. With boot-order-control, the first script makes the
// machine repeat the request with its MAC address. If the machine is installed, the second request
// returns an error of kind NotFound, after which iPXE boots from the disk.
func (i *Images) Script(ctx context.Context, request ScriptRequest) ([]byte, error) {
	if request.Type != "" && request.Type != scriptAlways && request.Type != scriptBootOrder {
		return nil, fault.New(fault.Invalid, "ipxe_script_type is %q; expected %s or %s", request.Type, scriptAlways,
			scriptBootOrder)
	}
	recipe, err := i.recipe(ctx, request.InfraEnvID)
	if err != nil {
		return nil, err
	}
	if request.MAC != "" {
		mac, err := net.ParseMAC(request.MAC)
		if err != nil {
			return nil, fault.New(fault.Invalid, "mac is %q; expected a MAC address such as 52:54:00:12:34:56",
				request.MAC)
		}
		if err := i.engine.CheckNetworkBoot(recipe.InfraEnvID, mac.String()); err != nil {
			return nil, err
		}
	}
	script, err := i.script(recipe, request)
	if err != nil {
		return nil, err
	}
	return []byte(script), nil
}

func (i *Images) script(recipe *recipe.Recipe, request ScriptRequest) (script string, err error) {
	unsupported := func(err error) error {
		return fault.New(fault.Conflict, "infra-env %s does not support network boot: %s", recipe.Name, err)
	}
	if request.Type == scriptBootOrder && request.MAC == "" && request.Format == IPXE {
		if script, err = isogen.IPXEChain(request.URL); err != nil {
			return "", unsupported(err)
		}
		return script, nil
	}
	base, err := i.bases.Find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	if err != nil {
		return "", err
	}
	if _, err := base.Kernel(); err != nil {
		return "", unsupported(err)
	}
	boot, err := i.networkBoot(recipe, request.Network)
	if err != nil {
		return "", err
	}
	if request.Format == GRUB {
		script, err = isogen.GRUBMenu("Discover this machine for "+recipe.Name, boot)
	} else {
		script, err = isogen.IPXEScript(boot)
	}
	if err != nil {
		return "", unsupported(err)
	}
	return script, nil
}

// networkBoot returns the URLs from which a machine downloads its live system. They have no query,
// because some boot loaders split URLs at an ampersand.
func (i *Images) networkBoot(recipe *recipe.Recipe, network Network) (isogen.NetworkBoot, error) {
	files := network.Boot + imagePath(recipe)
	secured, err := i.securedPath(recipe)
	return isogen.NetworkBoot{
		KernelURL: files + "kernel", InitrdURL: network.Boot + secured + "initrd.img", RootfsURL: files + "rootfs.img",
		Arguments: kernelArguments(recipe),
	}, err
}
