package isogen

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/cavaliercoder/go-cpio"
	"github.com/stretchr/testify/require"
)

func TestArchive_withoutConfig(t *testing.T) {
	files := []File{{Path: "usr/local/bin/b", Mode: 0o755, Data: []byte("b")}, {Path: "etc/a", Data: []byte("a")}}
	packed, err := Archive(files)
	require.NoError(t, err)
	again, err := Archive([]File{files[1], files[0]})
	require.NoError(t, err)
	require.Equal(t, packed, again, "the order has no effect")

	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	var names []string
	r := cpio.NewReader(z)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, header.Name)
	}
	require.Equal(t, []string{"etc", "etc/a", "usr", "usr/local", "usr/local/bin", "usr/local/bin/b"}, names)

	_, err = Archive([]File{{Path: "/etc/a"}})
	require.ErrorContains(t, err, `"/etc/a" needs a path relative to the root`)
}
