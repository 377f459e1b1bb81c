package medium_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
)

// scan scans a file as a tar archive, and checks that each extent of the index lies in it.
func scan(t *testing.T, content []byte) (*medium.Index, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mirror_000001.tar")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	index, err := medium.Scan(t.Context(), medium.Location{Path: path, Container: medium.Tar}, medium.OpenFile,
		func() {})
	if err != nil {
		return nil, err
	}
	for digest, blob := range index.Blobs {
		require.True(t, medium.ValidDigest(digest))
		for _, part := range blob {
			require.GreaterOrEqual(t, part.Offset, int64(0))
			require.GreaterOrEqual(t, part.Size, int64(0))
			require.LessOrEqual(t, part.Offset+part.Size, int64(len(content)))
		}
	}
	for repository, tags := range index.Repositories {
		require.True(t, medium.ValidRepository(repository))
		for tag, digest := range tags {
			require.True(t, medium.ValidTag(tag) || medium.ValidDigest(tag))
			require.True(t, medium.ValidDigest(digest))
		}
	}
	var encoded bytes.Buffer
	require.NoError(t, index.Encode(&encoded))
	again, err := medium.Decode(&encoded)
	require.NoError(t, err)
	require.Equal(t, index.Identity, again.Identity)
	return index, nil
}

// FuzzScan_tar scans archives with any bytes.
func FuzzScan_tar(f *testing.F) {
	a := &simulated.Archive{}
	_, err := a.AddBlob(f.Context(), "team/image", "1", []byte("layer"))
	require.NoError(f, err)
	var archive bytes.Buffer
	require.NoError(f, a.Write(&archive))
	f.Add(archive.Bytes())
	f.Add(archive.Bytes()[:archive.Len()/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		_, _ = scan(t, content) // must neither panic nor leave the file
	})
}

// FuzzScan_link scans an archive whose tag has any link, under any repository and tag.
func FuzzScan_link(f *testing.F) {
	f.Add("team/image", "1", "sha256:"+string(bytes.Repeat([]byte("a"), 64)))
	f.Add("../..", "..", "sha256:../../etc")
	f.Add("a", "b", "")
	f.Fuzz(func(t *testing.T, repository, tag, link string) {
		content, err := tarOf(map[string]string{
			"docker/registry/v2/repositories/" + repository + "/_manifests/tags/" + tag + "/current/link": link})
		if err != nil {
			t.Skip("no tar archive has this name")
		}
		_, _ = scan(t, content) // must neither panic nor leave the file
	})
}

// FuzzScan_layout scans an OCI layout with any index.
func FuzzScan_layout(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",` +
		`"digest":"sha256:aaaa","size":1,"annotations":{"org.opencontainers.image.ref.name":"quay.io/a/b:1"}}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, index []byte) {
		content, err := tarOf(map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`,
			"index.json": string(index)})
		require.NoError(t, err)
		_, _ = scan(t, content) // must neither panic nor leave the file
	})
}

// tarOf returns a tar archive of files.
func tarOf(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)),
			Mode: 0o600}); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
