package clusters

import (
	"testing"
	"time"

	"landfall/appliance/kube/kubetest"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
)

func TestConditions_eachStatus(t *testing.T) {
	three := roleCount{masters: 3}
	cases := []struct {
		name      string
		state     clusterState
		validated string
		met       string
		completed string
		failed    string
		stopped   string
	}{
		{"insufficient", clusterState{cluster: clusterIn("insufficient")}, "ValidationsFailing", "ClusterNotReady",
			"InstallationNotStarted", "InstallationNotFailed", "InstallationNotStopped"},
		{"pending", clusterState{cluster: clusterIn("pending-for-input")}, "ValidationsUserPending", "ClusterNotReady",
			"InstallationNotStarted", "InstallationNotFailed", "InstallationNotStopped"},
		{"ready with too few hosts", clusterState{cluster: clusterIn("ready"), required: three,
			known: roleCount{masters: 2}},
			"ValidationsPassing", "InsufficientAgents", "InstallationNotStarted", "InstallationNotFailed",
			"InstallationNotStopped"},
		{"ready with other roles", clusterState{cluster: clusterIn("ready"), required: three,
			known: roleCount{masters: 2, workers: 1}, approved: 3}, "ValidationsPassing", "InsufficientAgents",
			"InstallationNotStarted", "InstallationNotFailed", "InstallationNotStopped"},
		{"ready with a spec in error", clusterState{cluster: clusterIn("ready"), required: three, known: three,
			approved: 3, unsynced: 1}, "ValidationsPassing", "UnsyncedAgents", "InstallationNotStarted",
			"InstallationNotFailed", "InstallationNotStopped"},
		{"ready without approval", clusterState{cluster: clusterIn("ready"), required: three, known: three,
			approved: 1},
			"ValidationsPassing", "UnapprovedAgents", "InstallationNotStarted", "InstallationNotFailed",
			"InstallationNotStopped"},
		{"ready", clusterState{cluster: clusterIn("ready"), required: three, known: three, approved: 3},
			"ValidationsPassing", "ClusterIsReady", "InstallationNotStarted", "InstallationNotFailed",
			"InstallationNotStopped"},
		{"ready and on hold", clusterState{cluster: clusterIn("ready"), required: three, known: three, approved: 3,
			onHold: true}, "ValidationsPassing", "ClusterIsReady", "InstallationOnHold", "InstallationNotFailed",
			"InstallationNotStopped"},
		{"preparing", clusterState{cluster: clusterIn("preparing-for-installation")}, "ValidationsPassing",
			"ClusterAlreadyInstalling", "InstallationInProgress", "InstallationNotFailed", "InstallationNotStopped"},
		{"installing", clusterState{cluster: clusterIn("installing")}, "ValidationsPassing", "ClusterAlreadyInstalling",
			"InstallationInProgress", "InstallationNotFailed", "InstallationNotStopped"},
		{"waiting for user action", clusterState{cluster: clusterIn("installing-pending-user-action")},
			"ValidationsPassing", "ClusterAlreadyInstalling", "InstallationInProgress", "InstallationNotFailed",
			"InstallationNotStopped"},
		{"finalizing", clusterState{cluster: clusterIn("finalizing")}, "ValidationsPassing", "ClusterAlreadyInstalling",
			"InstallationInProgress", "InstallationNotFailed", "InstallationNotStopped"},
		{"installed", clusterState{cluster: clusterIn("installed")}, "ValidationsPassing", "ClusterInstallationStopped",
			"InstallationCompleted", "InstallationNotFailed", "InstallationCompleted"},
		{"adding hosts", clusterState{cluster: clusterIn("adding-hosts")}, "ValidationsPassing",
			"ClusterInstallationStopped", "InstallationCompleted", "InstallationNotFailed", "InstallationCompleted"},
		{"error", clusterState{cluster: clusterIn("error")}, "ValidationsPassing", "ClusterInstallationStopped",
			"InstallationFailed", "InstallationFailed", "InstallationFailed"},
		{"cancelled", clusterState{cluster: clusterIn("cancelled")}, "ValidationsPassing", "UnknownStatus",
			"UnknownStatus", "InstallationNotFailed", "InstallationCancelled"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			aci := &hiveext.AgentClusterInstall{}
			setInstallConditions(aci, kubetest.Morning, clusterConditions(c.state)...)
			for kind, reason := range map[hivev1.ClusterInstallConditionType]string{
				hiveext.ClusterValidatedCondition: c.validated, hiveext.ClusterRequirementsMetCondition: c.met,
				hiveext.ClusterCompletedCondition: c.completed,
				hiveext.ClusterFailedCondition:    c.failed, hiveext.ClusterStoppedCondition: c.stopped,
			} {
				require.Equal(t, reason, installConditionOf(aci, kind).Reason, kind)
			}
			require.Equal(t, c.name == "ready", c.state.startable())
		})
	}
}

func TestConditions_singleNodeWithWorkers(t *testing.T) {
	for _, status := range []string{"pending-for-input", "insufficient", "ready"} {
		state := clusterState{cluster: clusterIn(status), required: roleCount{1, 0, 1}, known: roleCount{1, 0, 0}}
		require.Contains(t, requirementsMet(state).message, ". "+workersOfSingleNode, status)
	}
}

func clusterIn(status string) *models.Cluster {
	return &models.Cluster{Status: &status, StatusInfo: conv.Pointer("Writing the image."), ValidationsInfo: "{}"}
}

func TestConditions_transitionTime(t *testing.T) {
	aci := &hiveext.AgentClusterInstall{}
	set := func(at time.Time, fault error) time.Time {
		setInstallConditions(aci, at, clusterSynced(fault))
		return installConditionOf(aci, hiveext.ClusterSpecSyncedCondition).LastTransitionTime.UTC()
	}
	require.Equal(t, kubetest.Morning, set(kubetest.Morning, nil))
	require.Equal(t, kubetest.Morning, set(kubetest.Morning.Add(time.Hour), nil))
	require.Equal(t, kubetest.Morning.Add(2*time.Hour), set(kubetest.Morning.Add(2*time.Hour),
		inputError("no network")))
	require.Equal(t, kubetest.Morning.Add(3*time.Hour), set(kubetest.Morning.Add(3*time.Hour),
		inputError("another network")))
}

func TestConditions_importedCluster(t *testing.T) {
	imported := clusterIn("adding-hosts")
	imported.Imported = conv.Pointer(true)
	require.Equal(t, "ClusterAlreadyInstalling", requirementsMet(clusterState{cluster: imported}).reason)
	finalizing := clusterIn("finalizing")
	finalizing.MonitoredOperators = []*models.MonitoredOperator{{Name: "cvo", Status: models.OperatorStatusProgressing,
		StatusInfo: "80% complete"}}
	require.Equal(t, "The installation is in progress: Writing the image. Cluster version status: progressing, "+
		"message: 80% complete", completed(clusterState{cluster: finalizing}).message)
	failing := clusterIn("insufficient")
	require.Equal(t, "The cluster's validations are failing: One fails. Two fails.",
		validated(clusterState{cluster: failing, failing: []string{"One fails.", "Two fails."}}).message)
}
