package isogen_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

// areaSize is the size of the embed areas of test ISOs. larger is the size of a payload that is
// placed at the end. Both are smaller than in published ISOs, so that tests can generate thousands
// of images in seconds.
const (
	areaSize = 32 << 10
	larger   = 60_000
)

func TestOpen_realISOsOfAllAges(t *testing.T) {
	for name, want := range map[string]struct {
		volumeID, version, arch string
		area                    int64
	}{
		"embed-areas-2020-09":        {"rhcos-46.82.202112161843-0", "46.82.202112161843-0", isogen.X86_64, 262144},
		"embed-areas-2021-01":        {"rhcos-47.84.202112162337-0", "47.84.202112162337-0", isogen.X86_64, 262144},
		"embed-areas-2021-09":        {"fedora-coreos-34.20210921.dev.0", "34.20210921.dev.0", isogen.X86_64, 262144},
		"embed-areas-2022-02":        {"fedora-coreos-35.20220217.dev.0", "35.20220217.dev.0", isogen.X86_64, 262144},
		"embed-areas-2023-07.x86_64": {"fedora-coreos-38.20230718.dev.0", "38.20230718.dev.0", isogen.X86_64, 262144},
		"embed-areas-2023-07.s390x":  {"fedora-coreos-38.20230718.dev.0", "38.20230718.dev.0", isogen.S390X, 262144},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, realISO(t, name))
			require.Equal(t, want.volumeID, base.VolumeID())
			require.Equal(t, want.version, base.Version())
			require.Equal(t, want.arch, base.Architecture())
			require.Equal(t, want.area, base.EmbedAreaSize())
			requireRoundTrip(t, base)
		})
	}
}

func TestOpen_realISOOfOtherProduct(t *testing.T) {
	_, err := isogen.Open(realISO(t, "synthetic"))
	require.ErrorIs(t, err, isogen.ErrNoEmbedArea)
}

func TestOpen_generatedISOsOfAllArchitectures(t *testing.T) {
	for _, arch := range []string{isogen.X86_64, isogen.AArch64, isogen.PPC64LE, isogen.S390X} {
		t.Run(arch, func(t *testing.T) {
			base := open(t, write(t, skeleton.ISO{Architecture: arch}))
			require.Equal(t, arch, base.Architecture())
			require.Equal(t, skeleton.DefaultVolumeID, base.VolumeID())
			require.Equal(t, "9.6.20250523-0", base.Version())
			require.EqualValues(t, areaSize, base.EmbedAreaSize())
			require.NoError(t, base.Require(arch))
			requireRoundTrip(t, base)
		})
	}
}

// TestArchitecture_byLayout removes the kernel, so that only the directory tree shows the
// architecture.
func TestArchitecture_byLayout(t *testing.T) {
	for _, arch := range []string{isogen.X86_64, isogen.AArch64, isogen.PPC64LE} {
		path := write(t, skeleton.ISO{Architecture: arch, Replace: map[string][]byte{"images/pxeboot/vmlinuz": nil}})
		require.Equal(t, arch, open(t, path).Architecture())
	}
}

func TestRequire_wrongArchitecture(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{Architecture: "aarch64"}))
	require.NoError(t, base.Require("arm64"), "the API has both names")

	var wrong *isogen.ArchitectureError
	require.ErrorAs(t, base.Require("x86_64"), &wrong)
	require.Equal(t, "the base ISO "+base.Path()+
		" is for aarch64, not for x86_64: configure the live ISO of that architecture", wrong.Error())
}

func TestVersion_volumeOfOtherProduct(t *testing.T) {
	require.Empty(t, open(t, write(t, skeleton.ISO{VolumeID: "my-own-build"})).Version())
}

func TestEmbedArea_orderOfDescriptions(t *testing.T) {
	info := func(s string) map[string][]byte {
		return map[string][]byte{"coreos/igninfo.json": []byte(s), "images/other.img": bytes.Repeat([]byte{7}, 10_000)}
	}
	for name, c := range map[string]struct {
		iso  skeleton.ISO
		size int64
	}{
		"igninfo.json before ignition.img": {skeleton.ISO{Replace: info(`{"file":"images/other.img"}`)}, 10_000},
		"a part of a file": {
			skeleton.ISO{Replace: info(`{"file":"images/other.img","offset":100,"length":5000}`)}, 5000},
		"from an offset to the file's end": {skeleton.ISO{Replace: info(`{"file":"/images/other.img","offset":100}`)},
			9900},
		"ignition.img without a description": {skeleton.ISO{EmbedSize: 8192,
			Replace: map[string][]byte{"coreos/igninfo.json": nil}}, 8192},
		"the header of 2020": {skeleton.ISO{Replace: map[string][]byte{"coreos/igninfo.json": nil,
			"images/ignition.img": nil}, System: header(50*2048, 4096)}, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t, write(t, c.iso))
			require.Equal(t, c.size, base.EmbedAreaSize())
			requireRoundTrip(t, base)
		})
	}
}

// header returns a system area with a coreiso+ header.
func header(offset, length uint64) []byte {
	b := append(make([]byte, 32744), "coreiso+"...)
	for _, v := range []uint64{offset, length} {
		for range 8 {
			b = append(b, byte(v))
			v >>= 8
		}
	}
	return b
}

// TestOpen_badBase opens one invalid base per error.
func TestOpen_badBase(t *testing.T) {
	var good bytes.Buffer
	require.NoError(t, skeleton.Write(&good, skeleton.ISO{RootFSSize: 100_000}))
	without := func(paths ...string) []byte {
		var b bytes.Buffer
		replace := map[string][]byte{}
		for _, p := range paths {
			replace[p] = nil
		}
		require.NoError(t, skeleton.Write(&b, skeleton.ISO{Replace: replace, RootFSSize: 100_000}))
		return b.Bytes()
	}
	info := func(s string) []byte {
		var b bytes.Buffer
		require.NoError(t, skeleton.Write(&b, skeleton.ISO{Replace: map[string][]byte{"coreos/igninfo.json": []byte(s)},
			RootFSSize: 100_000}))
		return b.Bytes()
	}
	patched := func(offset int, with ...byte) []byte {
		b := bytes.Clone(good.Bytes())
		copy(b[offset:], with)
		return b
	}
	shrunk := patched(32768+80, 100)[:100*iso9660.SectorSize]
	clear(shrunk[32768+81 : 32768+84])
	var headerOutside bytes.Buffer
	require.NoError(t, skeleton.Write(&headerOutside, skeleton.ISO{
		Replace: map[string][]byte{"coreos/igninfo.json": nil, "images/ignition.img": nil},
		System:  header(1<<63, 1<<62), RootFSSize: 100_000}))

	for name, c := range map[string]struct {
		content []byte
		says    []string
	}{
		"an empty file": {nil, []string{"not an ISO 9660 image", "only 0 bytes",
			"give the path of a CoreOS live ISO"}},
		"not an ISO": {bytes.Repeat([]byte("qcow2"), 20_000),
			[]string{"not an ISO 9660 image", "no CD001 mark at byte 32769"}},
		"truncated before the contents": {good.Bytes()[:48_000],
			[]string{"the file has 48000 bytes, but the volume needs", "the copy is incomplete, download it again"}},
		"truncated by a sector": {good.Bytes()[:good.Len()-2048],
			[]string{"but the volume needs", "download it again"}},
		"a file behind the end": {shrunk, []string{"but the file /zipl.prm needs",
			"download it again"}},
		"another block size": {patched(32768+128, 0, 2), []string{"the logical block size is 512",
			"compare its SHA-256"}},
		"no embed area": {without("coreos/igninfo.json", "images/ignition.img"),
			[]string{"rhcos-9.6.20250523-0", "no Ignition embed area", "use the live ISO of a CoreOS release"}},
		"igninfo.json is no JSON": {info("{"),
			[]string{"coreos/igninfo.json is invalid: unexpected end of JSON input"}},
		"igninfo.json names no file": {info("{}"), []string{`the ISO has no file ""`}},
		"igninfo.json names a missing file": {info(`{"file":"images/nowhere.img"}`),
			[]string{`the ISO has no file "images/nowhere.img"`}},
		"igninfo.json names a directory": {info(`{"file":"images"}`), []string{`the ISO has no file "images"`}},
		"igninfo.json points outside": {info(`{"file":"images/ignition.img","offset":262000,"length":145}`),
			[]string{"145 bytes at 262000 are outside of images/ignition.img, which has 262144"}},
		"igninfo.json with a negative offset": {info(`{"file":"images/ignition.img","offset":-1}`),
			[]string{"at -1 are outside"}},
		"igninfo.json with an overflowing length": {
			info(`{"file":"images/ignition.img","offset":8,"length":9223372036854775807}`),
			[]string{"are outside of images/ignition.img"}},
		"igninfo.json with an empty area": {info(`{"file":"images/ignition.img","length":0}`),
			[]string{"the area is empty"}},
		"a header that points outside": {headerOutside.Bytes(), []string{"the coreiso+ header is invalid",
			"outside of the ISO"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeBytes(t, c.content)
			_, err := isogen.Open(path)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "\n")
			for _, s := range append(c.says, path) {
				require.ErrorContains(t, err, s)
			}
		})
	}
}

func TestOpen_missingBase(t *testing.T) {
	_, err := isogen.Open(filepath.Join(t.TempDir(), "nowhere.iso"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "check the path and its permissions")
}

func TestOpen_directory(t *testing.T) {
	_, err := isogen.Open(t.TempDir())
	require.ErrorContains(t, err, "is not a regular file: give the path of a CoreOS live ISO")
}

func TestOpen_typedErrors(t *testing.T) {
	path := write(t, skeleton.ISO{})
	require.NoError(t, os.Truncate(path, 100_000))
	_, err := isogen.Open(path)
	var truncated *iso9660.TruncatedError
	require.ErrorAs(t, err, &truncated)
	require.EqualValues(t, 100_000, truncated.Size)
}
