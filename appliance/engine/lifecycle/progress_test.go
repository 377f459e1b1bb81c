package lifecycle

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestCountOperators_totalNeverDecreases(t *testing.T) {
	operators := []*models.MonitoredOperator{{Status: models.OperatorStatusAvailable},
		{Status: models.OperatorStatusProgressing}}
	cluster := &models.Cluster{MonitoredOperators: operators, Progress: &models.ClusterProgressInfo{
		PreparingForInstallationStagePercentage: 100, InstallingStagePercentage: 100}}
	CountOperators(cluster)
	require.EqualValues(t, 50, cluster.Progress.FinalizingStagePercentage)
	require.EqualValues(t, 87, cluster.Progress.TotalPercentage)

	operators[0].Status = models.OperatorStatusProgressing
	CountOperators(cluster)
	require.EqualValues(t, 87, cluster.Progress.TotalPercentage)
	operators[0].Status, operators[1].Status = models.OperatorStatusAvailable, models.OperatorStatusFailed
	operators[1].OperatorType = models.OperatorTypeOlm
	CountOperators(cluster)
	require.EqualValues(t, 95, cluster.Progress.TotalPercentage)
}
