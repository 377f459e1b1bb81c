package isogen

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
	Boots           []string            `json:"boots"` // how machines boot it: "BIOS CD", "BIOS USB", "UEFI CD", "UEFI USB", …
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

// Info returns what there is to know of the base.
func (b *Base) Info() Info {
	return Info{
		VolumeID:     b.volumeID,
		Version:      b.Version(),
		Architecture: b.architecture,
		Size:         b.size,
		EmbedArea:    EmbedArea{Offset: b.area.offset, Length: b.area.length},
	}
}
