package isogen

import (
	"bytes"
	"encoding/binary"
	"io"

	"landfall/isogen/iso9660"
)

// boots returns the methods by which machines can boot an ISO: as a CD with the El Torito boot
// catalog, or as a USB disk with the partition tables that isohybrid writes to the system area.
func boots(r io.ReaderAt, v *iso9660.Volume, architecture string) []string {
	names := []string{}
	for _, e := range v.BootEntries(r) {
		switch {
		case e.Platform == iso9660.UEFI:
			names = append(names, "UEFI CD")
		case architecture == S390X: // El Torito defines no platform number for s390x
			names = append(names, "s390x CD")
		case e.Platform == iso9660.BIOS:
			names = append(names, "BIOS CD")
		}
	}
	if v.Find("ppc/bootinfo.txt") != nil {
		names = append(names, "Open Firmware")
	}
	bios, uefi := partitions(r)
	if bios {
		names = append(names, "BIOS USB")
	}
	if uefi {
		names = append(names, "UEFI USB")
	}
	return names
}

// Offsets and sizes of the partition tables of a disk, in bytes.
const (
	diskSector        = 512
	mbrPartitions     = 446
	mbrPartitionSize  = 16
	gptHeader         = diskSector
	gptPartitions     = 2 * diskSector
	gptPartitionSize  = 128
	gptPartitionsRead = 8 // isohybrid writes two or three partitions
)

// efiSystemPartition is the type of an EFI system partition in a GPT, in the byte order of the
// disk: C12A7328-F81F-11D2-BA4B-00A0C93EC93B (UEFI specification, 5.3.3).
var efiSystemPartition = []byte{0x28, 0x73, 0x2A, 0xC1, 0x1F, 0xF8, 0xD2, 0x11, 0xBA, 0x4B, 0x00, 0xA0, 0xC9,
	0x3E, 0xC9, 0x3B}

// partitions reads the MBR and the GPT. bios reports whether the MBR has a boot program and an
// active partition, uefi whether the GPT has an EFI system partition.
func partitions(r io.ReaderAt) (bios, uefi bool) {
	b := make([]byte, gptPartitions+gptPartitionsRead*gptPartitionSize)
	if n, err := r.ReadAt(b, 0); n < len(b) && err != nil {
		return false, false
	}
	if b[510] == 0x55 && b[511] == 0xAA {
		program := binary.LittleEndian.Uint32(b) != 0
		for i := range 4 {
			p := b[mbrPartitions+i*mbrPartitionSize:]
			const active, efi = 0x80, 0xEF
			bios = bios || program && p[0] == active
			uefi = uefi || p[4] == efi
		}
	}
	if bytes.HasPrefix(b[gptHeader:], []byte("EFI PART")) {
		for i := range gptPartitionsRead {
			uefi = uefi || bytes.HasPrefix(b[gptPartitions+i*gptPartitionSize:], efiSystemPartition)
		}
	}
	return bios, uefi
}
