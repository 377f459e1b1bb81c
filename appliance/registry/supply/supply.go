// Package supply gives a site what the media of its registry hold: releases, their live ISOs, and
// the credentials for pulls.
package supply

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"slices"

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
// has other ones for them. carried returns the architectures that a medium has of a release for
// several of them. The ISO of one architecture is taken; a person imports those of others.
func TakeLiveISOs(releases []engine.ReleaseImage, carried func(pullSpec string) []architecture.Architecture,
	images Images, log *slog.Logger) {
	for _, release := range releases {
		candidates := []string{release.CPUArchitecture}
		if release.CPUArchitecture == "" || release.CPUArchitecture == architecture.Multi.API() {
			candidates = byPreference(carried(release.URL))
		}
		if slices.ContainsFunc(candidates, func(arch string) bool {
			return images.CheckRelease(release.OpenshiftVersion, arch) == nil
		}) {
			continue
		}
		_, err := images.Fetch(osimage.Request{Release: release.URL, OpenshiftVersion: release.OpenshiftVersion,
			CPUArchitecture: candidates[0], Unattended: true})
		if _, exists := errors.AsType[*osimage.ContentError](err); err != nil && !exists {
			log.Error("The live ISO of a release on a medium can't be taken.", "release", release.OpenshiftVersion,
				"error", err)
		}
	}
}

// byPreference returns those of the architectures that hosts may have, the most frequent first. If
// nothing is known, it is x86_64.
func byPreference(carried []architecture.Architecture) (names []string) {
	for _, one := range []architecture.Architecture{architecture.X86, architecture.ARM, architecture.Power,
		architecture.Z} {
		if slices.Contains(carried, one) {
			names = append(names, one.API())
		}
	}
	if names == nil {
		names = []string{architecture.X86.API()}
	}
	return names
}
