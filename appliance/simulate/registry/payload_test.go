package registry

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

func newTestRegistry(t *testing.T) *Registry {
	r, err := New(context.Background(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// mirrored pulls the mirror's image for a pull spec of the source.
func mirrored(t *testing.T, host, spec string) (v1.Image, error) {
	spec = strings.NewReplacer(releaseSource, host+"/"+releaseMirror, componentSource,
		host+"/"+componentMirror).Replace(spec)
	ref, err := name.ParseReference(spec)
	require.NoError(t, err)
	return remote.Image(ref)
}

// readWhole reads every file of every layer. The library checks the digests.
func readWhole(t *testing.T, img v1.Image) error {
	layers, err := img.Layers()
	require.NoError(t, err)
	for _, l := range layers {
		blob, err := l.Compressed()
		require.NoError(t, err)
		defer blob.Close()
		files := tar.NewReader(blob)
		for {
			_, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				_, err = io.Copy(io.Discard, files)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func TestPushPayload_completeAndLabelled(t *testing.T) {
	r := newTestRegistry(t)
	pushed, err := PushPayload(context.Background(), r.Addr, Payload{})
	require.NoError(t, err)
	require.Len(t, pushed.Images, len(payloadTags()))
	specs := []string{pushed.Release}
	for _, spec := range pushed.Images {
		specs = append(specs, spec)
	}
	for _, spec := range specs {
		img, err := mirrored(t, r.Addr, spec)
		require.NoError(t, err, spec)
		require.NoError(t, readWhole(t, img), spec)
		config, err := img.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, "true", config.Config.Labels[StandInLabel])
		require.Equal(t, "amd64", config.Architecture)
	}
	require.Contains(t, string(pushed.IDMS), "kind: ImageDigestMirrorSet")
	require.Contains(t, string(pushed.IDMS), r.Addr+"/openshift/release-images")
	again, err := PushPayload(context.Background(), r.Addr, Payload{})
	require.NoError(t, err)
	require.Equal(t, pushed, again, "equal payloads have equal digests")
}

func TestPushPayload_faults(t *testing.T) {
	r := newTestRegistry(t)
	pushed, err := PushPayload(context.Background(), r.Addr, Payload{Version: "4.19.1-standin", Architecture: "aarch64",
		Faults: PayloadFaults{
			Omit: []string{"etcd"}, NotPushed: []string{"cli"}, Truncated: []string{"must-gather"},
			NoImageReferences: true,
			NoInstaller:       true,
		}})
	require.NoError(t, err)
	require.Equal(t, "4.19.1-standin", pushed.Version)
	require.NotContains(t, pushed.Images, "etcd")
	_, err = mirrored(t, r.Addr, pushed.Images["cli"])
	require.Error(t, err)
	img, err := mirrored(t, r.Addr, pushed.Images["must-gather"])
	require.NoError(t, err)
	require.ErrorIs(t, readWhole(t, img), io.ErrUnexpectedEOF)
	for _, spec := range []string{pushed.Release, pushed.Images[installerTag]} {
		img, err := mirrored(t, r.Addr, spec)
		require.NoError(t, err)
		layers, err := img.Layers()
		require.NoError(t, err)
		content, err := layers[len(layers)-1].Uncompressed()
		require.NoError(t, err)
		data, err := io.ReadAll(content)
		require.NoError(t, err)
		require.NotContains(t, string(data), "release-manifests/image-references")
		require.NotContains(t, string(data), "usr/bin/openshift-install")
	}
}

func TestRegistry_closeRemovesFiles(t *testing.T) {
	r, err := New(context.Background(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	_, err = New(context.Background(), r.Addr, nil)
	require.ErrorContains(t, err, "start the simulated registry")
	require.NoError(t, r.Close())
	require.NoDirExists(t, r.dir)
	_, err = http.Get("http://" + r.Addr + "/v2/")
	require.Error(t, err)
}
