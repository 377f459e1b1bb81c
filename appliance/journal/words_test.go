package journal

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/validation"
)

func TestStateName_isInWords(t *testing.T) {
	for state, want := range map[string]string{
		models.HostStatusKnown:                       "ready",
		models.HostStatusKnownUnbound:                "available",
		models.HostStatusInsufficientUnbound:         "insufficient",
		models.HostStatusInstallingPendingUserAction: "needs an action",
		models.ClusterStatusPendingForInput:          "needs input",
		models.ClusterStatusPreparingForInstallation: "preparing",
		models.ClusterStatusInstalled:                "installed",
		models.ClusterStatusError:                    "failed",
	} {
		require.Equal(t, want, stateName(state))
	}
}

func TestVerdictOf_eachStatus(t *testing.T) {
	for status, want := range map[validation.Status]string{
		validation.Success: "passes", validation.Failure: "fails", validation.Pending: "is pending",
		validation.Disabled: "is disabled", validation.Error: "has an error",
	} {
		require.Equal(t, want, verdictOf(string(status)))
	}
}
