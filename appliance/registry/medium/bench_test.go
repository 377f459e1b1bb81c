package medium_test

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/medium"
)

// writeSparse writes an archive of 30 GiB with 13,000 entries, whose blobs are holes.
func writeSparse(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "mirror_000001.tar")
	file, err := os.Create(path)
	require.NoError(b, err)
	w := tar.NewWriter(file)
	add := func(name string, size int64, text string) {
		require.NoError(b, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600}))
		if text != "" {
			_, err := w.Write([]byte(text))
			require.NoError(b, err)
			return
		}
		require.NoError(b, w.Flush()) // writes the header
	}
	for i := range 6000 {
		hex := fmt.Sprintf("%064x", i)
		add("docker/registry/v2/repositories/openshift/release/_layers/sha256/"+hex+"/link", 71, "sha256:"+hex)
	}
	for i := range 2000 {
		add(fmt.Sprintf("working-dir/logs/%d", i), 100, strings.Repeat("x", 100))
	}
	const blob = 6_442_450 // 5,000 of them are 30 GiB
	require.NoError(b, w.Close())
	end, err := file.Seek(-1024, 2) // overwrite the end of the archive
	require.NoError(b, err)
	for i := range 5000 {
		hex := fmt.Sprintf("%064x", i)
		one := tar.NewWriter(file)
		require.NoError(b, one.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Size: blob, Mode: 0o600,
			Name: "docker/registry/v2/blobs/sha256/" + hex[:2] + "/" + hex + "/data"}))
		end += 512 + (blob+511)/512*512
		_, err := file.Seek(end, 0)
		require.NoError(b, err)
	}
	require.NoError(b, file.Truncate(end+1024))
	require.NoError(b, file.Close())
	return path
}

// BenchmarkScan scans an archive of 30 GiB with 13,000 entries, and decodes the stored index.
func BenchmarkScan(b *testing.B) {
	path := writeSparse(b)
	location := medium.Location{Path: path, Container: medium.Tar}
	var index *medium.Index
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			var err error
			index, err = medium.Scan(b.Context(), location, medium.OpenFile, func() {})
			require.NoError(b, err)
			require.Len(b, index.Blobs, 5000)
		}
	})
	b.Run("known", func(b *testing.B) {
		var stored strings.Builder
		require.NoError(b, index.Encode(&stored))
		for b.Loop() {
			fingerprint, err := medium.Fingerprint(location, medium.OpenFile)
			require.NoError(b, err)
			require.NotEmpty(b, fingerprint)
			_, err = medium.Decode(strings.NewReader(stored.String()))
			require.NoError(b, err)
		}
	})
}
