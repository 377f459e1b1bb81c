package isogen_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

// incompressible returns a payload whose packed size is little more than that of its data.
func incompressible(t testing.TB, size int) isogen.Payload {
	t.Helper()
	noise := make([]byte, size)
	_, err := rand.NewChaCha8([32]byte{}).Read(noise)
	require.NoError(t, err)
	return isogen.Payload{Ignition: noise}
}

func TestRelocation_largePayloadMovesToEnd(t *testing.T) {
	for name, c := range map[string]struct {
		iso     skeleton.ISO
		records int // number of directory records of the embed area
	}{
		"current": {skeleton.ISO{}, 2},
		"aarch64": {skeleton.ISO{Architecture: isogen.AArch64}, 2},
		"ppc64le": {skeleton.ISO{Architecture: isogen.PPC64LE}, 2},
		"of 2020": {skeleton.ISO{Age: "2020-09"}, 2},
		"of 2021": {skeleton.ISO{Age: "2021-09"}, 2},
		"with a hard link": {skeleton.ISO{Links: map[string]string{
			"images/again.img": "images/ignition.img"}}, 4},
		"with the length in igninfo": {skeleton.ISO{Replace: map[string][]byte{
			"coreos/igninfo.json": []byte(`{"file": "images/ignition.img", "offset": 0, "length": 32768}`)}}, 2},
		"with another file as the area": {skeleton.ISO{Replace: map[string][]byte{
			"coreos/igninfo.json": []byte(`{"file": "images/other.img"}`), "images/other.img": make([]byte, 4096)}}, 2},
		"with an incomplete last sector": {skeleton.ISO{Trailing: 700}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, write(t, c.iso))
			p := incompressible(t, larger)
			image, err := base.Full(p)
			require.NoError(t, err)
			content := contents(t, image)
			require.Zero(t, len(content)%iso9660.SectorSize)

			got, err := isogen.Embedded(bytes.NewReader(content), image.Size())
			require.NoError(t, err)
			require.Equal(t, p.Ignition, got.Ignition)
			require.True(t, got.Relocated)
			require.Equal(t, base.Info().EmbedArea.File, got.Area.File)
			require.Equal(t, image.Size(), got.Area.Offset+got.Area.Length)

			v, err := iso9660.Open(bytes.NewReader(content), image.Size())
			require.NoError(t, err)
			require.Equal(t, image.Size(), v.Size)
			require.Equal(t, image.Size(), v.Supplementary[0].Size, "Joliet")
			links := v.Links(v.Find(got.Area.File))
			require.Len(t, links, c.records)
			for _, link := range links {
				record := content[link.Record:]
				require.Equal(t, binary.LittleEndian.Uint32(record[2:]), binary.BigEndian.Uint32(record[6:]))
				require.Equal(t, binary.LittleEndian.Uint32(record[10:]), binary.BigEndian.Uint32(record[14:]))
			}

			again, err := open(t, writeBytes(t, content)).Full(isogen.Payload{Ignition: []byte("a small one")})
			require.NoError(t, err, "a relocated image can be used as a base")
			got, err = isogen.Embedded(bytes.NewReader(contents(t, again)), again.Size())
			require.NoError(t, err)
			require.Equal(t, "a small one", string(got.Ignition))
			require.False(t, got.Relocated)
		})
	}
}

func TestRelocation_fittingPayloadStays(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{EmbedSize: 8192}))
	image, err := base.Full(isogen.Payload{Ignition: bytes.Repeat([]byte("a"), 1<<20)})
	require.NoError(t, err, "the limit applies to the packed size")
	require.Equal(t, base.Size(), image.Size())
	got, err := isogen.Embedded(image.NewReader(), image.Size())
	require.NoError(t, err)
	require.False(t, got.Relocated)
	require.Equal(t, "Landfall", got.Maker)
}

// TestRelocation_areaIsErased requires that the previous config of the base leaves no trace.
func TestRelocation_areaIsErased(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	used := open(t, writeBytes(t, contents(t, full(t, base, "an older secret"))))
	large := incompressible(t, larger)
	fromUsed, err := used.Full(large)
	require.NoError(t, err)
	fromNew, err := base.Full(large)
	require.NoError(t, err)
	require.True(t, bytes.Equal(contents(t, fromNew), contents(t, fromUsed)))
}

func TestRelocation_areaInsideFileCannotMove(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Architecture: isogen.S390X}))
	require.False(t, base.Info().EmbedArea.Relocatable)
	_, err := base.Full(incompressible(t, larger))
	var large *isogen.TooLargeError
	require.ErrorAs(t, err, &large)
	require.EqualValues(t, areaSize, large.Limit)
	require.Greater(t, large.Packed, int64(larger))
	require.ErrorContains(t, err,
		"the base ISO's embed area has 32768 and cannot grow, because it is a part of images/cdboot.img: shorten")
}
