package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/projection"
	"landfall/store"
)

// pending returns the number of rows that are not projected yet.
func (b *testSite) pending() (count int) {
	b.Helper()
	require.NoError(b, b.DB.View(func(tx *store.Tx) (err error) {
		count, err = projection.PendingChanges(tx)
		return err
	}))
	return count
}

func (b *testSite) registerOverREST(name string) *models.Cluster {
	b.Helper()
	cluster, err := b.Engine.RegisterCluster(b.Context(), &models.ClusterCreateParams{
		Name: &name, BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(kubetest.PullSecret),
	})
	require.NoError(b, err)
	return cluster
}

func TestDeferred_newRowsGetObjectsWhenRead(t *testing.T) {
	b := newSite(t)
	cluster := b.registerOverREST("rest")
	env, err := b.Engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("env"),
		PullSecret: conv.Pointer(kubetest.PullSecret), ClusterID: cluster.ID})
	require.NoError(t, err)
	m := b.Machine(env.ID.String(), 7)
	m.Register()
	require.False(t, b.exists(objects.ClusterDeployments, "rest", "rest"))
	require.Equal(t, 3, b.pending(), "a cluster, an infra-env and a host")

	require.NoError(t, b.Current(t.Context()))
	require.Zero(t, b.pending())
	agent := object[agentinstall.Agent](b, objects.Agents, "rest", m.ID)
	require.Equal(t, "rest", agent.Spec.ClusterDeploymentName.Name, "the cluster has an object before its host")
	aci := object[hiveext.AgentClusterInstall](b, objects.AgentClusterInstalls, "rest", "rest")
	require.NotEmpty(t, aci.Status.DebugInfo.State)

	b.WaitIdle()
	before := b.DB.Revision()
	require.NoError(t, b.Current(t.Context()))
	require.Equal(t, before, b.DB.Revision(), "reading up-to-date objects writes nothing")
}

func TestDeferred_reportsOfAgentsAreShownWhenRead(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	shown := func() *agentinstall.Agent { return object[agentinstall.Agent](b, objects.Agents, "site", m.ID) }
	before := shown()
	inventory := m.Inventory()
	inventory.Hostname = "renamed"
	text, err := json.Marshal(inventory)
	require.NoError(t, err)
	require.NoError(t, b.Engine.ApplyStepReply(t.Context(), m.InfraEnv, m.ID,
		&models.StepReply{StepType: models.StepTypeInventory, StepID: "1", Output: string(text)}))
	require.Equal(t, before.ResourceVersion, shown().ResourceVersion)
	require.NoError(t, b.Current(t.Context()))
	require.Equal(t, "renamed", shown().Status.Inventory.Hostname)
}

func TestDeferred_editsAndDeletionsAreShownAtOnce(t *testing.T) {
	b := newSite(t)
	cluster := b.registerOverREST("rest")
	b.WaitIdle()
	id := cluster.ID.String()
	_, err := b.Engine.UpdateCluster(t.Context(), id, &models.V2ClusterUpdateParams{
		HTTPProxy: conv.Pointer("http://proxy.site.test:3128")})
	require.NoError(t, err)
	aci := object[hiveext.AgentClusterInstall](b, objects.AgentClusterInstalls, "rest", "rest")
	require.Equal(t, "http://proxy.site.test:3128", aci.Spec.Proxy.HTTPProxy)
	require.NoError(t, b.Engine.DeregisterCluster(t.Context(), id, false))
	require.False(t, b.exists(objects.AgentClusterInstalls, "rest", "rest"))
	b.WaitIdle()
	require.False(t, b.exists(objects.ClusterDeployments, "rest", "rest"), "no controller registers the cluster again")
	require.Zero(t, b.clusterCount())
}

func TestDeferred_clusterDeletedBeforeItIsRead(t *testing.T) {
	b := newSite(t)
	cluster := b.registerOverREST("rest")
	require.NoError(t, b.Engine.DeregisterCluster(t.Context(), cluster.ID.String(), false))
	require.Zero(t, b.pending())
	b.WaitIdle()
	require.False(t, b.exists(objects.Namespaces, "", "rest"))
}

func TestDeferred_eventsFollowTheirObjects(t *testing.T) {
	b := newSite(t)
	b.registerOverREST("rest")
	events := func() (names int) {
		require.NoError(t, b.DB.View(func(tx *store.Tx) error {
			return objects.Names(tx, objects.Events, "rest", func(_, _ string) error { names++; return nil })
		}))
		return names
	}
	require.Zero(t, events())
	require.NoError(t, b.Current(t.Context()))
	first := events()
	require.Positive(t, first)
	require.NoError(t, b.Current(t.Context()))
	require.Equal(t, first, events(), "no event is written twice")
}

func TestFollow_projectsInTheBackground(t *testing.T) {
	b := newSite(t)
	c := b.catchUp("")
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- c.Follow(ctx) }()
	b.registerOverREST("rest")
	require.Eventually(t, func() bool { return b.pending() == 0 }, time.Minute, time.Millisecond)
	require.True(t, b.exists(objects.ClusterDeployments, "rest", "rest"))
	cancel()
	require.NoError(t, <-ended)
}

// faultyRows is a projector that fails for one cluster.
type faultyRows struct {
	engine.Projector
	cluster string
}

func (f faultyRows) Project(tx *store.Tx, touched engine.Touched) error {
	for _, row := range touched.Clusters {
		if row.ID == f.cluster {
			return errors.New("this cluster can't be shown")
		}
	}
	return f.Projector.Project(tx, touched)
}

func TestCurrent_oneFaultyRowDelaysNoOthers(t *testing.T) {
	b := newSite(t)
	var faulty string
	for _, name := range []string{"a", "b", "c"} {
		if id := b.registerOverREST(name).ID.String(); name == "b" {
			faulty = id
		}
	}
	c := b.catchUp("")
	rows := c.Rows
	c.Rows = faultyRows{rows, faulty}
	require.NoError(t, c.Current(t.Context()))
	for name, shown := range map[string]bool{"a": true, "b": false, "c": true} {
		require.Equal(t, shown, b.exists(objects.ClusterDeployments, name, name), name)
	}
	require.Equal(t, 1, b.pending(), "the faulty row is not forgotten")

	c.Rows = rows
	b.registerOverREST("d")
	require.NoError(t, c.Current(t.Context()))
	require.False(t, b.exists(objects.ClusterDeployments, "b", "b"), "it is tried again after a minute")
	b.Clock.Advance(time.Minute)
	b.registerOverREST("e")
	require.NoError(t, c.Current(t.Context()))
	require.True(t, b.exists(objects.ClusterDeployments, "b", "b"))
	require.Zero(t, b.pending())
}

func TestCurrent_afterARestart(t *testing.T) {
	b := newSite(t)
	b.registerOverREST("rest")
	b.stop()
	b.open()
	require.Equal(t, 1, b.pending())
	require.NoError(t, b.Current(t.Context()))
	require.True(t, b.exists(objects.ClusterDeployments, "rest", "rest"), "recorded by the earlier process")
}
