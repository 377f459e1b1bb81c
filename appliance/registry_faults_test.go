package appliance_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/medium"
	"landfall/appliance/simulate"
	"landfall/appliance/simulate/registry"
)

// Case 32: a pull secret without an entry for the appliance's registry is found when the cluster
// becomes ready, and not by the bootstrap.
func TestFault32_pullSecretWithoutEntry(t *testing.T) {
	b := newBareSite(t)
	b.withAuth()
	b.config.Registry.AnonymousPull = false
	c := b.connect(t)
	eventually(t, "the release on the medium is known", func() bool {
		answer := c.call(t, "GET", "/api/landfall/v1/setup", nil)
		return strings.Contains(string(answer.body), b.release.Version)
	})
	id := c.create(t, "/clusters", b.newCluster("line"))
	infraEnv := c.create(t, "/infra-envs", b.newInfraEnv("line").with(object{"cluster_id": id}))
	ctx, cancel := context.WithCancel(t.Context())
	group := &simulate.HostGroup{URL: c.address, InfraEnvID: infraEnv, Count: 1, Speed: 1000, HTTP: c.trusted,
		Token: c.token, Spokes: b.spokes}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	})
	c.requireStatus(t, id, models.ClusterStatusReady)
	eventually(t, "the missing entry is named", func() bool {
		return strings.Contains(c.events(t, "cluster_id="+id), "the pull secret has no entry for it")
	})
}

// Case 19: while the disk of the store is full, pulls go on, a medium goes and comes back, and
// another one is served.
func TestFault19_pullsWhileTheDiskIsFull(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	b := newBareSite(t)
	another := &registry.Archive{}
	layer, err := another.AddBlob(t.Context(), "team/image", "v1", []byte("layer"))
	require.NoError(t, err)
	later := filepath.Join(t.TempDir(), "mirror_000002.tar")
	require.NoError(t, another.WriteFile(later))
	d := smallDisk(t, b.config.DataDir, "64m")
	address, _ := b.start(t)
	requireServed(t, address)
	repository := "http://" + registryHost(t, address) + "/v2/openshift/release-images/"
	image := call(t, http.MethodGet, repository+"manifests/"+b.release.Digest, nil)
	require.Equal(t, http.StatusOK, image.status)
	parsed, err := medium.ParseManifest(image.body)
	require.NoError(t, err)

	d.fill(t, 4096)
	requirePulled := func() {
		require.Equal(t, image.body, call(t, http.MethodGet, repository+"manifests/"+b.release.Digest, nil).body)
		for _, part := range parsed.Parts() {
			blob := call(t, http.MethodGet, repository+"blobs/"+part.Digest, nil)
			require.Equal(t, http.StatusOK, blob.status)
			require.EqualValues(t, part.Size, len(blob.body))
		}
	}
	requirePulled()
	away := b.folder + "-away"
	require.NoError(t, os.Rename(b.folder, away))
	requireAnswer(t, repository+"manifests/"+b.release.Digest, http.StatusServiceUnavailable)
	require.NoError(t, os.Rename(away, b.folder))
	requireAnswer(t, repository+"manifests/"+b.release.Digest, http.StatusOK)
	requirePulled()
	require.NoError(t, os.Rename(later, filepath.Join(b.folder, filepath.Base(later))))
	requireAnswer(t, repository+"blobs/"+layer, http.StatusOK)
	d.free(t)
}
