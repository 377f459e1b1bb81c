package appliance_test

import (
	"context"
	"regexp"
	"sync"
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
	in := newInterruptedInstallation(t, func(*site) {})
	in.run(t, func(wait func()) {
		require.NoError(t, in.process.Process.Signal(syscall.SIGSTOP))
		wait()
		require.NoError(t, in.process.Process.Signal(syscall.SIGCONT))
	})
}

// interruptedInstallation is an installation on an appliance that is interrupted for a while.
type interruptedInstallation struct{ crashTest }

// newInterruptedInstallation returns an installation on an appliance that change has configured.
func newInterruptedInstallation(t *testing.T, change func(s *site)) *interruptedInstallation {
	t.Helper()
	s := newSite(t)
	s.config.Timeouts.HostDisconnected = 3 * time.Second
	change(s)
	return &interruptedInstallation{crashTest{applianceProcess: newApplianceProcess(t, s), site: s, number: 1,
		groupEvents: make(chan simulate.Event, 4096), stages: make(map[string][]string), steps: make(map[string]bool)}}
}

// run calls interrupt while a host writes its image to its disk. wait returns when hosts have been
// silent for longer than they may. At the end, the cluster is installed, and the appliance has all
// that it acknowledged.
func (in *interruptedInstallation) run(t *testing.T, interrupt func(wait func())) {
	t.Helper()
	in.start(t)
	in.create(t)
	ctx, cancel := context.WithTimeout(t.Context(), installationLimit)
	defer cancel()
	writing, interrupted := make(chan struct{}), make(chan struct{})
	var once sync.Once
	group := &simulate.HostGroup{
		URL: in.address, InfraEnvID: in.envID.String(), Count: crashHosts, Speed: 600,
		Observer: func(event simulate.Event) {
			in.groupEvents <- event
			if event.Kind == simulate.EventStage && event.Stage == models.HostStageWritingImageToDisk {
				once.Do(func() { close(writing) })
				select { // the hosts wait, so that the interruption does not come too late
				case <-interrupted:
				case <-ctx.Done():
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

	interrupt(func() {
		close(interrupted)
		stopped := time.NewTimer(3 * in.site.config.Timeouts.HostDisconnected)
		<-stopped.C
	})

	require.NoError(t, <-operatorEnded)
	require.NoError(t, <-groupEnded)
	in.drain()
	_, text := fetch(t, in.address+console.MetricsPath, "", "")
	found := regexp.MustCompile(`(?m)^landfall_interruptions_total (.+)$`).FindSubmatch(text)
	require.NotNil(t, found, "the metric is missing")
	require.NotEqual(t, "0", string(found[1]), "the interruption was not noticed")
	in.verifyAnswers(t)
	in.kill(t)
	in.verifyStore(t)
}
