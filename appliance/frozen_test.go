package appliance_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
	"landfall/web/console"
)

// TestInstallation_survivesStop stops the process of the appliance in the middle of an installation
// for longer than a host may be silent. Both clocks go on meanwhile.
func TestInstallation_survivesStop(t *testing.T) {
	s := newSite(t)
	s.config.Timeouts.HostDisconnected = 3 * time.Second
	in := &crashTest{applianceProcess: newApplianceProcess(t, s), site: s, number: 1}
	in.start(t)
	in.create(t)
	ctx, cancel := context.WithTimeout(t.Context(), installationLimit)
	defer cancel()
	writing := make(chan struct{}, crashHosts)
	group := &simulate.HostGroup{
		URL: in.address, InfraEnvID: in.envID.String(), Count: crashHosts, Speed: 600,
		Observer: func(event simulate.Event) {
			if event.Kind == simulate.EventStage && event.Stage == models.HostStageWritingImageToDisk {
				select {
				case writing <- struct{}{}:
				default:
				}
			}
		},
	}
	groupEnded, operatorEnded := make(chan error, 1), make(chan error, 1)
	go func() { groupEnded <- group.Run(ctx) }()
	go func() { operatorEnded <- in.runOperator(ctx) }()
	select {
	case <-writing:
	case err := <-operatorEnded:
		require.NoError(t, err)
	}

	require.NoError(t, in.process.Process.Signal(syscall.SIGSTOP))
	stopped := time.NewTimer(3 * s.config.Timeouts.HostDisconnected)
	<-stopped.C
	require.NoError(t, in.process.Process.Signal(syscall.SIGCONT))

	require.NoError(t, <-operatorEnded)
	require.NoError(t, <-groupEnded)
	_, text := fetch(t, in.address+console.MetricsPath, "", "")
	metrics := string(text)
	require.Contains(t, metrics, "\nlandfall_interruptions_total ")
	require.NotContains(t, metrics, "\nlandfall_interruptions_total 0\n")
	in.kill(t)
}
