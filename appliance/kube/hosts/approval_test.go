package hosts

import (
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/fault"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/projection"
	"landfall/store"
)

func TestApprovals_approveHost(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	approvals := NewApprovals(b.Site.DB, b.Site.Objects, nil)
	approved, err := approvals.Approved()
	require.NoError(t, err)
	require.Equal(t, map[string]bool{m.ID: false}, approved)

	require.NoError(t, approvals.Approve(t.Context(), m.InfraEnv, m.ID))
	require.NoError(t, approvals.Approve(t.Context(), m.InfraEnv, m.ID), "a second approval changes nothing")
	require.True(t, b.Agent(m).Spec.Approved)
	approved, err = approvals.Approved()
	require.NoError(t, err)
	require.Equal(t, map[string]bool{m.ID: true}, approved)

	err = approvals.Approve(t.Context(), m.InfraEnv, "4b1d7e1a-0000-4000-8000-000000000000")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// A script approves a host as soon as it is in the list. Its Agent may not be written yet.
func TestApprovals_approveBeforeAgentIsWritten(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	env := b.InfraEnvID("pool")
	b.stop()
	deferred := projection.NewDeferred(b.Projector)
	options := b.engineOptions()
	options.Projector = deferred
	b.OpenEngine(options)
	catchUp := projection.NewCatchUp(projection.Options{DB: b.Site.DB, Engine: b.Site.Engine, Rows: b.Projector,
		Events: projection.EventsOf(b.Site.Objects), Deferred: deferred, URL: kubetest.URL, Clock: b.Site.Clock})
	m := b.Machine(env, 1)
	m.Register()

	err := NewApprovals(b.Site.DB, b.Site.Objects, nil).Approve(t.Context(), env, m.ID)
	require.ErrorContains(t, err, "is still being written")
	approvals := NewApprovals(b.Site.DB, b.Site.Objects, catchUp.Current)
	before := b.Site.DB.Revision()
	require.ErrorIs(t, approvals.Approve(store.DryRun(t.Context()), env, m.ID), store.ErrDryRun)
	require.Equal(t, before, b.Site.DB.Revision())
	require.NoError(t, approvals.Approve(t.Context(), env, m.ID))
	require.True(t, b.Agent(m).Spec.Approved)
}

func TestApprovals_kubernetesDisabled(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	approvals := NewApprovals(b.Site.DB, nil, nil)
	err := approvals.Approve(t.Context(), m.InfraEnv, m.ID)
	require.EqualError(t, err, "The host "+m.ID+" needs no approval, because the Kubernetes API of this appliance is "+
		"disabled.")
	approved, err := approvals.Approved()
	require.NoError(t, err)
	require.Empty(t, approved)
}

// Hosts of all APIs have Agents. Only manifests make a host wait.
func TestApprovals_waitingHosts(t *testing.T) {
	b := newSite(t)
	env, err := b.Engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("depot"),
		PullSecret: conv.Pointer(kubetest.PullSecret), OpenshiftVersion: "4.20.8"})
	require.NoError(t, err)
	b.WaitIdle()
	ofREST := b.Machine(env.ID.String(), 2)
	ofREST.Register()
	ofREST.Report()
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	approvals := NewApprovals(b.Site.DB, b.Site.Objects, nil)
	waiting := func() (ids []string) {
		hosts, err := approvals.Waiting()
		require.NoError(t, err)
		for _, host := range hosts {
			ids = append(ids, host.API.ID.String())
		}
		return ids
	}
	approved, err := approvals.Approved()
	require.NoError(t, err)
	require.Equal(t, map[string]bool{m.ID: false, ofREST.ID: false}, approved, "both have an Agent")
	needed := func() map[string]bool {
		hosts, err := approvals.Needed()
		require.NoError(t, err)
		return hosts
	}
	require.Equal(t, map[string]bool{m.ID: false}, needed())
	require.Equal(t, []string{m.ID}, waiting())

	b.RegisterCluster("one")
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = clusterReference("one") })
	b.Eventually("the host is bound", func() bool { return m.Host().ClusterID != nil })
	m.Register()
	m.Report()
	require.Equal(t, []string{m.ID}, waiting())
	b.Update(func(tx *store.Tx) error {
		return b.Site.Objects.Update(tx, objects.ClusterDeployments, "site", "one",
			func(u *unstructured.Unstructured) error {
				u.SetLabels(map[string]string{objects.MadeForCluster: "true"})
				return nil
			})
	})
	require.Empty(t, waiting(), "its cluster is installed over REST or in the browser")
	require.Empty(t, needed(), "a person who bound the host there installs it")

	waits, err := NewApprovals(b.Site.DB, nil, nil).Waiting()
	require.NoError(t, err)
	require.Empty(t, waits)
	none, err := NewApprovals(b.Site.DB, nil, nil).Needed()
	require.NoError(t, err)
	require.Empty(t, none)
}
