package isogen

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"

	"landfall/isogen/iso9660"
)

// The architectures, with the names of the Assisted Installer's API and of release payloads.
const (
	X86_64  = "x86_64"
	AArch64 = "aarch64"
	PPC64LE = "ppc64le"
	S390X   = "s390x"
)

// ArchitectureError reports that a base ISO is for another architecture than the requested one.
type ArchitectureError struct {
	Path       string
	Have, Want string
}

func (e *ArchitectureError) Error() string {
	return fmt.Sprintf("the base ISO %s is for %s, not for %s: configure the live ISO of that architecture", e.Path,
		e.Have, e.Want)
}

// Architecture returns X86_64, AArch64, PPC64LE or S390X, or "" if the architecture is unknown.
func (b *Base) Architecture() string { return b.architecture }

// Require returns an *ArchitectureError if the base has another architecture. It accepts "amd64"
// for X86_64 and "arm64" for AArch64.
func (b *Base) Require(arch string) error {
	want := arch
	switch arch {
	case "amd64":
		want = X86_64
	case "arm64":
		want = AArch64
	}
	if b.architecture != want {
		have := b.architecture
		if have == "" {
			have = "an unknown architecture"
		}
		return &ArchitectureError{Path: b.path, Have: have, Want: want}
	}
	return nil
}

// architecture returns the architecture of an ISO. It reads the header of the kernel. If that does
// not identify the architecture, it uses the boot files: s390x has one combined image, ppc64le Open
// Firmware's boot/grub, x86_64 isolinux and EFI, aarch64 EFI only.
func architecture(r io.ReaderAt, v *iso9660.Volume) string {
	if v.Find("images/cdboot.img") != nil || v.Find("generic.ins") != nil {
		return S390X
	}
	if kernel := v.Find("images/pxeboot/vmlinuz"); kernel != nil {
		if arch := kernelArchitecture(io.NewSectionReader(r, kernel.Offset, kernel.Size)); arch != "" {
			return arch
		}
	}
	switch {
	case v.Find("isolinux") != nil || v.Find("EFI/BOOT/BOOTX64.EFI") != nil:
		return X86_64
	case v.Find("boot/grub/grub.cfg") != nil || v.Find("ppc") != nil:
		return PPC64LE
	case v.Find("EFI") != nil:
		return AArch64
	}
	return ""
}

// kernelArchitecture returns the architecture in the header of a kernel. Kernels with an EFI stub
// start with a PE header (Linux Documentation/arch/x86/boot.rst and arch/arm64/booting.rst). An
// arm64 kernel may be compressed with gzip. ppc64le kernels are ELF files.
func kernelArchitecture(r io.Reader) string {
	head := make([]byte, 4096)
	n, err := io.ReadFull(r, head[:512])
	if err != nil && n == 0 {
		return ""
	}
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(io.MultiReader(bytes.NewReader(head[:n]), r))
		if err != nil {
			return ""
		}
		if n, err = io.ReadFull(z, head[:512]); err != nil && n == 0 {
			return ""
		}
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) && len(head) >= 20 &&
		binary.LittleEndian.Uint16(head[18:]) == 21 {
		return PPC64LE
	}
	if !bytes.HasPrefix(head, []byte("MZ")) || len(head) < 0x40 {
		return ""
	}
	pe := int64(binary.LittleEndian.Uint32(head[0x3c:]))
	if pe+6 > int64(len(head)) || string(head[pe:pe+4]) != "PE\x00\x00" {
		return ""
	}
	switch binary.LittleEndian.Uint16(head[pe+4:]) { // IMAGE_FILE_MACHINE_…
	case 0x8664:
		return X86_64
	case 0xaa64:
		return AArch64
	}
	return ""
}
