package appliance_test

import (
	"context"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
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
