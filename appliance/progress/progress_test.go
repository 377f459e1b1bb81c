package progress

import (
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
)

func TestDerive_clusterThatWasNeverInstalled(t *testing.T) {
	s := newSite(t, "host-1")
	s.Cluster.InstallStartedAt = strfmt.DateTime{}
	p := s.derive()
	require.Equal(t, "north", p.Name)
	require.Empty(t, p.Phases)
	require.NotNil(t, p.Hosts)
	require.Nil(t, p.Failure)
	require.Nil(t, p.Estimate)
}

func TestDerive_stagesWithTheirDurations(t *testing.T) {
	s := newSite(t, "host-1", "host-2", "host-3")
	for _, row := range s.Hosts {
		s.host(0, row.Hostname, lifecycle.HostPreparing, "")
		s.host(60, row.Hostname, lifecycle.HostInstalling, "")
	}
	s.cluster(60, lifecycle.ClusterInstalling, "")
	s.stage(70, "host-2", models.HostStageStartingInstallation)
	s.host(70, "host-2", lifecycle.HostInstallingInProgress, "")
	s.stage(80, "host-2", models.HostStageWritingImageToDisk)
	s.stage(200, "host-2", models.HostStageRebooting)
	s.Now = start.Add(230 * time.Second)
	p := s.derive()
	require.Equal(t, []string{"Preparing done 60", "Installing running 170", "Finalizing waiting 0"}, brief(p.Phases))
	require.Equal(t, "host-1 bootstrap", p.Hosts[0].Name+" "+p.Hosts[0].Role)
	// The host left the stages Installing and Copying registry data to disk out.
	require.Equal(t, []string{"Preparation done 60", "Starting installation done 20", "Writing image to disk done 120",
		"Rebooting running 30", "Configuring waiting 0", "Joined waiting 0"}, brief(p.Hosts[1].Stages))
	require.Equal(t, Running, p.Hosts[1].State)
}

func TestDerive_ignoresEarlierInstallations(t *testing.T) {
	s := newSite(t, "host-1")
	s.stage(-500, "host-1", models.HostStageRebooting)
	s.fail(-400, "host-1", "broken disk")
	s.host(0, "host-1", lifecycle.HostInstalling, "")
	s.cluster(0, lifecycle.ClusterInstalling, "")
	s.Cluster.InstallCompletedAt = strfmt.DateTime{}
	p := s.derive()
	require.Nil(t, p.Failure)
	require.Equal(t, "Starting installation running 0", brief(p.Hosts[0].Stages)[0])
}

func TestDerive_hostThatWaitsForAPerson(t *testing.T) {
	s := newSite(t, "host-1", "host-2", "host-3")
	s.cluster(10, lifecycle.ClusterInstalling, "")
	s.stage(20, "host-2", models.HostStageRebooting)
	s.host(50, "host-2", lifecycle.HostPendingUserAction, lifecycle.WrongBootOrder)
	s.cluster(50, lifecycle.ClusterPendingUserAction, "")
	p := s.derive()
	require.Equal(t, Blocked, p.Hosts[1].State)
	require.Equal(t, "Rebooting blocked 30", brief(p.Hosts[1].Stages)[0])
	require.Equal(t, Blocked, p.Phases[1].State)
}

func TestDerive_installedClusterTakesNoMoreTime(t *testing.T) {
	s := installed(t, 100, 300, 200)
	s.Now = start.Add(time.Hour)
	p := s.derive()
	require.Equal(t, []string{"Preparing done 100", "Installing done 300", "Finalizing done 200"}, brief(p.Phases))
	require.Equal(t, Done, p.Hosts[0].State)
	require.Equal(t, []string{"Starting installation done 50", "Rebooting done 250"}, brief(p.Hosts[0].Stages))
	require.Nil(t, p.Estimate)
}

// installed is a single-node cluster whose phases took these seconds.
func installed(t *testing.T, preparing, installing, finalizing int) *site {
	s := newSite(t, "host-1")
	s.cluster(preparing, lifecycle.ClusterInstalling, "")
	s.host(preparing, "host-1", lifecycle.HostInstalling, "")
	s.stage(preparing+50, "host-1", models.HostStageRebooting)
	s.stage(preparing+installing, "host-1", models.HostStageDone)
	s.host(preparing+installing, "host-1", lifecycle.HostInstalled, "")
	s.cluster(preparing+installing, lifecycle.ClusterFinalizing, "")
	s.add(preparing+installing+10, event.FinalizingStage, "", event.Props{"finalizing_stage": "Adding router ca"})
	s.cluster(preparing+installing+finalizing, lifecycle.ClusterInstalled, "")
	return s
}

func past(t *testing.T, preparing, installing, finalizing int) *Past {
	return Summarize(installed(t, preparing, installing, finalizing).derive(), SingleNode)
}

func TestSummarize_durationsByPhaseAndStage(t *testing.T) {
	one := past(t, 100, 300, 200)
	require.InDelta(t, 600, one.Seconds, 0)
	require.Equal(t, map[string]float64{PhasePreparing: 100, PhaseInstalling: 300, PhaseFinalizing: 200}, one.Phases)
	require.Equal(t, map[string]map[string]float64{"master": {"Starting installation": 50, "Rebooting": 250}},
		one.Stages)
}

func TestEstimate_byEarlierInstallations(t *testing.T) {
	history := []*Past{past(t, 100, 250, 200), past(t, 100, 350, 200), past(t, 100, 450, 300)}
	for _, test := range []struct {
		name string
		do   func(*site)
		left float64
	}{
		{"while it is prepared", func(s *site) {
			s.Cluster.Status = statusOf(lifecycle.ClusterPreparing)
			s.Now = start.Add(30 * time.Second)
		}, 70 + 350 + 200},
		{"in a stage of the host", func(s *site) {
			s.cluster(100, lifecycle.ClusterInstalling, "")
			s.host(100, "host-1", lifecycle.HostInstalling, "")
			s.stage(150, "host-1", models.HostStageRebooting)
			s.host(150, "host-1", lifecycle.HostInstallingInProgress, "")
			s.Now = start.Add(200 * time.Second)
		}, 250 + 200},
		{"while it is finalized", func(s *site) {
			s.cluster(100, lifecycle.ClusterInstalling, "")
			s.stage(400, "host-1", models.HostStageDone)
			s.host(400, "host-1", lifecycle.HostInstalled, "")
			s.cluster(400, lifecycle.ClusterFinalizing, "")
			s.Now = start.Add(450 * time.Second)
		}, 150},
		{"longer than ever before", func(s *site) {
			s.cluster(100, lifecycle.ClusterInstalling, "")
			s.stage(400, "host-1", models.HostStageDone)
			s.host(400, "host-1", lifecycle.HostInstalled, "")
			s.cluster(400, lifecycle.ClusterFinalizing, "")
			s.Now = start.Add(time.Hour)
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, "host-1")
			s.Past = history
			test.do(s)
			require.Equal(t, &Estimate{Seconds: test.left, Installations: 3, Shortest: 550, Longest: 850},
				s.derive().Estimate)
		})
	}
}

func statusOf(status string) *string { return &status }

func TestEstimate_ignoresOtherShapes(t *testing.T) {
	s := newSite(t, "host-1", "host-2", "host-3")
	s.Past = []*Past{past(t, 100, 300, 200)}
	s.cluster(10, lifecycle.ClusterInstalling, "")
	require.Nil(t, s.derive().Estimate)
}

func TestStage_lateComparedWithEarlierOnes(t *testing.T) {
	for _, test := range []struct {
		name    string
		seconds int
		late    bool
	}{
		{"within the usual time", 200, false},
		{"as long as the longest one", 250, false},
		{"much longer", 400, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, "host-1")
			s.Past = []*Past{past(t, 100, 300, 200)}
			s.cluster(100, lifecycle.ClusterInstalling, "")
			s.stage(150, "host-1", models.HostStageRebooting)
			s.Now = start.Add(time.Duration(150+test.seconds) * time.Second)
			stage := s.derive().Hosts[0].Stages[0]
			require.Equal(t, "Rebooting", stage.Name)
			require.InDelta(t, 250, stage.Usual, 0)
			require.Equal(t, test.late, stage.Late)
		})
	}
}
