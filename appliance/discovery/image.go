// Package discovery makes the discovery images of infra-envs from their recipes and the base ISOs,
// and everything with which machines boot them: kernel, initial RAM disk and boot loader scripts
// for network boot, short URLs for virtual media, and signed download links.
//
// The engine freezes the recipe of an infra-env with each change of it (package engine/recipe).
// Package web/image serves the images by HTTP.
//
//	images.go    makes images and keeps the latest ones
//	check.go     checks recipes against the base ISOs
//	script.go    boot loader scripts
//	digests.go   computes the digests of images in the background
//	describe.go  describes images and their URLs for people
//	network.go   the networks of the site, and the listener for images and boot files
//
// Design: docs/design.md#images-as-lists-of-extents.
package discovery

import (
	"time"

	"landfall/isogen"
)

// Kind is a kind of download.
type Kind string

// Kinds of downloads of an infra-env. Kernel, RootFS and InsFile depend on its base ISO alone.
const (
	Full           Kind = "full"    // boots without fetching anything else
	Minimal        Kind = "minimal" // fetches its rootfs
	Config         Kind = "config"  // has only the discovery config
	Initrd         Kind = "initrd"  // initial RAM disk with the config, for network boot
	InitrdAddrSize Kind = "initrd.addrsize"
	Kernel         Kind = "kernel"
	RootFS         Kind = "rootfs"
	InsFile        Kind = "ins-file"
)

// Image is an image or a boot file. It never changes.
type Image struct {
	*isogen.Image
	InfraEnvID string // "" if it depends on the base ISO alone
	Kind       Kind
	FileName   string
	Modified   time.Time // time of the last change of its recipe
	// Digest returns the SHA-256 in hex, or "" while it is unknown. With compute, an unknown digest
	// is computed in the background.
	Digest func(compute bool) string
}

// ScriptRequest is a boot loader's request for its script.
type ScriptRequest struct {
	InfraEnvID string
	Format     ScriptFormat
	// Type is the parameter ipxe_script_type of the request; "" means ScriptAlways.
	Type    string
	MAC     string // of the machine, in its second request
	Network Network
	URL     string // of the request, without query: a script may send the machine back to it
}

// ScriptFormat is the language of a boot loader.
type ScriptFormat string

// Boot loaders.
const (
	IPXE ScriptFormat = "ipxe"
	GRUB ScriptFormat = "grub"
)
