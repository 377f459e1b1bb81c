package isogen_test

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"landfall/isogen"
	"landfall/isogen/iso9660"
	"landfall/isogen/skeleton"
)

// small sets the sizes of all files whose size is not given to small values.
func small(iso skeleton.ISO) skeleton.ISO {
	iso.RootFSSize, iso.EmbedSize = cmp.Or(iso.RootFSSize, 100_001), cmp.Or(iso.EmbedSize, areaSize)
	return iso
}

// write writes a generated live ISO to a file.
func write(t testing.TB, iso skeleton.ISO) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, skeleton.Write(&b, small(iso)))
	return writeBytes(t, b.Bytes())
}

func writeBytes(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "live.iso")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func open(t testing.TB, path string) *isogen.Base {
	t.Helper()
	base, err := isogen.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, base.Close()) })
	return base
}

// realISO unpacks one of the skeletons of real ISOs.
func realISO(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set: the real ISO skeletons are not available")
	}
	f, err := os.Open(filepath.Join(dir, "coreos-iso", name+".iso.xz"))
	require.NoError(t, err)
	z, err := xz.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return writeBytes(t, b)
}

var payload = isogen.Payload{
	Ignition: []byte(`{"ignition":{"version":"3.1.0"}}`),
	Files: []isogen.File{
		{Path: "etc/coreos-firstboot-network/eth1.nmconnection", Mode: 0o600, Data: []byte("[connection]\nid=eth1\n")},
		{Path: "etc/coreos-firstboot-network/eth0.nmconnection", Mode: 0o600, Data: []byte("[connection]\nid=eth0\n")},
		{Path: "empty", Mode: 0o755, Data: []byte{}},
	},
}

// requireRoundTrip embeds a payload, reads it back, and requires that all other bytes are those of
// the base.
func requireRoundTrip(t *testing.T, base *isogen.Base) {
	t.Helper()
	image, err := base.Full(payload)
	require.NoError(t, err)
	content := contents(t, image)
	require.EqualValues(t, base.Size(), image.Size())
	require.Len(t, content, int(image.Size()))

	got, err := isogen.Embedded(bytes.NewReader(content), image.Size())
	require.NoError(t, err)
	require.Equal(t, payload.Ignition, got.Ignition)
	require.Equal(t, []isogen.File{payload.Files[2], payload.Files[1], payload.Files[0]}, got.Files, "sorted by path")

	original, err := os.ReadFile(base.Path())
	require.NoError(t, err)
	first, last := -1, -1
	for i := range content {
		if content[i] != original[i] {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	require.Less(t, int64(last-first), base.EmbedAreaSize())
}

func contents(t testing.TB, image *isogen.Image) []byte {
	t.Helper()
	r := image.NewReader()
	b := make([]byte, image.Size())
	_, err := io.ReadFull(r, b)
	require.NoError(t, err)
	n, err := r.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Equal(t, io.EOF, err)
	require.NoError(t, r.Close())
	return b
}

func full(t testing.TB, base *isogen.Base, config string) *isogen.Image {
	t.Helper()
	image, err := base.Full(isogen.Payload{Ignition: []byte(config)})
	require.NoError(t, err)
	return image
}

func skeletonBytes(t testing.TB, iso skeleton.ISO) ([]byte, *iso9660.Volume) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, skeleton.Write(&b, small(iso)))
	v, err := iso9660.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	return b.Bytes(), v
}

// fileIn returns the content of a file of an ISO.
func fileIn(t testing.TB, iso []byte, path string) []byte {
	t.Helper()
	v, err := iso9660.Open(bytes.NewReader(iso), int64(len(iso)))
	require.NoError(t, err)
	e := v.Find(path)
	require.NotNil(t, e, path)
	return iso[e.Offset : e.Offset+e.Size]
}

func edits(op isogen.Operation, values ...string) (args []isogen.KernelArgument) {
	for _, v := range values {
		args = append(args, isogen.KernelArgument{Operation: op, Value: v})
	}
	return args
}
