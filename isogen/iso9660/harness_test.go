package iso9660_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/isogen/iso9660"
)

var files = []iso9660.File{
	{Path: "coreos/igninfo.json", Data: []byte("{}")},
	{Path: "images/pxeboot/a name that is much longer than level 1 allows.img", Data: bytes.Repeat([]byte("x"), 5000)},
	{Path: "images/empty.img"},
	{Path: ".cmdline", Data: []byte("args")},
}

func image(t testing.TB, img iso9660.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, iso9660.Write(&b, img))
	return b.Bytes()
}

func volume(t testing.TB, b []byte) *iso9660.Volume {
	t.Helper()
	v, err := iso9660.Open(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	return v
}

// sparse is an image of any size with only a few bytes.
type sparse map[int64][]byte

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	for at, b := range s {
		for i := range b {
			if k := at + int64(i) - off; k >= 0 && k < int64(len(p)) {
				p[k] = b[i]
			}
		}
	}
	return len(p), nil
}
