package isogen

import "slices"

// Info is what there is to know of a base.
type Info struct {
	VolumeID        string              `json:"volume_id"`
	Version         string              `json:"version"`      // the CoreOS build, "" if it does not tell
	Architecture    string              `json:"architecture"` // "" if it does not tell
	Size            int64               `json:"size_bytes"`
	EmbedArea       EmbedArea           `json:"embed_area"`
	KernelArguments KernelArgumentAreas `json:"kernel_arguments"`
	Minimal         bool                `json:"minimal"`                  // whether Minimal can make images
	MinimalReason   string              `json:"minimal_reason,omitempty"` // why not
	NetworkBoot     bool                `json:"network_boot"`             // whether kernel, initrd and rootfs are there
	NetworkReason   string              `json:"network_boot_reason,omitempty"`
	// how machines boot it: "BIOS CD", "BIOS USB", "UEFI CD", "UEFI USB", …
	Boots []string `json:"boots"`
}

// EmbedArea is where a base keeps the payload.
type EmbedArea struct {
	File        string `json:"file"`        // the file that it lies in, "" if in none
	Offset      int64  `json:"offset"`      // in the ISO, bytes
	Length      int64  `json:"length"`      // bytes
	Relocatable bool   `json:"relocatable"` // whether a larger payload moves to the image's end
}

// KernelArgumentAreas is where a base keeps its kernel arguments.
type KernelArgumentAreas struct {
	Size    int64    `json:"size"`    // of each area, bytes; 0 if there are none
	Default string   `json:"default"` // the command line as published
	Files   []string `json:"files"`   // that hold an area
}

// public is what others may know of an area.
func (a area) public() EmbedArea {
	return EmbedArea{File: a.name, Offset: a.offset, Length: a.length, Relocatable: a.whole()}
}

// Info returns what there is to know of the base.
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

// missingForNetworkBoot says which of the files that machines load over the network is not there.
func (b *Base) missingForNetworkBoot() string {
	for _, names := range [][]string{{"vmlinuz", "kernel.img"}, {"initrd.img"}, {"rootfs.img"}} {
		if !slices.ContainsFunc(names, func(name string) bool { return b.volume.Find("images/pxeboot/"+name) != nil }) {
			return "there is no images/pxeboot/" + names[0] + " in it"
		}
	}
	return ""
}
