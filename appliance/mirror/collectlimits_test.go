package mirror

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An archive of 1.9 MB with 400,000 names took 11 seconds.
func TestCollect_manyNames(t *testing.T) {
	const names = 400_000
	var tarred, zipped bytes.Buffer
	packed := gzip.NewWriter(&tarred)
	members := tar.NewWriter(packed)
	for n := range names {
		require.NoError(t, members.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d.yaml", n), Typeflag: tar.TypeReg}))
	}
	require.NoError(t, members.Close())
	require.NoError(t, packed.Close())
	entries := zip.NewWriter(&zipped)
	for n := range names {
		_, err := entries.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("%d.yaml", n)})
		require.NoError(t, err)
	}
	require.NoError(t, entries.Close())
	for name, content := range map[string][]byte{"rules.tar.gz": tarred.Bytes(), "rules.zip": zipped.Bytes()} {
		began := time.Now()
		_, err := Collect(name, bytes.NewReader(content))
		require.ErrorContains(t, err, "has more than 100000 entries; import only the directory with "+
			"oc-mirror's results")
		t.Log(name, len(content), time.Since(began))
	}
}
