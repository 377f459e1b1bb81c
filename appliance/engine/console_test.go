package engine

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
)

func TestSetInstallConfigOverride_console(t *testing.T) {
	b := newHarness(t)
	id := b.clusterOfThree().ID.String()
	monitored := func() (names []string) {
		cluster, err := b.Cluster(id)
		require.NoError(t, err)
		for _, m := range cluster.MonitoredOperators {
			names = append(names, m.Name)
		}
		return names
	}
	for _, test := range []struct {
		name, override string
		console        bool
	}{
		{"without an override", ``, true},
		{"no capabilities", `{"capabilities":{"baselineCapabilitySet":"None"}}`, false},
		{"only the console", `{"capabilities":{"baselineCapabilitySet":"None",` +
			`"additionalEnabledCapabilities":["Console"]}}`, true},
		{"capabilities before the console", `{"capabilities":{"baselineCapabilitySet":"v4.11"}}`, false},
		{"other override", `{"fips":true}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, b.SetInstallConfigOverride(t.Context(), id, test.override))
			if test.console {
				require.Equal(t, []string{"console", "cvo"}, monitored())
			} else {
				require.Equal(t, []string{"cvo"}, monitored())
			}
		})
	}
}

func TestInstall_becomesInstalledWithoutConsole(t *testing.T) {
	b := newHarness(t)
	cluster, _, h := b.readyNode()
	require.NoError(t, b.SetInstallConfigOverride(t.Context(), cluster,
		`{"capabilities":{"baselineCapabilitySet":"None"}}`))
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	h.reportStagesUpTo(models.HostStageDone)
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	require.NoError(t, b.ReportOperator(t.Context(), cluster, &models.OperatorMonitorReport{Name: "cvo",
		Status: models.OperatorStatusAvailable}))
	b.requireCluster(cluster, lifecycle.ClusterInstalled)
}
