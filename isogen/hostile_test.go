package isogen_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

// TestAreas_overlaps moves the embed area over other structures, which an embedded config would
// destroy.
func TestAreas_overlaps(t *testing.T) {
	good, v := skeletonBytes(t, skeleton.ISO{})
	area := v.Find("images/ignition.img")
	require.NotZero(t, v.BootCatalog)
	table := int64(binary.LittleEndian.Uint32(good[16*2048+140:])) * 2048
	for name, c := range map[string]struct {
		offset, size int64
		says         string
	}{
		"the system area":        {0, 2048, "2048 bytes at 0 overlap the system area"},
		"the volume descriptors": {17 * 2048, 100, "overlap the volume descriptors"},
		"the boot catalog":       {v.BootCatalog, 100, "overlap the boot catalog"},
		"a path table":           {table, 2048, "overlap a path table"},
		"the root directory":     {v.Root.Offset, 2048, "overlap the directory /"},
		"another directory":      {v.Find("EFI").Offset, 1, "overlap the directory /EFI"},
		"Joliet's directories": {v.Supplementary[0].Find("coreos").Offset, 2048,
			"overlap the directory /coreos"},
		"an area for kernel argument": {v.Find("isolinux/isolinux.cfg").Offset, v.Find("isolinux/isolinux.cfg").Size,
			"overlap the Ignition embed area"},
		"a part of a file": {v.Find("images/pxeboot/rootfs.img").Offset + 2048, 2048,
			"overlap both ignition.img and rootfs.img"},
		"a file and more": {area.Offset, area.Size + 4096, "overlap both ignition.img and initrd.img"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good)
			copy(b[area.Record+2:], iso9660.Both32(uint32(c.offset/2048)))
			copy(b[area.Record+10:], iso9660.Both32(uint32(c.size)))
			_, err := isogen.Open(writeBytes(t, b))
			var wrong *isogen.EmbedAreaError
			require.ErrorAs(t, err, &wrong)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "use the live ISO of a CoreOS release, as it was published")
		})
	}
}

func TestAreas_overlappingHeader(t *testing.T) {
	for says, at := range map[string]uint64{"overlap the volume descriptors": 33 << 10,
		"overlap the system area": 32000} {
		path := write(t, skeleton.ISO{Replace: map[string][]byte{"coreos/igninfo.json": nil,
			"images/ignition.img": nil}, System: header(at, 4096)})
		_, err := isogen.Open(path)
		require.ErrorContains(t, err, says)
	}
}

// TestLargeISO_filesBehind4GiB places all parts of an image after the first 4 GiB. Sector numbers
// must be multiplied in 64 bits, otherwise wrong bytes are overwritten. The file is sparse.
func TestLargeISO_filesBehind4GiB(t *testing.T) {
	const shift = 6 << 30
	b, v := skeletonBytes(t, skeleton.ISO{})
	moved := []string{"images/ignition.img", "EFI/redhat/grub.cfg", "isolinux/isolinux.cfg", "coreos/kargs.json",
		"coreos/igninfo.json"}
	for _, path := range moved {
		for _, link := range v.Links(v.Find(path)) {
			copy(b[link.Record+2:], iso9660.Both32(uint32((link.Offset+shift)/2048)))
		}
	}
	for _, v := range append(v.Supplementary, v) {
		copy(b[v.Descriptor+80:], iso9660.Both32(uint32((int64(len(b))+shift)/2048)))
	}
	path := filepath.Join(t.TempDir(), "large.iso")
	f, err := os.Create(path)
	require.NoError(t, err)
	for _, at := range []int64{0, shift} {
		_, err = f.WriteAt(b, at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())

	base := open(t, path)
	require.EqualValues(t, len(b)+shift, base.Size())
	require.EqualValues(t, v.Find("images/ignition.img").Offset+shift, base.Info().EmbedArea.Offset)
	for name, p := range map[string]isogen.Payload{"in the area": payload, "relocated": incompressible(t, larger)} {
		t.Run(name, func(t *testing.T) {
			image, err := base.Full(p, edits(isogen.Append, "quiet")...)
			require.NoError(t, err)
			got, err := isogen.Embedded(image.NewReader(), image.Size())
			require.NoError(t, err)
			require.Equal(t, p.Ignition, got.Ignition)
			require.Equal(t, standard+" quiet", got.KernelArguments)
			require.Greater(t, got.Area.Offset, int64(shift))

			low := make([]byte, len(b))
			_, err = image.NewReader().ReadAt(low, 0)
			require.NoError(t, err)
			differs := 0
			for i := range low {
				if low[i] != b[i] {
					differs++
				}
			}
			require.LessOrEqual(t, differs, 2*16+2*8, "below 4 GiB, only records and sizes differ")

			var tail bytes.Buffer
			r := image.NewReader()
			at := image.Size() - 100_000
			_, err = r.Seek(at, io.SeekStart)
			require.NoError(t, err)
			_, err = r.WriteTo(&tail)
			require.NoError(t, err)
			require.NoError(t, r.Close())
			whole := make([]byte, 100_000)
			_, err = image.NewReader().ReadAt(whole, at)
			require.NoError(t, err)
			require.True(t, bytes.Equal(whole, tail.Bytes()))
		})
	}
}

// TestLargeISO_sizesAbove4GiB uses a root file system in several records, which the format requires
// from 4 GiB.
func TestLargeISO_sizesAbove4GiB(t *testing.T) {
	const piece = 4<<30 - 2048
	b, v := skeletonBytes(t,
		skeleton.ISO{Links: map[string]string{"images/pxeboot/rootfs.imh": "images/pxeboot/rootfs.img"}})
	end := int64(len(b))
	first, second := v.Find("images/pxeboot/rootfs.img"), v.Find("images/pxeboot/rootfs.imh")
	copy(b[first.Record+2:], iso9660.Both32(uint32(end/2048)))
	copy(b[first.Record+10:], iso9660.Both32(piece))
	b[first.Record+25] |= 0x80
	copy(b[second.Record+2:], iso9660.Both32(uint32((end+piece)/2048)))
	copy(b[second.Record+10:], iso9660.Both32(1<<30))
	size := end + piece + 1<<30
	copy(b[v.Descriptor+80:], iso9660.Both32(uint32(size/2048)))
	path := writeBytes(t, b)
	require.NoError(t, os.Truncate(path, size))

	base := open(t, path)
	require.Equal(t, size, base.Size())
	image, err := base.Full(incompressible(t, larger))
	require.NoError(t, err)
	require.Contains(t, image.Segments(), isogen.Segment{Name: "rootfs", Start: end, End: size})
	got, err := isogen.Embedded(image.NewReader(), image.Size())
	require.NoError(t, err)
	require.True(t, got.Relocated)
}

// TestAreas_embedAreaInSeveralRecords uses an area that cannot be moved, because all its records
// would have to change.
func TestAreas_embedAreaInSeveralRecords(t *testing.T) {
	b, v := skeletonBytes(t, skeleton.ISO{Replace: map[string][]byte{"images/ignition.imh": make([]byte, 4096)}})
	first, second := v.Find("images/ignition.img"), v.Find("images/ignition.imh")
	require.Equal(t, first.Offset+first.Size, second.Offset)
	b[first.Record+25] |= 0x80
	base := open(t, writeBytes(t, b))
	require.EqualValues(t, areaSize+4096, base.EmbedAreaSize())
	require.False(t, base.Info().EmbedArea.Relocatable)
	_, err := base.Full(incompressible(t, larger))
	var large *isogen.TooLargeError
	require.ErrorAs(t, err, &large)
}

func TestEmbedded_hugeAreaIsNotRead(t *testing.T) {
	b, v := skeletonBytes(t, skeleton.ISO{})
	size := int64(len(b)) + 1<<30
	area := v.Find("images/ignition.img")
	copy(b[area.Record+2:], iso9660.Both32(uint32(len(b)/2048)))
	copy(b[area.Record+10:], iso9660.Both32(1<<30))
	path := writeBytes(t, b)
	require.NoError(t, os.Truncate(path, size))
	f, err := os.Open(path)
	require.NoError(t, err)
	_, err = isogen.Embedded(f, size)
	require.ErrorContains(t, err, "has 1073741824 bytes, more than the 67108864 that are read")
	require.NoError(t, f.Close())
}

// TestReader_baseShrinksOrDisappears tests the check that a server makes before each download.
func TestReader_baseShrinksOrDisappears(t *testing.T) {
	path := write(t, skeleton.ISO{})
	base := open(t, path)
	image := full(t, base, "config")
	require.NoError(t, image.Intact())
	require.NoError(t, os.Truncate(path, 100_000))
	var changed *isogen.BaseError
	require.ErrorAs(t, image.Intact(), &changed)
	_, err := image.SHA256(context.Background())
	require.ErrorAs(t, err, &changed)
	_, err = image.NewReader().ReadAt(make([]byte, 1), 0)
	require.ErrorAs(t, err, &changed)
}
