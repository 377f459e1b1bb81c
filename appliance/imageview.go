package appliance

import (
	"context"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/web/api"
	"landfall/web/console"
	"landfall/web/image"
	"landfall/web/image/telescope"
)

// Image describes an infra-env's images and the ways to boot them. Digests are computed in the
// background and empty until they are there.
func (v view) Image(ctx context.Context, infraEnvID string) (*console.Image, error) {
	a := v.appliance
	recipe, err := v.images.recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	network := a.networks[0]
	own, err := v.images.Image(ctx, infraEnvID, "", network)
	if err != nil {
		return nil, err
	}
	full := v.kind(ctx, recipe, image.Full)
	minimal := v.kind(ctx, recipe, image.Minimal)
	described := &console.Image{
		URL: network.URL + imagePath(recipe) + string(own.Kind) + ".iso", FileName: own.FileName, SizeBytes: own.Size(),
		SHA256: own.Digest(true),
		ETag:   own.ETag(), Type: string(recipe.Type), Revision: recipe.Digest, Modified: recipe.Modified, Full: full,
		Minimal:        minimal,
		ConfigImageURL: network.URL + "/config/" + infraEnvID + ".iso",
	}
	code, expires, err := a.engine.CodeOfImage(infraEnvID)
	if err != nil {
		return nil, api.Problem(err)
	}
	short := a.shortURL(network, code, expires)
	described.ShortURL, described.ShortExpires = short.URL, short.Expires
	for _, network := range a.networks {
		addresses := console.NetworkAddresses{URL: network.URL, Short: a.shortURL(network, code, expires).URL}
		if full.URL != "" {
			addresses.Full = network.URL + imagePath(recipe) + "full.iso"
		}
		if minimal.URL != "" {
			addresses.Minimal = network.URL + imagePath(recipe) + "minimal.iso"
		}
		described.URLs = append(described.URLs, addresses)
	}
	described.NetworkBoot = v.networkBoot(ctx, recipe, network)
	return described, nil
}

// kind describes one kind of an infra-env's image.
func (v view) kind(ctx context.Context, recipe *engine.Recipe, kind image.Kind) console.ImageKind {
	network := v.appliance.networks[0]
	made, err := v.images.Image(ctx, recipe.InfraEnvID, kind, network)
	if err != nil {
		return console.ImageKind{Reason: err.Error()}
	}
	return console.ImageKind{
		URL: network.URL + imagePath(recipe) + string(kind) + ".iso", SizeBytes: made.Size(), ETag: made.ETag(),
		SHA256: made.Digest(true),
	}
}

func (v view) networkBoot(ctx context.Context, recipe *engine.Recipe, network image.Network) console.NetworkBoot {
	script, err := v.images.Script(ctx, image.Script{InfraEnvID: recipe.InfraEnvID, Format: image.IPXE,
		Type: scriptAlways, Network: network})
	if err != nil {
		return console.NetworkBoot{Reason: err.Error()}
	}
	boot := networkBoot(recipe, network)
	arguments, err := boot.CommandLine()
	if err != nil {
		return console.NetworkBoot{Reason: err.Error()}
	}
	return console.NetworkBoot{
		IPXEURL: network.Boot + "/ipxe/" + recipe.InfraEnvID, IPXEScript: string(script), KernelURL: boot.KernelURL,
		InitrdURL: boot.InitrdURL,
		RootFSURL: boot.RootfsURL, KernelArguments: arguments, GRUBURL: network.Boot + "/grub/" + recipe.InfraEnvID +
			"/grub.cfg",
		HTTPBootURL: network.Boot + imagePath(recipe) + string(kindOf(recipe.Type)) + ".iso",
	}
}

// Reads tells who has read an infra-env's images.
func (v view) Reads(_ context.Context, infraEnvID string) ([]telescope.Report, error) {
	hosts, err := v.appliance.engine.Hosts(infraEnvID)
	if err != nil {
		return nil, api.Problem(err)
	}
	return v.appliance.telescope.Reads(infraEnvID, registered(hosts)...), nil
}

// registered returns when hosts registered, the last time they did.
func registered(hosts []*models.Host) []time.Time {
	times := make([]time.Time, 0, len(hosts))
	for _, host := range hosts {
		at := time.Time(host.CreatedAt)
		if again := time.Time(host.RegisteredAt); again.After(at) {
			at = again
		}
		times = append(times, at)
	}
	return times
}

// RenewShortURL gives an infra-env another short URL.
func (v view) RenewShortURL(ctx context.Context, infraEnvID string, valid time.Duration) (*console.ShortURL, error) {
	code, expires, err := v.appliance.engine.RenewImageCode(ctx, infraEnvID, valid)
	if err != nil {
		return nil, api.Problem(err)
	}
	v.appliance.downloads.Recall(infraEnvID)
	short := v.appliance.shortURL(v.appliance.networks[0], code, expires)
	return &short, nil
}

// RevokeShortURL has an infra-env's short URL lead nowhere.
func (v view) RevokeShortURL(ctx context.Context, infraEnvID string) error {
	if err := v.appliance.engine.RevokeImageCode(ctx, infraEnvID); err != nil {
		return api.Problem(err)
	}
	v.appliance.downloads.Recall(infraEnvID)
	return nil
}

// shortURL is an infra-env's address for virtual media on a network, empty without a code.
func (a *Appliance) shortURL(network image.Network, code string, expires time.Time) console.ShortURL {
	if code == "" {
		return console.ShortURL{}
	}
	short := console.ShortURL{URL: network.Boot + "/i/" + strings.ToLower(code) + ".iso"}
	if !expires.IsZero() {
		short.Expires = &expires
	}
	return short
}
