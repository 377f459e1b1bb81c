package engine

import (
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/store"
)

// followed is a bench on which somebody looks into the clusters that hosts join.
func followed(t *testing.T) *bench {
	b := newBench(t, nil)
	b.Follows = func(*store.Tx, string) (bool, error) { return true, nil }
	return b
}

func (b *bench) awaited() []AwaitedHost {
	b.Helper()
	awaited, err := b.Awaited()
	require.NoError(b, err)
	return awaited
}

func TestAHostThatIsFollowedIntoItsClusterIsDoneWhenItsNodeIsReady(t *testing.T) {
	b := followed(t)
	_, h := b.joining()
	require.Empty(t, b.awaited(), "it has not restarted")
	require.NoError(t, h.progress(models.HostStageWritingImageToDisk, "100%"))
	require.NoError(t, h.progress(models.HostStageRebooting, ""))
	require.Equal(t, models.HostStageRebooting, h.require(inProgress).Progress.CurrentStage)
	awaited := b.awaited()
	require.Len(t, awaited, 1)
	require.Equal(t, h.env+"/"+h.id, awaited[0].Key)
	require.False(t, awaited[0].Joining.Started.IsZero() || awaited[0].Joining.Restarted.IsZero())
	select {
	case <-b.AwaitedChanged():
	default:
		require.Fail(t, "nobody was told")
	}

	client := CertificateRequest{Name: "csr-1", ApprovedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	seen := func(s Seen) {
		require.NoError(t, b.HostSeen(t.Context(), awaited[0].Key, s))
	}
	seen(Seen{Approved: []CertificateRequest{client}})
	seen(Seen{Approved: []CertificateRequest{client, {Name: "csr-2", Serving: true}}, Stage: models.HostStageJoined})
	require.Equal(t, models.HostStageJoined, h.require(inProgress).Progress.CurrentStage)
	require.Len(t, b.awaited()[0].Joining.Approved, 2, "what was noted is noted once")
	seen(Seen{Stage: models.HostStageDone})
	done := h.require(added)
	require.Equal(t, "The host is a node of its cluster, and ready.", *done.StatusInfo)
	require.EqualValues(t, 100, done.Progress.InstallationPercentage)
	require.Empty(t, b.awaited())
	seen(Seen{Stage: models.HostStageJoined})
	h.require(added)
}

func TestAProblemOnTheWayIntoAClusterIsToldOnce(t *testing.T) {
	b := followed(t)
	_, h := b.joining()
	require.NoError(t, h.progress(models.HostStageRebooting, ""))
	key := b.awaited()[0].Key
	problem := JoiningProblem{Reason: "ClusterUnreachable", Message: "The cluster's API at https://api does not answer."}
	revision := uint64(0)
	for range 3 {
		require.NoError(t, b.HostSeen(t.Context(), key, Seen{Problem: problem}))
		if revision == 0 {
			revision = b.DB.Revision()
		}
	}
	require.Equal(t, revision, b.DB.Revision(), "what is known is not written again")
	require.Equal(t, problem, b.awaited()[0].Joining.Problem)
	require.NoError(t, b.HostSeen(t.Context(), key, Seen{Problem: problem, Stage: models.HostStageDone}))
	require.Contains(t, *h.require(added).StatusInfo, problem.Message)
}

func TestAHostThatLeavesIsNotAwaitedAnyMore(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *bench, *testHost){
		"it is reset": func(t *testing.T, b *bench, h *testHost) {
			_, err := b.ResetHost(t.Context(), h.env, h.id)
			require.NoError(t, err)
		},
		"it is deleted": func(t *testing.T, b *bench, h *testHost) {
			require.NoError(t, b.DeregisterHost(t.Context(), h.env, h.id))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := followed(t)
			_, h := b.joining()
			require.NoError(t, h.progress(models.HostStageRebooting, ""))
			key := b.awaited()[0].Key
			leave(t, b, h)
			require.Empty(t, b.awaited())
			require.NoError(t, b.HostSeen(t.Context(), key, Seen{Stage: models.HostStageDone}), "it comes late")
		})
	}
}
