package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/record"
)

// finalizingWith installs the host of a single-node cluster with operators.
func (b *harness) finalizingWith(names ...string) string {
	b.Helper()
	cluster, env := b.singleNode()
	var asked []*models.OperatorCreateParams
	for _, name := range names {
		asked = append(asked, &models.OperatorCreateParams{Name: name})
	}
	_, err := b.UpdateCluster(b.Context(), cluster, &models.V2ClusterUpdateParams{OlmOperators: asked})
	require.NoError(b, err)
	h := b.host(env, 1)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	h.reportStagesUpTo(models.HostStageDone)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	require.NoError(b, b.UploadIngressCert(b.Context(), cluster, b.authority))
	return cluster
}

func (b *harness) reportOperator(cluster, name string, status models.OperatorStatus, info string) {
	b.Helper()
	require.NoError(b, b.ReportOperator(b.Context(), cluster, &models.OperatorMonitorReport{Name: name, Status: status,
		StatusInfo: info}))
}

func TestOperators_failedOperatorDegradesCluster(t *testing.T) {
	b := newHarness(t)
	cluster := b.finalizingWith("metallb", "oadp")
	b.reportOperator(cluster, "metallb", models.OperatorStatusAvailable, "")
	b.reportOperator(cluster, "oadp", models.OperatorStatusProgressing, "waiting for its deployment")
	require.NoError(t, b.RecordFinalizingProgress(t.Context(), cluster,
		models.FinalizingStageWaitingForOlmOperatorsCsv))
	b.pass(70*time.Minute - time.Second)
	require.False(t, b.requireCluster(cluster, lifecycle.ClusterFinalizing).Progress.FinalizingStageTimedOut)
	b.pass(time.Second)
	require.True(t, b.requireCluster(cluster, lifecycle.ClusterFinalizing).Progress.FinalizingStageTimedOut,
		"the controller's time-out")

	_, err := b.CompleteInstallation(t.Context(), cluster, true, "")
	require.NoError(t, err)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing) // an operator is neither available nor failed
	b.reportOperator(cluster, "oadp", models.OperatorStatusFailed, "Waiting for operator timed out")
	got := b.requireCluster(cluster, lifecycle.ClusterInstalled)
	require.Equal(t, "The cluster is installed but degraded. Failed OLM operators: oadp.", *got.StatusInfo)
	require.Contains(t, b.names(event.Filter{ClusterID: cluster}), event.Degraded)
}

// TestReports_ofEarlierInstallationChangeNothing reports the operators of a cluster that was reset,
// whose controller may still run.
func TestReports_ofEarlierInstallationChangeNothing(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.finalizing()
	b.reportOperator(cluster, "cvo", models.OperatorStatusAvailable, "")
	report := func() {
		t.Helper()
		b.reportOperator(cluster, "console", models.OperatorStatusAvailable, "")
		b.reportOperator(cluster, "cvo", models.OperatorStatusAvailable, "")
		require.NoError(t, b.RecordFinalizingProgress(t.Context(), cluster, models.FinalizingStageDone))
	}
	requireNothing := func(status string) {
		t.Helper()
		found := b.requireCluster(cluster, status)
		require.Empty(t, found.Progress.FinalizingStage)
		for _, operator := range found.MonitoredOperators {
			require.Empty(t, operator.Status, operator.Name)
		}
	}
	_, err := b.CancelInstallation(t.Context(), cluster)
	require.NoError(t, err)
	_, err = b.ResetCluster(t.Context(), cluster)
	require.NoError(t, err)
	report()
	requireNothing(lifecycle.ClusterInsufficient)
	require.NoError(t, h.register())
	h.report()
	report()
	requireNothing(lifecycle.ClusterReady)
	b.startInstallation(cluster)
	report()
	requireNothing(lifecycle.ClusterPreparing)
	b.prepareAll()
	h.report()
	requireNothing(lifecycle.ClusterInstalling)
	h.reportStagesUpTo(models.HostStageDone)
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	requireNothing(lifecycle.ClusterFinalizing)
	report()
	b.requireCluster(cluster, lifecycle.ClusterInstalled)
	revision := b.options.DB.Revision()
	require.NoError(t, b.RecordFinalizingProgress(t.Context(), cluster, models.FinalizingStageAddingRouterCa))
	require.Equal(t, revision, b.options.DB.Revision())
}

// The reports after a failure help to find its cause.
func TestReports_ofFailedInstallationAreStored(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.finalizing()
	_, err := b.CompleteInstallation(t.Context(), cluster, false, "it took too long")
	require.NoError(t, err)
	b.reportOperator(cluster, "console", models.OperatorStatusFailed, "no route")
	found := b.requireCluster(cluster, lifecycle.ClusterFailed)
	at := slices.IndexFunc(found.MonitoredOperators, func(o *models.MonitoredOperator) bool {
		return o.Name == "console"
	})
	require.Equal(t, models.OperatorStatusFailed, found.MonitoredOperators[at].Status)
}

func TestFinalizingTimeout_longestOfTheOperators(t *testing.T) {
	b := newHarness(t)
	cluster := b.finalizingWith("lso")
	row, err := record.ReadCluster(b.options.DB, cluster)
	require.NoError(t, err)
	row.API.MonitoredOperators[2].TimeoutSeconds = int64((90 * time.Minute).Seconds())
	require.Equal(t, 90*time.Minute,
		b.Engine.options.Timeouts.FinalizingStage(models.FinalizingStageWaitingForOlmOperatorsCsv,
			row.API.MonitoredOperators))
	require.Equal(t, 10*time.Minute,
		b.Engine.options.Timeouts.FinalizingStage(models.FinalizingStageApplyingOlmManifests,
			row.API.MonitoredOperators))
}

func TestOperators_catalogsOfTheMirror(t *testing.T) {
	b := newHarness(t)
	document := []byte("kind: CatalogSource\nmetadata: {name: cs-redhat}\nspec: {image: " +
		"'mirror/redhat-operator-index:v4.20'}\n")
	b.Engine.options.Catalogs = func() []operator.Source {
		return append(operator.Sources(document), operator.Source{Name: "old",
			Image: "mirror/certified-operator-index:v4.11"})
	}
	cluster, _ := b.singleNode()
	_, err := b.UpdateCluster(t.Context(), cluster,
		&models.V2ClusterUpdateParams{OlmOperators: []*models.OperatorCreateParams{{Name: "metallb"}}})
	require.NoError(t, err)
	made := b.systemManifests(cluster)
	require.Contains(t, made["openshift/50_openshift-metallb_subscription.yaml"], "source: cs-redhat")
	require.Contains(t, made["openshift/50_openshift-operators_catalogsource_cs-redhat.yaml"],
		"image: 'mirror/redhat-operator-index:v4.20'")
	require.Contains(t, made["openshift/50_openshift-operators_operatorhub_cluster.yaml"],
		"disableAllDefaultSources: true")

	for _, available := range b.OperatorAvailabilityFor("4.20.1") {
		if available.Catalog == "certified-operators" {
			require.Empty(t, available.Source, "the catalog is of another version")
		}
	}

	// The OperatorHub of a user's manifest must not be replaced.
	_, err = b.CreateManifest(t.Context(), cluster, Manifest{Folder: "openshift", Name: "hub.yaml",
		Content: []byte("kind: OperatorHub\nmetadata: {name: cluster}\n")})
	require.NoError(t, err)
	made = b.systemManifests(cluster)
	require.NotContains(t, made, "openshift/50_openshift-operators_operatorhub_cluster.yaml")
}
