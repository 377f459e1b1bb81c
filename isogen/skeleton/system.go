package skeleton

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"landfall/isogen/iso9660"
)

// systemArea is the size of the part of an ISO before its volume descriptors, in bytes.
const systemArea = 16 * iso9660.SectorSize

// defaultArguments is the file with the published kernel arguments in images of 2021.
const defaultArguments = ".cmdline"

// system returns the system area of an image: since 2022 partition tables for USB disks, before
// 2022 headers with the positions of the embed areas. Only x86_64 has either.
func (iso ISO) system(img iso9660.Image) ([]byte, error) {
	if iso.Architecture != "" && iso.Architecture != "x86_64" {
		return nil, nil
	}
	v, err := positions(img)
	if err != nil {
		return nil, err
	}
	b := make([]byte, systemArea)
	if iso.Age < Age2022 {
		headers(b, v, iso.Age)
		return b, nil
	}
	esp := v.Find(efiPartition)
	if esp == nil {
		return nil, nil
	}
	partitionTables(b, v.Size, esp.Offset, esp.Size)
	return b, nil
}

// positions writes an image and reads the positions of its parts.
func positions(img iso9660.Image) (*iso9660.Volume, error) {
	var b head
	if err := iso9660.Write(&b, img); err != nil {
		return nil, err
	}
	return iso9660.Open(bytes.NewReader(b.kept), b.size)
}

// head is a writer that keeps the start of the image, which contains the directories, and counts
// the other bytes.
type head struct {
	kept []byte
	size int64
}

func (h *head) Write(p []byte) (int, error) {
	const limit = 1 << 20
	h.kept = append(h.kept, p[:min(len(p), limit-len(h.kept))]...)
	h.size += int64(len(p))
	return len(p), nil
}

// headers writes the positions of the embed areas to the end of the system area.
func headers(b []byte, v *iso9660.Volume, age string) {
	put := func(at int, mark string, numbers ...int64) {
		at += copy(b[at:], mark)
		for _, n := range numbers {
			binary.LittleEndian.PutUint64(b[at:], uint64(n))
			at += 8
		}
	}
	if area := v.Find("images/ignition.img"); area != nil {
		put(systemArea-24, "coreiso+", area.Offset, area.Size)
	}
	grub, isolinux, standard := v.Find("EFI/redhat/grub.cfg"), v.Find("isolinux/isolinux.cfg"), v.Find(defaultArguments)
	if age == Age2020 || grub == nil || isolinux == nil || standard == nil {
		return
	}
	put(systemArea-24-72, "coreKarg", kargsArea, standard.Offset, grub.Offset+int64(len(grubHead)),
		isolinux.Offset+int64(len(isolinuxHead)))
}

// partitionTables writes an MBR and a GPT, like isohybrid: one partition for the whole image, one
// for the EFI system partition.
func partitionTables(b []byte, size, esp, espSize int64) {
	const sector = 512
	copy(b, "\xeb\xfe\x90\x90") // an endless loop
	le := binary.LittleEndian
	partition := func(i int, status, kind byte, start, size int64) {
		p := b[446+16*i:]
		p[0], p[4] = status, kind
		le.PutUint32(p[8:], uint32(start/sector))
		le.PutUint32(p[12:], uint32(size/sector))
	}
	partition(0, 0x80, 0x00, 0, size)
	partition(1, 0x00, 0xEF, esp, espSize)
	b[510], b[511] = 0x55, 0xAA

	const entries, entrySize, count = 2 * sector, 128, 128
	basicData := []byte{0xA2, 0xA0, 0xD0, 0xEB, 0xE5, 0xB9, 0x33, 0x44, 0x87, 0xC0, 0x68, 0xB6, 0xB7, 0x26, 0x99, 0xC7}
	for i, p := range [][2]int64{{0, size}, {esp, espSize}} {
		e := b[entries+entrySize*i:]
		copy(e, basicData)
		copy(e[16:], noise(16, byte(20+i)))
		le.PutUint64(e[32:], uint64(p[0]/sector))
		le.PutUint64(e[40:], uint64((p[0]+p[1])/sector-1))
	}
	h := b[sector : sector+92]
	copy(h, "EFI PART\x00\x00\x01\x00")
	le.PutUint32(h[12:], uint32(len(h)))
	le.PutUint64(h[24:], 1)
	le.PutUint64(h[40:], 34)
	le.PutUint64(h[48:], uint64(size/sector-34))
	copy(h[56:], noise(16, 22))
	le.PutUint64(h[72:], entries/sector)
	le.PutUint32(h[80:], count)
	le.PutUint32(h[84:], entrySize)
	le.PutUint32(h[88:], crc32.ChecksumIEEE(b[entries:entries+entrySize*count]))
	le.PutUint32(h[16:], crc32.ChecksumIEEE(h))
}
