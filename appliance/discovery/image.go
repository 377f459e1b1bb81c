// Package discovery builds the discovery images of infra-envs from their recipes and the base ISOs.
// It also provides the means to boot them: kernel, initial RAM disk and boot loader scripts for
// network boot, short URLs for virtual media, and signed download links.
//
// The engine updates the recipe of an infra-env with each change (package engine/recipe).
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

// Kinds of downloads of an infra-env. Kernel, RootFS and InsFile depend only on the base ISO.
const (
	Full           Kind = "full"    // boots without further downloads
	Minimal        Kind = "minimal" // downloads its rootfs at boot
	Config         Kind = "config"  // contains only the discovery config
	Initrd         Kind = "initrd"  // initial RAM disk with the config, for network boot
	InitrdAddrSize Kind = "initrd.addrsize"
	Kernel         Kind = "kernel"
	RootFS         Kind = "rootfs"
	InsFile        Kind = "ins-file"
)

// Image is an image or a boot file. It is immutable.
type Image struct {
	*isogen.Image
	InfraEnvID string // "" if it depends only on the base ISO
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
	MAC     string // of the machine; only in its second request
	Network Network
	URL     string // of the request, without query; a script may redirect the machine to it
}

// ScriptFormat is the script language of a boot loader.
type ScriptFormat string

// Boot loaders.
const (
	IPXE ScriptFormat = "ipxe"
	GRUB ScriptFormat = "grub"
)
