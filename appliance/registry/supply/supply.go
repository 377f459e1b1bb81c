// Package supply gives a site what the media of its registry hold: releases, their live ISOs, and
// the credentials for pulls.
package supply

import (
	"encoding/base64"
	"errors"
	"log/slog"

	"landfall/appliance/architecture"
	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/appliance/osimage"
	"landfall/appliance/registry"
	"landfall/appliance/sitekey"
)

// PullUser is the user in the pull secrets of nodes. It may pull, and nothing else.
const PullUser = "landfall-pull"

// purpose is the purpose of the key from which the password of PullUser is derived.
const purpose sitekey.Purpose = "landfall registry pull"

// Password returns the password of [PullUser].
func Password(key *sitekey.Key) (string, error) {
	derived, err := key.Derive(purpose)
	return base64.RawURLEncoding.EncodeToString(derived), err
}

// Complete returns a pull secret with the credentials for the registry at host:port. The given
// secret may be "". Without a host, the secret is unchanged.
func Complete(secret, host string, key *sitekey.Key) (string, error) {
	if host == "" {
		return secret, nil
	}
	password, err := Password(key)
	if err != nil {
		return "", err
	}
	return mirror.AddCredentials(secret, host, PullUser, password)
}

// Releases returns those of the releases on media that may be used, according to known.
func Releases(on []registry.Release, known func(digest string) (bool, error), log *slog.Logger) []engine.ReleaseImage {
	var usable []engine.ReleaseImage
	for _, release := range on {
		ok, err := known(release.Digest)
		if err != nil {
			log.Error("It is not known whether a release on a medium may be used.", "digest", release.Digest, "error",
				err)
		}
		if ok {
			usable = append(usable, engine.ReleaseImage{OpenshiftVersion: release.Version,
				CPUArchitecture: architecture.Of(release.Architecture).API(), URL: release.PullSpec})
		}
	}
	return usable
}

// Images is the library of live ISOs. *osimage.Library implements it.
type Images interface {
	CheckRelease(openshiftVersion, arch string) error
	Fetch(osimage.Request) (osimage.Image, error)
}

// TakeLiveISOs takes the live ISOs of releases on media out of their payloads, unless the appliance
// has other ones for them.
func TakeLiveISOs(releases []engine.ReleaseImage, images Images, log *slog.Logger) {
	for _, release := range releases {
		if images.CheckRelease(release.OpenshiftVersion, release.CPUArchitecture) == nil {
			continue
		}
		arch := release.CPUArchitecture
		if arch == "" || arch == architecture.Multi.API() { // one live ISO is of one architecture
			arch = architecture.X86.API()
		}
		_, err := images.Fetch(osimage.Request{Release: release.URL, OpenshiftVersion: release.OpenshiftVersion,
			CPUArchitecture: arch, Unattended: true})
		if _, exists := errors.AsType[*osimage.ContentError](err); err != nil && !exists {
			log.Error("The live ISO of a release on a medium can't be taken.", "release", release.OpenshiftVersion,
				"error", err)
		}
	}
}
