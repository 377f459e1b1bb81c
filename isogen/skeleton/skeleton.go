// Package skeleton writes ISOs with the structure of a CoreOS live ISO: all directories,
// descriptions and embed areas, and placeholders for the large files. The ISOs are meant for
// rehearsals and tests. They cannot boot.
package skeleton

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"landfall/isogen/iso9660"
)

// The defaults of the fields of ISO.
const (
	DefaultVolumeID  = "rhcos-9.6.20250523-0"
	DefaultEmbedSize = 256 << 10
	DefaultRootFS    = 6 << 20
)

// Sizes of an area for kernel arguments and of the table for the minimal ISO, as in current images.
const (
	kargsArea = 1139
	tableSize = 16 << 10
)

// The ages of live ISOs, named by the month of the first image with the format. Before Newest,
// areas for kernel arguments had no end and pad. Before 2023, igninfo.json did not exist. Before
// 2022, headers in the system area contained the positions of the areas. At first, these headers
// were the only description.
const (
	Age2020      = "2020-09" // no areas for kernel arguments
	Age2021      = "2021-01" // areas for kernel arguments, described by the header only
	Age2021Later = "2021-09" // also described by kargs.json
	Age2022      = "2022-02"
	Age2023      = "2023-03"
	Newest       = "2023-07"
)

// ISO describes an image. A zero field selects the default.
type ISO struct {
	Age          string            // one of the ages; the default is Newest; older ages exist for x86_64 only
	VolumeID     string            // DefaultVolumeID
	Architecture string            // "x86_64", "aarch64", "ppc64le" or "s390x"; x86_64
	EmbedSize    int               // of images/ignition.img, bytes; DefaultEmbedSize
	RootFSSize   int               // of images/pxeboot/rootfs.img, bytes; DefaultRootFS
	Replace      map[string][]byte // files to replace or add, by path; nil removes a file
	Links        map[string]string // hard links: path -> path of the file
	// System is the content of the system area; nil: partition tables and headers of the age
	System   []byte
	Trailing int // zero bytes after the volume

	// Table returns the table for the minimal ISO of the image in r, like isogen.MakeTable. If it
	// is nil, the space for the table stays empty.
	Table func(ctx context.Context, r io.ReaderAt, size int64) ([]byte, error)
}

// Position of the embed area in the combined boot image of s390x, after kernel, parameters and
// initrd.
const (
	cdbootFile   = "images/cdboot.img"
	cdbootOffset = 132096
	cdbootParams = 66688
)

// Other boot files.
const (
	bootLoader   = "isolinux/isolinux.bin"
	efiPartition = "images/efiboot.img"
)

// Write writes the image. Equal descriptions result in equal bytes.
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
	if iso.Age == "" {
		iso.Age = Newest
	}
	img, err := iso.image()
	if err != nil {
		return err
	}
	if img.System = iso.System; img.System == nil {
		if img.System, err = iso.system(img); err != nil {
			return err
		}
	}
	if err := iso.addTable(img); err != nil {
		return err
	}
	if err := iso9660.Write(w, img); err != nil {
		return err
	}
	_, err = w.Write(make([]byte, iso.Trailing))
	return err
}

// image returns the image without the system area.
func (iso ISO) image() (iso9660.Image, error) {
	img := iso9660.Image{VolumeID: iso.VolumeID, Time: time.Unix(1748000000, 0), Joliet: true}
	files, err := iso.files()
	if err != nil {
		return img, err
	}
	for path, data := range iso.Replace {
		files[path] = data
	}
	for _, path := range slices.SortedFunc(maps.Keys(files), bootFirst) {
		if data := files[path]; data != nil {
			img.Files = append(img.Files, iso9660.File{Path: path, Data: data})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(iso.Links)) {
		img.Files = append(img.Files, iso9660.File{Path: path, Link: iso.Links[path]})
	}
	for _, boot := range []iso9660.Boot{{Platform: iso9660.BIOS, File: bootLoader},
		{Platform: iso9660.BIOS, File: cdbootFile}, {Platform: iso9660.UEFI, File: efiPartition}} {
		if files[boot.File] != nil {
			img.Boot = append(img.Boot, boot)
		}
	}
	return img, nil
}

// bootFirst compares files in the order of live ISOs: files that the firmware loads come first.
func bootFirst(a, b string) int {
	rank := func(path string) int {
		if path == bootLoader || path == efiPartition || path == cdbootFile {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
}

func (iso ISO) files() (map[string][]byte, error) {
	k := kernelArguments{Default: iso.kargs(), Size: kargsArea, plain: iso.Age < Newest, none: iso.Age == Age2020}
	files := map[string][]byte{
		"coreos/features.json":      []byte("{\n  \"installer-config\": true,\n  \"live-initrd-network\": true\n}\n"),
		tableFile:                   make([]byte, tableSize),
		"images/pxeboot/initrd.img": noise(64<<10, 2),
		"images/pxeboot/rootfs.img": noise(iso.RootFSSize, 3),
		"zipl.prm":                  []byte(iso.kargs() + "\n"),
	}
	switch iso.Architecture {
	case "", "x86_64":
		files["images/pxeboot/vmlinuz"] = kernel(0x8664)
		files[efiPartition] = noise(32<<10, 4)
		files[bootLoader] = noise(38912, 5)
		files["EFI/redhat/grub.cfg"] = k.in("EFI/redhat/grub.cfg", grubHead, grubTail)
		files["isolinux/isolinux.cfg"] = k.in("isolinux/isolinux.cfg", isolinuxHead, isolinuxTail)
	case "aarch64":
		files["images/pxeboot/vmlinuz"] = kernel(0xaa64)
		files[efiPartition] = noise(32<<10, 4)
		files["EFI/redhat/grub.cfg"] = k.in("EFI/redhat/grub.cfg", grubHead, grubTail)
	case "ppc64le":
		files["images/pxeboot/vmlinuz"] = append([]byte("\x7fELF\x02\x01\x01"), append(make([]byte, 11), 21, 0)...)
		files["ppc/bootinfo.txt"] = []byte("<chrp-boot>\n</chrp-boot>\n")
		files["boot/grub/grub.cfg"] = k.in("boot/grub/grub.cfg", grubHead, grubTail)
	case "s390x":
		files["images/pxeboot/kernel.img"] = noise(128<<10, 6)
		files["generic.ins"] = []byte("* minimal lpar ins file\nimages/kernel.img 0x00000000\nimages/initrd.img " +
			"0x02000000\nimages/genericdvd.prm 0x00010480\nimages/initrd.addrsize 0x00010408\n")
		files["images/initrd.addrsize"] = []byte{4: 2, 13: 1, 15: 0}
		boot := noise(cdbootOffset, 7)
		area := boot[cdbootParams : cdbootParams+896]
		clear(area)
		copy(area, iso.kargs())
		files[cdbootFile] = append(boot, make([]byte, iso.EmbedSize)...)
		k.Size = len(area)
		k.Files = []kernelArgumentArea{{Path: cdbootFile, Offset: cdbootParams, End: "\x00", Pad: "\x00"}}
	default:
		return nil, fmt.Errorf("no skeleton of a live ISO exists for the architecture %q", iso.Architecture)
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
	iso.makeOlder(files)
	return files, nil
}

// makeOlder removes the files that did not exist at an age.
func (iso ISO) makeOlder(files map[string][]byte) {
	if iso.Age < Age2023 {
		delete(files, "coreos/igninfo.json")
	}
	if iso.Age < Age2022 {
		delete(files, tableFile)
		delete(files, "coreos/features.json")
		files[defaultArguments] = []byte(iso.kargs() + "\n" + strings.Repeat("#", kargsArea-len(iso.kargs())-1))
	}
	if iso.Age < Age2021Later {
		delete(files, "coreos/kargs.json")
	}
	if iso.Age < Age2021 {
		delete(files, defaultArguments)
	}
}

func (iso ISO) kargs() string {
	return "coreos.liveiso=" + iso.VolumeID + " ignition.firstboot ignition.platform.id=metal"
}

// kernelArguments is the content of coreos/kargs.json.
type kernelArguments struct {
	Default string               `json:"default"`
	Files   []kernelArgumentArea `json:"files"`
	Size    int                  `json:"size"` // of every area, bytes

	plain bool // omit end and pad
	none  bool // no areas
}

type kernelArgumentArea struct {
	End    string `json:"end,omitempty"`
	Offset int    `json:"offset"` // in the file, bytes
	Pad    string `json:"pad,omitempty"`
	Path   string `json:"path"`
}

// in returns a boot loader's configuration with an area for kernel arguments, and records the
// area's position. An area consists of the arguments, one end character and padding. The mark
// follows.
func (k *kernelArguments) in(path, head, tail string) []byte {
	if k.none {
		return []byte(head + k.Default + "\n" + tail)
	}
	area := kernelArgumentArea{Path: path, Offset: len(head), End: "\n", Pad: "#"}
	if k.plain {
		area.End, area.Pad = "", ""
	}
	k.Files = append(k.Files, area)
	var b bytes.Buffer
	b.WriteString(head + k.Default + "\n")
	b.WriteString(strings.Repeat("#", k.Size-len(k.Default)-1))
	b.WriteString("# COREOS_KARG_EMBED_AREA\n" + tail)
	return b.Bytes()
}

const (
	grubHead = "set default=\"0\"\nset timeout=5\n\nmenuentry 'CoreOS (Live)' --class gnu-linux --class os " +
		"{\n\tlinux /images/pxeboot/vmlinuz "
	grubTail = "\tinitrd /images/pxeboot/initrd.img /images/ignition.img\n}\n"

	isolinuxHead = "default linux\ntimeout 50\n\nlabel linux\n  menu label ^CoreOS (Live)\n  menu default\n  kernel " +
		"/images/pxeboot/vmlinuz\n  append initrd=/images/pxeboot/initrd.img,/images/ignition.img "
	isolinuxTail = "\nmenu separator\nmenu end\n"
)

// kernel returns the header of a kernel without its body: a PE file for the given machine.
func kernel(machine uint16) []byte {
	b := noise(64<<10, 1)
	clear(b[:512])
	copy(b, "MZ")
	b[0x3c] = 0x40
	copy(b[0x40:], "PE\x00\x00")
	b[0x44], b[0x45] = byte(machine), byte(machine>>8)
	return b
}

// noise returns incompressible bytes. Equal seeds result in equal bytes.
func noise(size int, seed byte) []byte {
	b := make([]byte, size)
	// ChaCha8 never fails and always fills the whole slice.
	if n, err := rand.NewChaCha8([32]byte{seed}).Read(b); err != nil || n != size {
		return nil
	}
	return b
}
