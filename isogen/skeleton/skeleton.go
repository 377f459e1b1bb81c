// Package skeleton writes ISOs that have the shape of a CoreOS live ISO: every directory, description
// and embed area in its place, and stand-ins where the large files are. They are for rehearsals and
// tests; nothing in them boots.
package skeleton

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"landfall/isogen/iso9660"
)

// Defaults of an ISO's fields.
const (
	DefaultVolumeID  = "rhcos-9.6.20250523-0"
	DefaultEmbedSize = 256 << 10
	DefaultRootFS    = 6 << 20
)

// Sizes of an area for kernel arguments and of the table for the minimal ISO, as in images of today.
const (
	kargsArea    = 1139
	minisoLength = 16 << 10
)

// ISO describes an image. A zero field stands for the usual.
type ISO struct {
	VolumeID     string            // DefaultVolumeID
	Architecture string            // "x86_64", "aarch64", "ppc64le" or "s390x"; x86_64
	EmbedSize    int               // of images/ignition.img, bytes; DefaultEmbedSize
	RootFSSize   int               // of images/pxeboot/rootfs.img, bytes; DefaultRootFS
	Replace      map[string][]byte // files to have in place of the usual ones or besides them; nil leaves one out
	System       []byte            // contents of the system area
}

// Where the embed area lies in s390x's combined boot image: behind kernel, parameters and initrd.
const (
	cdbootFile   = "images/cdboot.img"
	cdbootOffset = 132096
	cdbootParams = 66688
)

// Write writes the image. The same description gives the same bytes.
func Write(w io.Writer, iso ISO) error {
	if iso.VolumeID == "" {
		iso.VolumeID = DefaultVolumeID
	}
	if iso.EmbedSize == 0 {
		iso.EmbedSize = DefaultEmbedSize
	}
	if iso.RootFSSize == 0 {
		iso.RootFSSize = DefaultRootFS
	}
	files, err := iso.files()
	if err != nil {
		return err
	}
	img := iso9660.Image{VolumeID: iso.VolumeID, Time: time.Unix(1748000000, 0), System: iso.System}
	for path, data := range iso.Replace {
		files[path] = data
	}
	for path, data := range files {
		if data != nil {
			img.Files = append(img.Files, iso9660.File{Path: path, Data: data})
		}
	}
	return iso9660.Write(w, img)
}

func (iso ISO) files() (map[string][]byte, error) {
	files := map[string][]byte{
		"coreos/features.json":      []byte("{\n  \"installer-config\": true,\n  \"live-initrd-network\": true\n}\n"),
		"coreos/miniso.dat":         make([]byte, minisoLength),
		"images/pxeboot/initrd.img": noise(64<<10, 2),
		"images/pxeboot/rootfs.img": noise(iso.RootFSSize, 3),
		"zipl.prm":                  []byte(iso.kargs() + "\n"),
	}
	k := kernelArguments{Default: iso.kargs(), Size: kargsArea}
	switch iso.Architecture {
	case "", "x86_64":
		files["images/pxeboot/vmlinuz"] = kernel(0x8664)
		files["images/efiboot.img"] = noise(32<<10, 4)
		files["isolinux/isolinux.bin"] = noise(38912, 5)
		files["EFI/redhat/grub.cfg"] = k.in("EFI/redhat/grub.cfg", grubHead, grubTail)
		files["isolinux/isolinux.cfg"] = k.in("isolinux/isolinux.cfg", isolinuxHead, isolinuxTail)
	case "aarch64":
		files["images/pxeboot/vmlinuz"] = kernel(0xaa64)
		files["images/efiboot.img"] = noise(32<<10, 4)
		files["EFI/redhat/grub.cfg"] = k.in("EFI/redhat/grub.cfg", grubHead, grubTail)
	case "ppc64le":
		files["images/pxeboot/vmlinuz"] = append([]byte("\x7fELF\x02\x01\x01"), append(make([]byte, 11), 21, 0)...)
		files["boot/grub/grub.cfg"] = k.in("boot/grub/grub.cfg", grubHead, grubTail)
	case "s390x":
		files["images/pxeboot/kernel.img"] = noise(128<<10, 6)
		files["generic.ins"] = []byte("images/pxeboot/kernel.img 0x00000000\nimages/pxeboot/initrd.img 0x02000000\n")
		boot := noise(cdbootOffset, 7)
		area := boot[cdbootParams : cdbootParams+896]
		clear(area)
		copy(area, iso.kargs())
		files[cdbootFile] = append(boot, make([]byte, iso.EmbedSize)...)
		k.Size = len(area)
		k.Files = []kernelArgumentArea{{Path: cdbootFile, Offset: cdbootParams, End: "\x00", Pad: "\x00"}}
	default:
		return nil, fmt.Errorf("there is no skeleton of a live ISO for the architecture %q", iso.Architecture)
	}
	embed := map[string]any{"file": cdbootFile, "offset": cdbootOffset, "length": iso.EmbedSize}
	if files[cdbootFile] == nil {
		files["images/ignition.img"] = make([]byte, iso.EmbedSize)
		embed = map[string]any{"file": "images/ignition.img"}
	}
	var err error
	if files["coreos/kargs.json"], err = json.MarshalIndent(k, "", "  "); err != nil {
		return nil, err
	}
	if files["coreos/igninfo.json"], err = json.MarshalIndent(embed, "", "  "); err != nil {
		return nil, err
	}
	return files, nil
}

func (iso ISO) kargs() string {
	return "coreos.liveiso=" + iso.VolumeID + " ignition.firstboot ignition.platform.id=metal"
}

// kernelArguments is coreos/kargs.json.
type kernelArguments struct {
	Default string               `json:"default"`
	Files   []kernelArgumentArea `json:"files"`
	Size    int                  `json:"size"` // of every area, bytes
}

type kernelArgumentArea struct {
	End    string `json:"end"`
	Offset int    `json:"offset"` // in the file, bytes
	Pad    string `json:"pad"`
	Path   string `json:"path"`
}

// in makes a boot loader's configuration with an area for kernel arguments in it, and notes where.
// An area is the arguments, one end character and padding; the mark is behind it.
func (k *kernelArguments) in(path, head, tail string) []byte {
	k.Files = append(k.Files, kernelArgumentArea{Path: path, Offset: len(head), End: "\n", Pad: "#"})
	var b bytes.Buffer
	b.WriteString(head + k.Default + "\n")
	b.WriteString(strings.Repeat("#", k.Size-len(k.Default)-1))
	b.WriteString("# COREOS_KARG_EMBED_AREA\n" + tail)
	return b.Bytes()
}

const (
	grubHead = "set default=\"0\"\nset timeout=5\n\nmenuentry 'CoreOS (Live)' --class gnu-linux --class os {\n\tlinux /images/pxeboot/vmlinuz "
	grubTail = "\tinitrd /images/pxeboot/initrd.img /images/ignition.img\n}\n"

	isolinuxHead = "default linux\ntimeout 50\n\nlabel linux\n  menu label ^CoreOS (Live)\n  menu default\n  kernel /images/pxeboot/vmlinuz\n  append initrd=/images/pxeboot/initrd.img,/images/ignition.img "
	isolinuxTail = "\nmenu separator\nmenu end\n"
)

// kernel is a kernel's header and nothing more: a PE file for the given machine.
func kernel(machine uint16) []byte {
	b := noise(64<<10, 1)
	clear(b[:512])
	copy(b, "MZ")
	b[0x3c] = 0x40
	copy(b[0x40:], "PE\x00\x00")
	b[0x44], b[0x45] = byte(machine), byte(machine>>8)
	return b
}

// noise gives bytes that do not compress, always the same for a seed.
func noise(size int, seed byte) []byte {
	b := make([]byte, size)
	// ChaCha8 never fails and fills everything.
	if n, err := rand.NewChaCha8([32]byte{seed}).Read(b); err != nil || n != size {
		return nil
	}
	return b
}
