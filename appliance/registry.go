package appliance

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"

	"landfall/appliance/architecture"
	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/appliance/osimage"
	"landfall/appliance/registry"
	"landfall/appliance/sitekey"
	"landfall/web"
	webregistry "landfall/web/registry"
)

// openRegistry opens the appliance's registry. It returns nil if the configuration has none.
func (a *Appliance) openRegistry(ctx context.Context) (*webregistry.Server, error) {
	settings := a.config.Registry
	if err := settings.Check(a.config.TLS); err != nil || settings.Listen == "" {
		return nil, err
	}
	options := web.Options{Logger: a.log, ShutdownTimeout: a.config.Timeouts.Shutdown, Connections: a.inbound,
		Wrap: a.wrap(false)}
	if settings.TLS {
		options.TLS = a.line(web.PlainFromMachine, nil)
	}
	return webregistry.Open(ctx, webregistry.ServerOptions{
		Listen: settings.Listen, Name: settings.Name, URL: a.urls[0], Web: options,
		Roots:    a.transport.roots(),
		Registry: registry.Options{DB: a.db, Media: settings.Media, Clock: a.clock, Logger: a.log},
	})
}

// carriedReleases returns the releases on media that may be used, for the settings.
func (a *Appliance) carriedReleases() []engine.ReleaseImage {
	if a.registry == nil || a.policy == nil {
		return nil
	}
	var carried []engine.ReleaseImage
	for _, release := range a.registry.Releases() {
		known, err := a.policy.Known(release.Digest)
		if err != nil {
			a.log.Error("It is not known whether a release on a medium may be used.", "digest", release.Digest, "error",
				err)
		}
		if known {
			carried = append(carried, engine.ReleaseImage{OpenshiftVersion: release.Version,
				CPUArchitecture: architecture.Of(release.Architecture).API(), URL: release.PullSpec})
		}
	}
	return carried
}

// takeLiveISOs takes the live ISOs of the releases on media out of their payloads whenever the
// media change, unless the appliance has other ones for them, until the context ends.
func (a *Appliance) takeLiveISOs(ctx context.Context) error {
	for {
		next := a.registry.Changed()
		for _, release := range a.carriedReleases() {
			if a.images.CheckRelease(release.OpenshiftVersion, release.CPUArchitecture) == nil {
				continue
			}
			_, err := a.images.Fetch(osimage.Request{Release: release.URL, OpenshiftVersion: release.OpenshiftVersion,
				CPUArchitecture: cmp.Or(release.CPUArchitecture, "x86_64")})
			if _, exists := errors.AsType[*osimage.ContentError](err); err != nil && !exists {
				a.log.Error("The live ISO of a release on a medium can't be taken.", "release",
					release.OpenshiftVersion,
					"error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// registryPurpose is the purpose of the key from which the password for pulls is derived.
const registryPurpose sitekey.Purpose = "landfall registry pull"

// pullPassword is the password with which nodes pull from the registry.
func (a *Appliance) pullPassword() (string, error) {
	key, err := a.siteKey.Derive(registryPurpose)
	return base64.RawURLEncoding.EncodeToString(key), err
}

// completeSecret returns a pull secret with the credentials for the registry.
func (a *Appliance) completeSecret(secret string) (string, error) {
	password, err := a.pullPassword()
	if err != nil || a.registry == nil {
		return secret, err
	}
	return mirror.AddCredentials(secret, a.registry.Host(), webregistry.PullUser, password)
}
