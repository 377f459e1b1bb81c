package lifecycle

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestJoiningAdvice_hostOfTheInstallation(t *testing.T) {
	for stage, says := range map[models.HostStage]string{
		models.HostStageWaitingForIgnition: "asks the machine config server for its ignition config, which it does " +
			"not get",
		models.HostStageConfiguring: "has its ignition config, and is no node yet",
		models.HostStageJoined:      "is a node of its cluster that is not ready",
		models.HostStageRebooting:   "has not asked the machine config server for its ignition config",
	} {
		require.Contains(t, joiningAdvice(HostSituation{Stage: stage}), says)
	}
}
