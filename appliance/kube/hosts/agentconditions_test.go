package hosts

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/objects/agentinstall"
)

// TestAgentConditions checks the table in upstream's docs/hive-integration/kube-api-conditions.md.
func TestAgentConditions(t *testing.T) {
	const failing = `{"network":[{"id":"b","status":"failure","message":"No route."},{"id":"d","status":"pending","message":"No route."},{"id":"c","status":"disabled","message":"off"}],"hardware":[{"id":"a","status":"pending","message":"No disk."}]}`
	const passing = `{"hardware":[{"id":"a","status":"success","message":"fine"}]}`
	undecided, notStarted := "False AgentNotReady", "False InstallationNotStarted"
	conditions := func(host *models.Host, approved bool) []agentinstall.Condition {
		groups, err := parseValidations(host.ValidationsInfo)
		require.NoError(t, err)
		return agentConditions(host, groups, approved)
	}
	for status, c := range map[string][]string{ // Connected, RequirementsMet, Validated, Installed, Bound
		models.HostStatusDiscovering: {"True AgentIsConnected", undecided, "True ValidationsPassing",
			notStarted, "True Bound"},
		models.HostStatusKnown: {"True AgentIsConnected", "True AgentIsReady",
			"True ValidationsPassing", notStarted, "True Bound"},
		models.HostStatusKnownUnbound: {"True AgentIsConnected", "True AgentIsReady",
			"True ValidationsPassing", notStarted, "False Unbound"},
		models.HostStatusDisconnected: {"False AgentIsDisconnected", undecided,
			"True ValidationsPassing", notStarted, "True Bound"},
		models.HostStatusDisconnectedUnbound: {"False AgentIsDisconnected", undecided,
			"True ValidationsPassing", notStarted, "False Unbound"},
		models.HostStatusInsufficient: {"True AgentIsConnected", undecided, "False ValidationsFailing",
			notStarted, "True Bound"},
		models.HostStatusPendingForInput: {"True AgentIsConnected", undecided,
			"False ValidationsUserPending", notStarted, "True Bound"},
		models.HostStatusBinding: {"True AgentIsConnected", "False Binding", "False Binding",
			"False Binding", "False Binding"},
		models.HostStatusUnbinding: {"True AgentIsConnected", "False Unbinding", "False Unbinding",
			"False Unbinding", "False Unbinding"},
		models.HostStatusUnbindingPendingUserAction: {"True AgentIsConnected", "False Unbinding", "False Unbinding",
			"False Unbinding", "False UnbindingPendingUserAction"},
		models.HostStatusInstallingPendingUserAction: {"True AgentIsConnected", "True AgentAlreadyInstalling",
			"True ValidationsPassing", "False InstallationInProgress", "True Bound"},
		models.HostStatusPreparingFailed: {"True AgentIsConnected", "Unknown UnknownStatus",
			"True ValidationsPassing", "Unknown UnknownStatus", "True Bound"},
		models.HostStatusReclaiming: {"True AgentIsConnected", "Unknown UnknownStatus",
			"True ValidationsPassing", "Unknown UnknownStatus", "True Bound"},
		models.HostStatusError: {"True AgentIsConnected", "True AgentInstallationStopped",
			"True ValidationsPassing", "False InstallationFailed", "True Bound"},
		models.HostStatusInstalled: {"True AgentIsConnected", "True AgentInstallationStopped",
			"True ValidationsPassing", "True InstallationCompleted", "True Bound"},
		models.HostStatusAddedToExistingCluster: {"True AgentIsConnected", "True AgentInstallationStopped",
			"True ValidationsPassing", "True InstallationCompleted", "True Bound"},
	} {
		info := "info"
		host := &models.Host{Status: &status, StatusInfo: &info, ValidationsInfo: passing}
		var got []string
		for _, is := range conditions(host, true) {
			got = append(got, string(is.Status)+" "+is.Reason)
		}
		require.Equal(t, c, got, status)
	}
	status, info := models.HostStatusInsufficient, ""
	host := &models.Host{Status: &status, StatusInfo: &info, ValidationsInfo: failing}
	require.Equal(t, "The agent's validations are failing: No disk. No route.", conditions(host, false)[2].Message)
	host.ValidationsInfo, *host.Status = "", models.HostStatusDiscovering
	require.Equal(t, "ValidationsUnknown", conditions(host, false)[2].Reason)
	*host.Status = models.HostStatusKnown
	require.Equal(t, "AgentIsNotApproved", conditions(host, false)[1].Reason)
	for _, c := range agentConditions(nil, nil, false) {
		require.Equal(t, "NotAvailable", c.Reason)
	}
}
