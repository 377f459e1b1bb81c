package iso9660_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/isogen/iso9660"
)

// bootable has all supported features: Rock Ridge and Joliet, a hard link, a boot catalog.
func bootable() iso9660.Image {
	return iso9660.Image{VolumeID: "rhcos-1", Time: time.Unix(1748000000, 0), Joliet: true,
		Files: append(files, iso9660.File{Path: "boot/again.img", Link: files[1].Path},
			iso9660.File{Path: "boot/efi.img", Data: make([]byte, 5000)}),
		Boot: []iso9660.Boot{{Platform: iso9660.BIOS, File: files[1].Path}, {Platform: iso9660.UEFI,
			File: "boot/efi.img"}}}
}

func TestOpen_bothTreesHaveSameFiles(t *testing.T) {
	v := volume(t, image(t, bootable()))
	require.Len(t, v.Supplementary, 1)
	joliet := v.Supplementary[0]
	require.Equal(t, "rhcos-1", joliet.ID)
	require.Equal(t, v.Size, joliet.Size)
	for path, e := range v.Files() {
		twin := joliet.Find(path)
		require.NotNil(t, twin, path)
		require.Equal(t, [2]int64{e.Offset, e.Size}, [2]int64{twin.Offset, twin.Size}, path)
		require.NotEqual(t, e.Record, twin.Record)
	}
}

func TestLinks_allRecordsOfFile(t *testing.T) {
	b := image(t, bootable())
	v := volume(t, b)
	linked, alone := v.Find(files[1].Path), v.Find("coreos/igninfo.json")
	require.Len(t, v.Links(linked), 4)
	require.Len(t, v.Links(alone), 2)
	at, path := v.FileAt(linked.Offset+100, 50)
	require.Equal(t, linked.Offset, at.Offset)
	require.Equal(t, "boot/again.img", path, "the path of the first link")
	at, _ = v.FileAt(linked.Offset, linked.Size+1)
	require.Nil(t, at)

	second := bytes.Clone(b) // a supplementary volume whose root directory is that of the primary volume
	copy(second[v.Supplementary[0].Descriptor+88:], "\x00\x00\x00")
	copy(second[v.Supplementary[0].Descriptor+156:], second[16*2048+156:16*2048+190])
	shared := volume(t, second)
	require.Len(t, shared.Links(shared.Find("coreos/igninfo.json")), 1, "each record once")
}

func TestBootEntries_platforms(t *testing.T) {
	b := image(t, bootable())
	v := volume(t, b)
	require.Equal(t, []iso9660.BootEntry{
		{Platform: iso9660.BIOS, Offset: v.Find(files[1].Path).Offset, Size: 2048},
		{Platform: iso9660.UEFI, Offset: v.Find("boot/efi.img").Offset, Size: 5120},
	}, v.BootEntries(bytes.NewReader(b)))
	require.Empty(t, volume(t, image(t, iso9660.Image{Files: files})).BootEntries(bytes.NewReader(b)))

	for name, damage := range map[string]func(catalog []byte){
		"a wrong checksum":    func(c []byte) { c[28]++ },
		"no key":              func(c []byte) { c[30], c[31] = 0, 0 },
		"no validation entry": func(c []byte) { c[0] = 2 },
		"no bootable entry":   func(c []byte) { c[32], c[96] = 0, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(b)
			damage(b[v.BootCatalog:])
			require.Empty(t, volume(t, b).BootEntries(bytes.NewReader(b)))
		})
	}
	endless := bytes.Clone(b)
	for at := 64; at < 2048; at += 32 {
		endless[v.BootCatalog+int64(at)], endless[v.BootCatalog+int64(at)+2], endless[v.BootCatalog+int64(at)+3] = 0x90,
			255, 255
	}
	require.Len(t, v.BootEntries(bytes.NewReader(endless)), 1, "an endless section")
	outside := bytes.Clone(b)
	copy(outside[17*2048+71:], "\xff\xff\xff\xff")
	require.Empty(t, volume(t, outside).BootEntries(bytes.NewReader(outside)))
}

// TestOpen_damagedJoliet damages the second tree, which is as dangerous as the first.
func TestOpen_damagedJoliet(t *testing.T) {
	good := image(t, bootable())
	v := volume(t, good)
	joliet := v.Supplementary[0]
	dir, file := joliet.Find("coreos"), joliet.Find("coreos/igninfo.json")
	le32 := func(v int64) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }
	for name, c := range map[string]struct {
		offset int64
		with   []byte
		says   string
	}{
		"a directory that is the root": {dir.Record + 2, le32(joliet.Root.Offset / 2048),
			"/coreos is contained in itself"},
		"a directory after the end":      {dir.Record + 2, le32(1 << 30), "but the directory /coreos needs"},
		"a directory of gigabytes":       {dir.Record + 10, le32(3 << 30), "the directory /coreos is too large"},
		"a file after the end":           {file.Record + 2, le32(1 << 30), "but the file /coreos/igninfo.json needs"},
		"another block size":             {joliet.Descriptor + 128, []byte{0, 4}, "the logical block size is 1024"},
		"a volume larger than the image": {joliet.Descriptor + 80, le32(1 << 31), "but the volume needs"},
		"a name with a slash":            {file.Record + 33, []byte("\x00/"), "is not a valid file name"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good)
			copy(b[c.offset:], c.with)
			_, err := iso9660.Open(bytes.NewReader(b), int64(len(b)))
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestWrite_refusesLinksAndNames(t *testing.T) {
	for says, img := range map[string]iso9660.Image{
		`b is a link to "a", which must be an earlier file of the image`: {Files: []iso9660.File{{Path: "b",
			Link: "a"}}},
		`the boot image "a" is not in the image`: {Boot: []iso9660.Boot{{File: "a"}}},
		"is too long for a directory record": {Files: []iso9660.File{
			{Path: strings.Repeat("x", 161)}}},
		"has more than the 64 characters of Joliet": {Joliet: true,
			Files: []iso9660.File{{Path: strings.Repeat("x", 65)}}},
	} {
		require.ErrorContains(t, iso9660.Write(&bytes.Buffer{}, img), says)
	}
}

// greedy is an image with a root directory of the maximum size. All its records continue in the
// same area, which continues in itself. Reading the image must stay within the limits of memory and
// of the number of reads.
func greedy(t *testing.T) []byte {
	t.Helper()
	b := image(t, iso9660.Image{VolumeID: "v", Files: []iso9660.File{{Path: "x"}}})
	root := int64(len(b))
	area := make([]byte, 2048)
	for i := 0; i+5+28 < 2000; i += 250 {
		area[i], area[i+1], area[i+2], area[i+3] = 'N', 'M', 250, 1
		copy(area[i+5:i+250], bytes.Repeat([]byte("n"), 245))
	}
	copy(area[2000:], "CE\x1c\x01")
	copy(area[2004:], iso9660.Both32(uint32(root/2048)))
	copy(area[2020:], iso9660.Both32(2048))
	b = append(b, area...)
	var sector []byte
	for len(sector)+62 <= 2048 {
		record := make([]byte, 62)
		record[0], record[32], record[33] = 62, 1, 'X'
		copy(record[34:], "CE\x1c\x01")
		copy(record[38:], iso9660.Both32(uint32(root/2048)))
		copy(record[54:], iso9660.Both32(2048))
		sector = append(sector, record...)
	}
	sector = append(sector, make([]byte, 2048-len(sector))...)
	b = append(b, bytes.Repeat(sector, 4096)...)
	copy(b[16*2048+156+2:], iso9660.Both32(uint32(root/2048+1)))
	copy(b[16*2048+156+10:], iso9660.Both32(4096*2048))
	return b
}

func TestOpen_hostileTreeNeedsLittleMemory(t *testing.T) {
	b := greedy(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := iso9660.Open(bytes.NewReader(b), int64(len(b)))
	runtime.ReadMemStats(&after)
	var format *iso9660.FormatError
	require.ErrorAs(t, err, &format)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
}

func TestOpen_tooManyEntries(t *testing.T) {
	b := image(t, iso9660.Image{VolumeID: "v", Files: []iso9660.File{{Path: "x"}}})
	root := int64(len(b))
	var sector []byte
	for i := range 2048 / 34 {
		record := make([]byte, 34)
		record[0], record[32], record[33] = 34, 1, byte('a'+i%26)
		sector = append(sector, record...)
	}
	sector = append(sector, make([]byte, 2048-len(sector))...)
	const count = 1200
	b = append(b, bytes.Repeat(sector, count)...)
	copy(b[16*2048+156+2:], iso9660.Both32(uint32(root/2048)))
	copy(b[16*2048+156+10:], iso9660.Both32(count*2048))
	_, err := iso9660.Open(bytes.NewReader(b), int64(len(b)))
	require.ErrorContains(t, err, "too many entries")
}

func TestOpen_deepTree(t *testing.T) {
	deep := strings.Repeat("d/", 33) + "x"
	b := image(t, iso9660.Image{Files: []iso9660.File{{Path: deep}}})
	_, err := iso9660.Open(bytes.NewReader(b), int64(len(b)))
	require.ErrorContains(t, err, "is nested too deeply")
}

// TestOpen_nameInSeveralEntries has a second NM entry instead of PX.
func TestOpen_nameInSeveralEntries(t *testing.T) {
	name := strings.Repeat("n", 150)
	b := image(t, iso9660.Image{Files: []iso9660.File{{Path: name}}})
	record := volume(t, b).Find(name).Record
	attributes := bytes.Index(b[record:record+254], []byte("PX"))
	require.Positive(t, attributes)
	more := strings.Repeat("m", 31)
	copy(b[record+int64(attributes):], "NM\x24\x01\x00"+more)
	require.NotNil(t, volume(t, b).Find(name+more))
}
