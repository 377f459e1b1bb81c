package hosts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/kube/kubetest"
)

func TestApprovals_approveHost(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	approvals := NewApprovals(b.Site.DB, b.Site.Objects)
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

func TestApprovals_kubernetesDisabled(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	approvals := NewApprovals(b.Site.DB, nil)
	err := approvals.Approve(t.Context(), m.InfraEnv, m.ID)
	require.EqualError(t, err, "The host "+m.ID+" needs no approval, because the Kubernetes API of this appliance is "+
		"disabled.")
	approved, err := approvals.Approved()
	require.NoError(t, err)
	require.Empty(t, approved)
}
