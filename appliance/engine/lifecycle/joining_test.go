package lifecycle

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestJoiningAdvice_hostOfTheInstallation(t *testing.T) {
	for stage, want := range map[models.HostStage]string{
		models.HostStageWaitingForIgnition: "gets no ignition config from the machine config server",
		models.HostStageConfiguring:        "has its ignition config, but is not a node yet",
		models.HostStageJoined:             "is a node of its cluster, but not ready",
		models.HostStageRebooting:          "has not requested its ignition config from the machine config server",
	} {
		require.Contains(t, joiningAdvice(HostSituation{Stage: stage}), want)
	}
}
