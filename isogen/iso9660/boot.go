package iso9660

import (
	"encoding/binary"
	"io"
)

// Platform is the platform of a boot entry, with the numbers of El Torito.
type Platform byte

// The platforms. Images for machines without a number in El Torito use the number of BIOS.
const (
	BIOS Platform = 0x00
	UEFI Platform = 0xEF
)

// BootEntry is an entry of the boot catalog.
type BootEntry struct {
	Platform Platform
	Offset   int64 // start of the boot image in bytes
	Size     int64 // number of bytes that the firmware loads; boot images are often larger
}

// BootEntries returns the bootable entries of the El Torito boot catalog, or none if the catalog is
// missing or invalid (El Torito 1.0, section 2; the platform of UEFI is defined in the UEFI
// specification, 13.3.2.1).
func (v *Volume) BootEntries(r io.ReaderAt) []BootEntry {
	if v.BootCatalog == 0 {
		return nil
	}
	b := make([]byte, SectorSize)
	if n, err := r.ReadAt(b, v.BootCatalog); n < len(b) && err != nil {
		return nil
	}
	if b[0] != 1 || b[30] != 0x55 || b[31] != 0xAA || checksum(b[:32]) != 0 {
		return nil
	}
	var entries []BootEntry
	add := func(platform Platform, e []byte) {
		const bootable = 0x88
		if e[0] == bootable {
			entries = append(entries, BootEntry{platform,
				int64(binary.LittleEndian.Uint32(e[8:])) * SectorSize, int64(binary.LittleEndian.Uint16(e[6:])) * 512})
		}
	}
	add(Platform(b[1]), b[32:64])
	const header, lastHeader = 0x90, 0x91
	for at := 64; at+32 <= len(b) && (b[at] == header || b[at] == lastHeader); {
		section := b[at : at+32]
		at += 32
		for range binary.LittleEndian.Uint16(section[2:]) {
			if at+32 > len(b) {
				break
			}
			add(Platform(section[1]), b[at:at+32])
			at += 32
		}
		if section[0] == lastHeader {
			break
		}
	}
	return entries
}

// checksum returns the sum of the 16-bit words.
func checksum(b []byte) (sum uint16) {
	for i := 0; i+1 < len(b); i += 2 {
		sum += binary.LittleEndian.Uint16(b[i:])
	}
	return sum
}
