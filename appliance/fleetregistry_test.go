//go:build etcd

package appliance_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/membership"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/simulate/registry"
	"landfall/porttest"
	"landfall/randtest"
)

// reference returns the reference of an image in the registry of a member.
func (m *fleetMember) reference(t *testing.T, image string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(m.registry + "/" + image)
	require.NoError(t, err)
	return ref
}

func (m *fleetMember) push(t *testing.T, image string, content v1.Image) {
	t.Helper()
	require.NoError(t, remote.Write(m.reference(t, image), content, remote.WithContext(t.Context())))
}

// requirePulls checks that a member serves an image byte for byte.
func (m *fleetMember) requirePulls(t *testing.T, image string, content v1.Image) {
	t.Helper()
	pulled, err := remote.Image(m.reference(t, image), remote.WithContext(t.Context()))
	require.NoError(t, err, m.name)
	got, err := pulled.RawManifest()
	require.NoError(t, err)
	want, err := content.RawManifest()
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	layers, err := content.Layers()
	require.NoError(t, err)
	for _, layer := range layers {
		digest, err := layer.Digest()
		require.NoError(t, err)
		blob, err := pulled.LayerByDigest(digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(bytesOf(t, layer), bytesOf(t, blob)), "%s: %s", m.name, digest)
	}
}

func bytesOf(t *testing.T, layer v1.Layer) []byte {
	t.Helper()
	content, err := layer.Compressed()
	require.NoError(t, err)
	defer content.Close()
	all, err := io.ReadAll(content)
	require.NoError(t, err)
	return all
}

// hasLayers reports whether a member has all layers of an image in its directory.
func (m *fleetMember) hasLayers(t *testing.T, content v1.Image) bool {
	layers, err := content.Layers()
	require.NoError(t, err)
	return !slices.ContainsFunc(layers, func(layer v1.Layer) bool {
		digest, err := layer.Digest()
		require.NoError(t, err)
		file, err := overlay.OpenBlob(filepath.Join(m.dir, "registry"), digest.Hex)
		return err != nil || file.Close() != nil
	})
}

// awaitCopies waits until all members have the layers of an image, and the status says so.
func (f *fleetTest) awaitCopies(t *testing.T, content v1.Image) {
	t.Helper()
	for _, m := range f.members {
		soon(t, m.name+" has the image", func() bool { return m.hasLayers(t, content) })
	}
	soon(t, "no member lacks blobs", func() bool {
		status, err := f.members[0].status()
		return err == nil && !slices.ContainsFunc(status.Members, func(m membership.Member) bool {
			return m.MissingBlobs > 0
		})
	})
}

// TestFleetRegistry pushes images to a fleet of three members, kills the leader, and pulls from the
// others, also without etcd.
func TestFleetRegistry(t *testing.T) {
	media := t.TempDir()
	archive := &registry.Archive{}
	release, err := archive.AddPayload(t.Context(), registry.Payload{})
	require.NoError(t, err)
	require.NoError(t, archive.WriteFile(filepath.Join(media, archiveName)))
	f := newFleetTest(t, randtest.New(t, 0), func(s *site) {
		s.config.Registry.Listen, s.config.Registry.TLS = porttest.Reserve(t), false
		s.config.Registry.Media = []string{media}
	})
	leader := f.leader(t)
	follower := f.members[1]
	require.NotEqual(t, leader, follower)
	first, err := random.Image(200_000, 3)
	require.NoError(t, err)

	leader.push(t, "site/app:v1", first)
	follower.push(t, "site/app:v2", first)
	for _, m := range f.members {
		m.requirePulls(t, "site/app:v1", first)
		m.requirePulls(t, "site/app:v2", first)
	}
	f.awaitCopies(t, first)
	last, err := random.Image(200_000, 3)
	require.NoError(t, err)
	leader.push(t, "site/last:v1", last)

	leader.kill(t) // another member has what it acknowledged
	f.resign(t)
	next := f.leaderBesides(t, leader)
	f.leader(t)
	for _, m := range f.members {
		if m != leader {
			m.requirePulls(t, "site/app:v1", first)
			soon(t, m.name+" has copied the last image", func() bool {
				_, err := remote.Head(m.reference(t, "site/last:v1"), remote.WithContext(t.Context()))
				return err == nil && m.hasLayers(t, last)
			})
			m.requirePulls(t, "site/last:v1", last)
		}
	}
	second, err := random.Image(200_000, 3)
	require.NoError(t, err)
	next.push(t, "site/app:v3", second)
	require.NoError(t, remote.Delete(next.reference(t, "site/app:v1"), remote.WithContext(t.Context())))
	leader.start(t)
	f.awaitCopies(t, second)
	for _, m := range f.members {
		tags, err := remote.List(m.reference(t, "site/app").Context(), remote.WithContext(t.Context()))
		require.NoError(t, err)
		require.Equal(t, []string{"v2", "v3"}, tags, m.name)
	}

	leader = f.leader(t)
	f.server.Kill()
	leader.kill(t)
	for _, m := range f.members {
		if m == leader {
			continue
		}
		m.requirePulls(t, "site/app:v2", first)
		m.requirePulls(t, "site/app:v3", second)
		answer, err := http.Get("http://" + m.registry + "/v2/openshift/release-images/manifests/" + release.Digest)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, "the image lies on the medium at %s", m.name)
	}
	other := f.members[slices.IndexFunc(f.members, func(m *fleetMember) bool { return m != leader })]
	answer, err := http.Post("http://"+other.registry+"/v2/site/app/blobs/uploads/", "", http.NoBody)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, errors.Join(err, answer.Body.Close()))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, string(text), `{"errors":[{"code":"UNAVAILABLE"`)
}
