package isogen

import "slices"

// Info describes a base.
type Info struct {
	VolumeID        string              `json:"volume_id"`
	Version         string              `json:"version"`      // the CoreOS build, "" if unknown
	Architecture    string              `json:"architecture"` // "" if unknown
	Size            int64               `json:"size_bytes"`
	EmbedArea       EmbedArea           `json:"embed_area"`
	KernelArguments KernelArgumentAreas `json:"kernel_arguments"`
	Minimal         bool                `json:"minimal"`                  // Minimal can generate images
	MinimalReason   string              `json:"minimal_reason,omitempty"` // reason why Minimal cannot
	NetworkBoot     bool                `json:"network_boot"`             // the base has kernel, initrd and rootfs
	NetworkReason   string              `json:"network_boot_reason,omitempty"`
	// Boots lists the methods by which machines can boot the base: "BIOS CD", "BIOS USB", "UEFI
	// CD", "UEFI USB", …
	Boots []string `json:"boots"`
}

// EmbedArea is the space for the payload in a base.
type EmbedArea struct {
	File        string `json:"file"`        // the file that contains the area, "" if there is none
	Offset      int64  `json:"offset"`      // offset in the ISO in bytes
	Length      int64  `json:"length"`      // bytes
	Relocatable bool   `json:"relocatable"` // a larger payload is placed at the end of the image
}

// KernelArgumentAreas is the space for kernel arguments in a base.
type KernelArgumentAreas struct {
	Size    int64    `json:"size"`    // size of each area in bytes; 0 if the base has none
	Default string   `json:"default"` // command line as published
	Files   []string `json:"files"`   // files that contain an area
}

// public returns the exported form of an area.
func (a area) public() EmbedArea {
	return EmbedArea{File: a.name, Offset: a.offset, Length: a.length, Relocatable: a.whole()}
}

// Info returns the description of the base.
func (b *Base) Info() Info {
	info := Info{
		VolumeID:     b.volumeID,
		Version:      b.Version(),
		Architecture: b.architecture,
		Size:         b.size,
		EmbedArea:    b.area.public(),
		Boots:        b.boots,
	}
	if k := b.kargs; k != nil {
		info.KernelArguments = KernelArgumentAreas{Size: k.size, Default: k.standard}
		for _, a := range k.list {
			info.KernelArguments.Files = append(info.KernelArguments.Files, a.file)
		}
	}
	info.MinimalReason = b.cannotMinimal()
	info.Minimal = info.MinimalReason == ""
	info.NetworkReason = b.missingForNetworkBoot()
	info.NetworkBoot = info.NetworkReason == ""
	return info
}

// missingForNetworkBoot returns a sentence about the first missing file for network boot, or "".
func (b *Base) missingForNetworkBoot() string {
	for _, names := range [][]string{{"vmlinuz", "kernel.img"}, {"initrd.img"}, {"rootfs.img"}} {
		if !slices.ContainsFunc(names, func(name string) bool { return b.volume.Find("images/pxeboot/"+name) != nil }) {
			return "the ISO does not contain images/pxeboot/" + names[0]
		}
	}
	return ""
}
