package isogen

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cavaliercoder/go-cpio"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"landfall/isogen/skeleton"
)

// archive returns a cpio archive of files, given as pairs of names and contents.
func archive(t testing.TB, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := cpio.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		require.NoError(t, w.WriteHeader(&cpio.Header{Name: members[i], Mode: cpio.ModeRegular | 0o644,
			Size: int64(len(members[i+1]))}))
		_, err := io.WriteString(w, members[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func xzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := xz.WriterConfig{CheckSum: xz.CRC32}.NewWriter(&out)
	require.NoError(t, err)
	_, err = w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zstded(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(b, nil)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestEmbedded_formatsOfAllTools(t *testing.T) {
	one, two := archive(t, "config.ign", "one"), archive(t, "etc/two", "2")
	zeros := make([]byte, 61)
	for name, area := range map[string][]byte{
		"gzip":                         join(gzipped(t, join(one, two)), zeros),
		"gzip without padding":         gzipped(t, join(one, two)),
		"xz":                           join(xzipped(t, join(one, two)), zeros),
		"plain":                        join(one, two, zeros),
		"two gzip archives with zeros": join(gzipped(t, one), zeros, gzipped(t, two), zeros),
		"two archives without zeros":   join(gzipped(t, one), gzipped(t, two)),
		"xz before gzip":               join(xzipped(t, one), zeros, gzipped(t, two), zeros),
		"gzip before xz":               join(gzipped(t, one), xzipped(t, two), zeros),
		"zstd":                         join(zstded(t, join(one, two)), zeros),
		"zstd before gzip":             join(zstded(t, one), zeros, gzipped(t, two)),
		"plain before xz":              join(one, zeros, xzipped(t, two), zeros),
		"a path in two archives": join(gzipped(t, archive(t, "config.ign", "older")), gzipped(t, one),
			gzipped(t, two)),
		"zeros before and inside":          join(zeros, gzipped(t, join(one, zeros, two, zeros))),
		"paths that begin with a dot":      gzipped(t, archive(t, "./config.ign", "one", "./etc/two", "2")),
		"names that are padded with zeros": gzipped(t, archive(t, "config.ign\x00\x00", "one", "etc/two\x00", "2")),
		"two xz archives":                  join(xzipped(t, one), xzipped(t, two)),
	} {
		t.Run(name, func(t *testing.T) {
			p, _, err := unpack(area)
			require.NoError(t, err)
			require.Equal(t, "one", string(p.Ignition))
			require.Equal(t, []File{{Path: "etc/two", Mode: 0o644, Data: []byte("2")}}, p.Files)
		})
	}
}

func TestEmbedded_refusals(t *testing.T) {
	good := archive(t, "config.ign", "a config of some length, so that there is something to cut")
	var link bytes.Buffer
	w := cpio.NewWriter(&link)
	require.NoError(t, w.WriteHeader(&cpio.Header{Name: "etc/link", Mode: cpio.ModeSymlink | 0o777, Size: 4}))
	_, err := io.WriteString(w, "/etc")
	require.NoError(t, err)
	require.NoError(t, w.Close())

	negative := bytes.Clone(good)
	copy(negative[54:], "-0000001")
	broken := xzipped(t, good)
	broken[len(broken)/2] ^= 1
	odd := xzipped(t, good)
	odd[13] |= 1 // two filters
	for name, c := range map[string]struct {
		area []byte
		says string
	}{
		"no archive": {[]byte("hello"),
			"neither cpio nor gzip, xz or zstd (it begins with 68656c6c6f)"},
		"no archive, compressed with gzip": {gzipped(t, []byte("hello, hello")), "truncated or damaged"},
		"a path out of the root": {gzipped(t, archive(t, "../../etc/passwd", "x")),
			`"../../etc/passwd", which is outside of the root directory: do not use this ISO`},
		"an absolute path": {gzipped(t, archive(t, "/etc/passwd", "x")),
			`"/etc/passwd", which is outside of the root directory`},
		"a path with dot-dot": {gzipped(t, archive(t, "etc/../../x", "x")), "is outside of the root directory"},
		"a symbolic link": {gzipped(t, link.Bytes()),
			`"etc/link", which is neither a file nor a directory`},
		"a gzip stream cut short": {gzipped(t, good)[:40], "unexpected EOF"},
		"an xz stream cut short": {xzipped(t, good)[:60],
			"the xz stream cannot be unpacked: the stream is truncated"},
		"an xz stream with unsupported filters": {odd, "the kernel does not support the format of the stream"},
		"an xz stream with an error":            {broken, "the xz stream cannot be unpacked"},
		"a zstd stream cut short": {zstded(t, good)[:40],
			"the zstd stream cannot be unpacked: unexpected EOF"},
		"an archive without its end": {gzipped(t, good[:len(good)-124]), "truncated or damaged"},
		"an archive cut in a file":   {gzipped(t, good[:140]), `truncated in "config.ign"`},
		"a file of a negative size":  {gzipped(t, negative), `truncated in "config.ign"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := unpack(c.area)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestEmbedded_decompressionIsLimited(t *testing.T) {
	zeros := make([]byte, 1<<20)
	for _, packed := range [][]byte{gzipped(t, zeros), xzipped(t, zeros), zstded(t, zeros)} {
		_, _, err := decompress(packed, len(zeros)-1)
		require.ErrorContains(t, err, "the payload unpacks to more than")
		_, _, err = decompress(packed, len(zeros))
		require.NoError(t, err)
	}
}

// TestUnxz_dictionaryIsReduced decompresses a stream whose second block requests a dictionary of 4
// GiB, which the decoder would allocate before it reads a byte.
func TestUnxz_dictionaryIsReduced(t *testing.T) {
	var b bytes.Buffer
	w, err := xz.WriterConfig{BlockSize: 1000}.NewWriter(&b)
	require.NoError(t, err)
	noise := bytes.Repeat([]byte("not quite noise, "), 100)
	_, err = w.Write(noise)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	greedy := b.Bytes()
	second := 12 + bytes.Index(greedy[12+12:], greedy[12:16]) + 12
	require.Greater(t, second, 20)
	require.EqualValues(t, 0x21, greedy[second+2])
	greedy[second+4] = 40
	binary.LittleEndian.PutUint32(greedy[second+8:], crc32.ChecksumIEEE(greedy[second:second+8]))

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, rest, err := unxz(greedy, 1<<20)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, noise, got)
	require.Empty(t, rest)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

func TestEmbedded_tooManyFiles(t *testing.T) {
	const header = 110
	empty := archive(t)
	one := bytes.TrimSuffix(archive(t, "00000000", ""), empty)
	var many []byte
	for i := range maxFiles + 1 {
		copy(one[header:], fmt.Sprintf("%08d", i))
		many = append(many, one...)
	}
	_, _, err := unpack(append(many, empty...))
	require.ErrorContains(t, err, "the cpio archive has more than 65536 files")
}

func TestEmbedded_realInitrds(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set: the real initrds are not available")
	}
	for name, refused := range map[string]string{
		"compressed.img.xz":      "",
		"padded-names.img.xz":    "",
		"redundant.img.xz":       "",
		"traversal-absolute.img": "is outside of the root directory",
		"traversal-relative.img": "is outside of the root directory",
	} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, "coreos-initrd", name))
			require.NoError(t, err)
			if filepath.Ext(name) == ".xz" { // the file is compressed in testdata
				z, err := xz.NewReader(bytes.NewReader(b))
				require.NoError(t, err)
				b, err = io.ReadAll(z)
				require.NoError(t, err)
			}
			p, _, err := unpack(b)
			var iso bytes.Buffer
			require.NoError(t, skeleton.Write(&iso, skeleton.ISO{RootFSSize: 1000,
				Replace: map[string][]byte{"images/ignition.img": append(b, make([]byte, 1000)...)}}))
			embedded, embeddedErr := Embedded(bytes.NewReader(iso.Bytes()), int64(iso.Len()))
			if refused != "" {
				require.ErrorContains(t, err, refused)
				require.ErrorContains(t, embeddedErr, refused)
				return
			}
			require.NoError(t, embeddedErr)
			require.Equal(t, p.Files, embedded.Files)
			require.NoError(t, err)
			require.NotEmpty(t, p.Files)
		})
	}
}

func TestEmbedded_publishedISOHasNoPayload(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, skeleton.Write(&b, skeleton.ISO{RootFSSize: 1000}))
	_, err := Embedded(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.ErrorIs(t, err, ErrNoPayload)
}

func TestEmbedded_damagedArea(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, skeleton.Write(&b, skeleton.ISO{RootFSSize: 1000,
		Replace: map[string][]byte{"images/ignition.img": []byte("garbage")}}))
	_, err := Embedded(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.ErrorContains(t, err, "the embed area of the ISO "+skeleton.DefaultVolumeID+" is damaged")
}

// FuzzUnpack requires that any area is read without a crash, and that a payload survives packing
// and unpacking.
func FuzzUnpack(f *testing.F) {
	one := archive(f, "config.ign", "one", "etc/two", "2")
	f.Add(one)
	f.Add(gzipped(f, one))
	f.Add(xzipped(f, one))
	f.Add(zstded(f, one))
	f.Add(join(gzipped(f, one), make([]byte, 5), xzipped(f, one)))
	f.Fuzz(func(t *testing.T, area []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, _, err := unpack(area)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8*maxUnpacked),
			"memory, including that of growing buffers")
		if err != nil || len(p.Ignition) == 0 {
			return
		}
		packed, err := p.pack()
		if err != nil {
			return // for example a path that is both a file and a directory
		}
		again, _, err := unpack(packed)
		require.NoError(t, err)
		require.Equal(t, p.Ignition, again.Ignition)
		require.Len(t, again.Files, len(p.Files))
	})
}
