package cluster

import (
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestStopped_hostsAndNextStep(t *testing.T) {
	for status, next := range map[string]string{
		models.ClusterStatusError:     "; landfall cluster progress east shows what to do",
		models.ClusterStatusCancelled: "; landfall cluster reset east prepares it for another installation",
	} {
		t.Run(status, func(t *testing.T) {
			host := &models.Host{Status: conv.Pointer(status), Role: models.HostRoleMaster,
				Progress: &models.HostProgressInfo{CurrentStage: models.HostStageWritingImageToDisk,
					ProgressInfo: "35%"}}
			require.Equal(t, "master, "+status+" in Writing image to disk 35%", hostState(host))
			require.Equal(t, "1 "+status, hostSummary([]*models.Host{host}))
			_, err := reached(&models.Cluster{Name: "east", Status: conv.Pointer(status),
				StatusInfo: conv.Pointer("It ended.")}, installed)
			require.EqualError(t, err, "the cluster east is in the state "+status+": It ended"+next)
		})
	}
	running := &models.Host{Status: conv.Pointer(models.HostStatusInstallingInProgress), Role: models.HostRoleMaster,
		Progress: &models.HostProgressInfo{CurrentStage: models.HostStageRebooting}}
	require.Equal(t, "master, Rebooting", hostState(running))
	require.Equal(t, "1 Rebooting", hostSummary([]*models.Host{running}))
}
