package registry_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
)

const releaseTag = "4.20.8-standin-x86_64"

// releaseOf returns the parsed manifest of the release on a site.
func (s *site) releaseOf() (*medium.Parsed, string) {
	s.Helper()
	got := s.get("/v2/openshift/release-images/manifests/" + releaseTag)
	require.Equal(s, http.StatusOK, got.StatusCode, "%s", got.body)
	parsed, err := medium.ParseManifest(got.body)
	require.NoError(s, err)
	return parsed, got.Header.Get("Docker-Content-Digest")
}

func TestPull_wholeImages(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write("mirror_000001.tar", a)
	s.start()
	for repository, digest := range map[string]string{
		"openshift/release-images":                  pushed.Digest,
		"quay.io/openshift-release-dev/ocp-release": pushed.Digest, // as rules by host name it
		"any/repository":                            pushed.Digest,
	} {
		ref, err := name.NewDigest(s.host()+"/"+repository+"@"+digest, name.Insecure)
		require.NoError(t, err)
		image, err := remote.Image(ref, remote.WithContext(t.Context()))
		require.NoError(t, err)
		layers, err := image.Layers()
		require.NoError(t, err)
		require.Len(t, layers, 2)
		for _, layer := range layers {
			in, err := layer.Compressed()
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, in) // compares the bytes with the digest
			require.NoError(t, errors.Join(err, in.Close()), repository)
		}
	}
}

// TestRange_ofBlobs has the forms of ranges. Nodes send the first one when a pull was interrupted.
func TestRange_ofBlobs(t *testing.T) {
	s := newSite(t)
	a, _ := newArchive(t)
	s.write("mirror_000001.tar", a)
	s.start()
	parsed, _ := s.releaseOf()
	layer := parsed.Layers[1]
	path := "/v2/openshift/release-images/blobs/" + layer.Digest
	whole := s.get(path)
	require.Equal(t, http.StatusOK, whole.StatusCode)
	require.Len(t, whole.body, int(layer.Size))
	for asked, c := range map[string]struct {
		status      int
		from, until int
	}{
		"bytes=100-":       {http.StatusPartialContent, 100, int(layer.Size)},
		"bytes=0-0":        {http.StatusPartialContent, 0, 1},
		"bytes=10-19":      {http.StatusPartialContent, 10, 20},
		"bytes=-5":         {http.StatusPartialContent, int(layer.Size) - 5, int(layer.Size)},
		"bytes=5-99999999": {http.StatusPartialContent, 5, int(layer.Size)},
		"bytes=1-2,4-5":    {http.StatusOK, 0, int(layer.Size)},
		"bytes=9-3":        {http.StatusOK, 0, int(layer.Size)},
		"lines=1-2":        {http.StatusOK, 0, int(layer.Size)},
		"bytes=x-":         {http.StatusOK, 0, int(layer.Size)},
	} {
		got := s.get(path, "Range", asked)
		require.Equal(t, c.status, got.StatusCode, asked)
		require.Equal(t, whole.body[c.from:c.until], got.body, asked)
		if c.status == http.StatusPartialContent {
			require.Equal(t, fmt.Sprintf("bytes %d-%d/%d", c.from, c.until-1, layer.Size),
				got.Header.Get("Content-Range"))
		}
	}
	past := s.get(path, "Range", fmt.Sprintf("bytes=%d-", layer.Size))
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, past.StatusCode)
	require.Equal(t, fmt.Sprintf("bytes */%d", layer.Size), past.Header.Get("Content-Range"))
	head := s.send(http.MethodHead, path, nil)
	require.Equal(t, layer.Size, head.ContentLength)
	known := s.get(path, "If-None-Match", head.Header.Get("Etag"))
	require.Equal(t, http.StatusNotModified, known.StatusCode)
	require.Empty(t, known.body)
}

func TestPull_errors(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write("mirror_000001.tar", a)
	s.start()
	nowhere := "sha256:" + strings.Repeat("0", 64)
	for path, c := range map[string]struct {
		status int
		code   string
	}{
		"/v2/openshift/release-images/manifests/none":         {http.StatusNotFound, "MANIFEST_UNKNOWN"},
		"/v2/openshift/release-images/manifests/" + nowhere:   {http.StatusNotFound, "MANIFEST_UNKNOWN"},
		"/v2/openshift/release-images/manifests/sha256:short": {http.StatusBadRequest, "DIGEST_INVALID"},
		"/v2/openshift/release-images/blobs/" + nowhere:       {http.StatusNotFound, "BLOB_UNKNOWN"},
		"/v2/openshift/release-images/blobs/latest":           {http.StatusBadRequest, "DIGEST_INVALID"},
		"/v2/nobody/has/this/tags/list":                       {http.StatusNotFound, "NAME_UNKNOWN"},
		"/v2/Upper/manifests/latest":                          {http.StatusBadRequest, "NAME_INVALID"},
		"/v2/something":                                       {http.StatusNotFound, "NAME_INVALID"},
		// Absence of a signature must be 404: otherwise the pull of the image fails.
		"/v2/openshift/release-images/manifests/" + strings.Replace(pushed.Digest, ":", "-", 1) + ".sig": {
			http.StatusNotFound, "MANIFEST_UNKNOWN"},
	} {
		got := s.get(path)
		require.Equal(t, c.status, got.StatusCode, path)
		code, message := got.message(t)
		require.Equal(t, c.code, code, path)
		require.NotEmpty(t, message)
	}
}

func TestTags_pages(t *testing.T) {
	s := newSite(t)
	a, _ := newArchive(t)
	s.write("mirror_000001.tar", a)
	s.start()
	repository, err := name.NewRepository(s.host()+"/openshift/release", name.Insecure)
	require.NoError(t, err)
	all, err := remote.List(repository, remote.WithContext(t.Context()))
	require.NoError(t, err)
	paged, err := remote.List(repository, remote.WithContext(t.Context()), remote.WithPageSize(5))
	require.NoError(t, err)
	require.Len(t, all, 12)
	require.Equal(t, all, paged)
}

// TestRange_copiedByTheKernel holds that parts of a large blob, which the kernel copies to a plain
// connection, are those of its range: from a medium, from its copy, and of a pushed blob.
func TestRange_copiedByTheKernel(t *testing.T) {
	s := newSite(t)
	layer := make([]byte, 5<<20)
	for i := range layer {
		layer[i] = byte(i>>16 ^ i>>8 ^ i)
	}
	a := &simulated.Archive{}
	digest, err := a.AddBlob(t.Context(), "team/big", "1", layer)
	require.NoError(t, err)
	s.write(archive1, a)
	s.start()
	path := "/v2/team/big/blobs/" + digest
	require.True(t, bytes.Equal(layer, s.get(path).body), "the first pull verifies")
	requireParts := func() {
		t.Helper()
		require.True(t, bytes.Equal(layer, s.get(path).body))
		last := len(layer) - 1
		for _, part := range [][2]int{{0, 1 << 20}, {100, 3<<20 + 7}, {4 << 20, last}, {last - 9, last}} {
			got := s.get(path, "Range", fmt.Sprintf("bytes=%d-%d", part[0], part[1]))
			require.Equal(t, http.StatusPartialContent, got.StatusCode)
			require.True(t, bytes.Equal(layer[part[0]:part[1]+1], got.body), "%v", part)
		}
	}
	requireParts()
	require.Greater(t, s.registry.Traffic.Total(), int64(2*len(layer)), "what the kernel copies is counted")
	s.stage()
	s.awaitCopy(registry.StageWhole)
	requireParts()
	pushed := append([]byte("pushed"), layer...)
	path, layer = "/v2/team/image/blobs/"+s.pushBlob(pushed), pushed
	requireParts()
}
