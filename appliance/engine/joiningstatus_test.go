package engine

import (
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/store"
)

// newFollowingHarness returns a harness that follows hosts in the clusters that they join.
func newFollowingHarness(t *testing.T) *harness {
	b := newHarness(t)
	b.options.Follows = func(*store.Tx, view.Rows, string) (bool, error) { return true, nil }
	return b
}

func (b *harness) awaited() []AwaitedHost {
	b.Helper()
	awaited, err := b.Awaited()
	require.NoError(b, err)
	return awaited
}

func TestJoiningHost_doneWhenNodeIsReady(t *testing.T) {
	b := newFollowingHarness(t)
	_, h := b.joining()
	require.Empty(t, b.awaited(), "the host has not restarted")
	require.NoError(t, h.progress(models.HostStageWritingImageToDisk, "100%"))
	require.NoError(t, h.progress(models.HostStageRebooting, ""))
	require.Equal(t, models.HostStageRebooting, h.require(lifecycle.HostInstallingInProgress).Progress.CurrentStage)
	awaited := b.awaited()
	require.Len(t, awaited, 1)
	require.Equal(t, h.env+"/"+h.id, awaited[0].Key)
	require.False(t, awaited[0].Joining.Started.IsZero() || awaited[0].Joining.Restarted.IsZero())
	select {
	case <-b.AwaitedChanged():
	default:
		require.Fail(t, "AwaitedChanged received nothing")
	}

	client := record.CertificateRequest{Name: "csr-1", ApprovedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	seen := func(s JoiningUpdate) {
		require.NoError(t, b.UpdateJoining(t.Context(), awaited[0].Key, s))
	}
	seen(JoiningUpdate{Approved: []record.CertificateRequest{client}})
	seen(JoiningUpdate{Approved: []record.CertificateRequest{client, {Name: "csr-2", Serving: true}},
		Stage: models.HostStageJoined})
	require.Equal(t, models.HostStageJoined, h.require(lifecycle.HostInstallingInProgress).Progress.CurrentStage)
	require.Len(t, b.awaited()[0].Joining.Approved, 2, "each request is recorded once")
	seen(JoiningUpdate{Stage: models.HostStageDone})
	done := h.require(lifecycle.HostAdded)
	require.Equal(t, "The host is a ready node of its cluster.", *done.StatusInfo)
	require.EqualValues(t, 100, done.Progress.InstallationPercentage)
	require.Empty(t, b.awaited())
	seen(JoiningUpdate{Stage: models.HostStageJoined})
	h.require(lifecycle.HostAdded)
}

func TestJoiningHost_returnsAfterTheDiscoveryImage(t *testing.T) {
	b := newFollowingHarness(t)
	_, h := b.joining()
	require.NoError(t, h.progress(models.HostStageRebooting, ""))
	key := h.env + "/" + h.id
	ready := JoiningUpdate{Stage: models.HostStageDone}
	require.NoError(t, b.UpdateJoining(t.Context(), key, ready))
	h.require(lifecycle.HostAdded)
	require.Empty(t, b.awaited())

	require.NoError(t, h.register())
	h.require(lifecycle.HostPendingUserAction)
	require.Len(t, b.awaited(), 1)
	require.NoError(t, b.UpdateJoining(t.Context(), key, ready), "the cluster has not noticed yet")
	h.require(lifecycle.HostPendingUserAction)
	b.pass(5 * time.Minute)
	require.NoError(t, b.UpdateJoining(t.Context(), key, JoiningUpdate{Stage: models.HostStageDone,
		Problem: record.JoiningProblem{Reason: "ClusterUnreachable", Message: "The cluster does not answer."}}))
	require.NoError(t, b.UpdateJoining(t.Context(), key, JoiningUpdate{Stage: models.HostStageJoined}))
	h.require(lifecycle.HostPendingUserAction)
	require.NoError(t, b.UpdateJoining(t.Context(), key, ready))
	require.Equal(t, "The host is a ready node of its cluster.", *h.require(lifecycle.HostAdded).StatusInfo)
	require.Empty(t, b.awaited())
}

func TestJoiningHost_problemIsReportedOnce(t *testing.T) {
	b := newFollowingHarness(t)
	_, h := b.joining()
	require.NoError(t, h.progress(models.HostStageRebooting, ""))
	key := b.awaited()[0].Key
	problem := record.JoiningProblem{Reason: "ClusterUnreachable",
		Message: "The cluster's API at https://api does not answer."}
	revision := uint64(0)
	for range 3 {
		require.NoError(t, b.UpdateJoining(t.Context(), key, JoiningUpdate{Problem: problem}))
		if revision == 0 {
			revision = b.options.DB.Revision()
		}
	}
	require.Equal(t, revision, b.options.DB.Revision(), "a repeated report writes nothing")
	require.Equal(t, problem, b.awaited()[0].Joining.Problem)
	require.NoError(t, b.UpdateJoining(t.Context(), key, JoiningUpdate{Problem: problem, Stage: models.HostStageDone}))
	require.Contains(t, *h.require(lifecycle.HostAdded).StatusInfo, problem.Message)
}

func TestJoiningHost_deletedHostIsNotAwaited(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *harness, *testHost){
		"reset": func(t *testing.T, b *harness, h *testHost) {
			_, err := b.ResetHost(t.Context(), h.env, h.id)
			require.NoError(t, err)
		},
		"deleted": func(t *testing.T, b *harness, h *testHost) {
			require.NoError(t, b.DeregisterHost(t.Context(), h.env, h.id))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFollowingHarness(t)
			_, h := b.joining()
			require.NoError(t, h.progress(models.HostStageRebooting, ""))
			key := b.awaited()[0].Key
			leave(t, b, h)
			require.Empty(t, b.awaited())
			require.NoError(t, b.UpdateJoining(t.Context(), key, JoiningUpdate{Stage: models.HostStageDone}),
				"a late report")
		})
	}
}

func TestJoiningHost_timeoutNamesTheStage(t *testing.T) {
	approved := func(serving bool) JoiningUpdate {
		return JoiningUpdate{Approved: []record.CertificateRequest{{Name: "csr-1", Serving: serving}}}
	}
	for name, c := range map[string]struct {
		seen  []JoiningUpdate
		state string
		want  []string
	}{
		"no contact after the restart": {nil, lifecycle.HostPendingUserAction,
			[]string{lifecycle.RebootTimedOut + " the configuration files from its cluster after the reboot",
				"has not requested a certificate from its cluster", "correct the boot order"}},
		"request denied": {[]JoiningUpdate{{Problem: record.JoiningProblem{Reason: "x",
			Message: "Its request was denied."}}},
			lifecycle.HostPendingUserAction,
			[]string{
				"from its cluster after the reboot. The last problem found in its cluster: Its request was denied."}},
		"kubelet without serving request": {[]JoiningUpdate{approved(false)}, lifecycle.HostPendingUserAction,
			[]string{"client certificate was approved, but the host is not a node yet"}},
		"node not ready": {[]JoiningUpdate{approved(false), {Stage: models.HostStageJoined,
			Approved: []record.CertificateRequest{{Name: "csr-2", Serving: true}}}}, lifecycle.HostFailed,
			[]string{`stage "Joined" for too long`, "a node of its cluster, but not ready. Check oc describe node",
				"install the host again"}},
		"node without serving certificate": {[]JoiningUpdate{approved(false), {Stage: models.HostStageJoined}},
			lifecycle.HostFailed,
			[]string{"has not requested a serving certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFollowingHarness(t)
			_, h := b.joining()
			require.NoError(t, h.progress(models.HostStageRebooting, ""))
			for _, seen := range c.seen {
				require.NoError(t, b.UpdateJoining(t.Context(), h.env+"/"+h.id, seen))
			}
			b.pass(81 * time.Minute) // the time-out of a single-node cluster is longer
			for _, want := range c.want {
				require.Contains(t, *h.require(c.state).StatusInfo, want)
			}
		})
	}
}
