package discovery

import (
	"context"
	"net/netip"

	"landfall/isogen"
)

// At returns the network of an address of this machine: the one with a URL that contains the
// address, or else the preferred one.
func (n Networks) At(address netip.Addr) Network { return n[n.Index(hostOf(address))] }

func hostOf(address netip.Addr) string {
	if address.Is6() {
		return "[" + address.String() + "]"
	}
	return address.String()
}

// NetworkBoot returns the URLs for network boot of an infra-env's image from an address of this
// machine, or the reason why network boot is impossible.
func (i *Images) NetworkBoot(ctx context.Context, infraEnvID string, at netip.Addr) (BootURLs, error) {
	recipe, err := i.recipe(ctx, infraEnvID)
	if err != nil {
		return BootURLs{}, err
	}
	code, _, err := i.engine.CodeOfImage(infraEnvID)
	if err != nil {
		return BootURLs{}, err
	}
	return i.describeNetworkBoot(ctx, recipe, i.networks.At(at), code), nil
}

// BootMenu returns the menu of GRUB with which a machine boots an infra-env's image from an address
// of this machine. For a machine that is installed, it returns an error of kind NotFound.
func (i *Images) BootMenu(ctx context.Context, infraEnvID, mac string, at netip.Addr) ([]byte, error) {
	return i.Script(ctx, ScriptRequest{InfraEnvID: infraEnvID, Format: GRUB, Type: scriptBootOrder, MAC: mac,
		Network: i.networks.At(at)})
}

// BootLoaders returns the boot loaders of UEFI for an infra-env's image.
func (i *Images) BootLoaders(ctx context.Context, infraEnvID string) (*isogen.BootLoaders, error) {
	recipe, err := i.recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	base, err := i.bases.Find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	if err != nil {
		return nil, err
	}
	loaders, err := base.BootLoaders()
	if err != nil {
		return nil, classify(err)
	}
	return loaders, nil
}
