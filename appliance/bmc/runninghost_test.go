package bmc

import (
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

func TestRunningHost_byStatus(t *testing.T) {
	for _, c := range []struct {
		status, stage, refusal string // no refusal if the boot is accepted
	}{
		{models.HostStatusKnown, "", ""},
		{models.HostStatusError, "Installing", ""},
		{models.HostStatusCancelled, "", ""},
		{models.HostStatusPreparingForInstallation, "", "The server n1 is the host edge-0 of the cluster berlin, " +
			"which is being installed; a boot from the image ends the installation of this host."},
		{models.HostStatusInstallingInProgress, "Writing image to disk",
			"which is being installed (Writing image to disk)"},
		{models.HostStatusInstallingPendingUserAction, "Rebooting", "which is being installed (Rebooting)"},
		{models.HostStatusInstalled, "Done", "The server n1 runs the host edge-0 of the cluster berlin, which is " +
			"installed; a boot from the image takes it out of its cluster."},
		{models.HostStatusAddedToExistingCluster, "Done", "which is installed"},
	} {
		t.Run(c.status, func(t *testing.T) {
			s := newIdleSite(t)
			_, err := s.manager.Ensure(bg, "n1", Desired{Name: "n1", Address: "redfish://192.0.2.7", Username: operator,
				Password: secret, InfraEnvID: infraEnv, BootMAC: "52:54:00:00:00:07"})
			require.NoError(t, err)
			s.setHost(Host{HostRef: HostRef{infraEnv, "h1"}, Name: "edge-0", ClusterID: "id of berlin",
				MACs: []string{"52:54:00:00:00:07"}, Status: c.status, Stage: models.HostStage(c.stage)})
			_, err = s.manager.Boot(bg, "n1", "", false)
			if c.refusal == "" {
				require.NoError(t, err)
				return
			}
			running := new(RunningHostError)
			require.ErrorAs(t, err, &running)
			require.Equal(t, "edge-0", running.Host)
			require.ErrorContains(t, err, c.refusal)
			server, err := s.manager.Server("n1")
			require.NoError(t, err)
			require.Nil(t, server.Pending)
			server, err = s.manager.Boot(bg, "n1", "", true)
			require.NoError(t, err)
			require.True(t, server.Pending.Force)
		})
	}
}

func TestRunningHost_latestRegistration(t *testing.T) {
	s := newIdleSite(t)
	_, err := s.manager.Ensure(bg, "n1", Desired{Name: "n1", Address: "redfish://192.0.2.7", Username: operator,
		Password: secret, InfraEnvID: infraEnv, BootMAC: "52:54:00:00:00:07"})
	require.NoError(t, err)
	former := s.clock.Now()
	s.setHost(Host{HostRef: HostRef{infraEnv, "h1"}, MACs: []string{"52:54:00:00:00:07"}, Registered: former,
		Status: models.HostStatusInstalled})
	s.setHost(Host{HostRef: HostRef{infraEnv, "h2"}, MACs: []string{"52:54:00:00:00:07"},
		Registered: former.Add(1), Status: models.HostStatusKnown})
	_, err = s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err, "the machine has already booted another image since its installation")
}

// Which host registered last is unknown if one registered by a later clock than the current one.
func TestRunningHost_registeredByALaterClock(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before, tomorrow := now.Add(-time.Hour), now.Add(24*time.Hour)
	for name, c := range map[string]struct {
		idle, installed time.Time // registrations of two hosts
		refused         bool
	}{
		"the idle one by a later clock":      {idle: tomorrow, installed: before, refused: true},
		"the installed one by a later clock": {idle: before, installed: tomorrow, refused: true},
		"both by a later clock":              {idle: tomorrow.Add(1), installed: tomorrow, refused: true},
		"the idle one last":                  {idle: now, installed: before},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdleSite(t)
			s.manager.clock = clockwork.NewFakeClockAt(now)
			_, err := s.manager.Ensure(bg, "n1", Desired{Name: "n1", Address: "redfish://192.0.2.7", Username: operator,
				Password: secret, InfraEnvID: infraEnv, BootMAC: "52:54:00:00:00:07"})
			require.NoError(t, err)
			s.setHost(Host{HostRef: HostRef{infraEnv, "h1"}, MACs: []string{"52:54:00:00:00:07"}, Registered: c.idle,
				Status: models.HostStatusKnown})
			s.setHost(Host{HostRef: HostRef{infraEnv, "h2"}, MACs: []string{"52:54:00:00:00:07"},
				Registered: c.installed, Status: models.HostStatusInstalled})
			_, err = s.manager.Boot(bg, "n1", "", false)
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
}

// An owner, such as a BareMetalHost, cannot force a boot.
func TestRunningHost_bootOfOwner(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	host := Host{HostRef: HostRef{infraEnv, "h1"}, Name: "edge-0", MACs: []string{"52:54:00:00:00:07"},
		Registered: s.clock.Now(), Status: models.HostStatusInstalled}
	s.setHost(host)
	s.ensure(b, func(d *Desired) { d.Owner, d.Boot = "BareMetalHost site/n1", true })
	server := s.await("n1", failed)
	require.Equal(t, ProvisioningError, server.Error.Type)
	require.Contains(t, server.Error.Message, "The server n1 runs the host edge-0, which is installed")
	require.Empty(t, b.Boots())
	require.Equal(t, "On", b.Power())

	_, err := s.manager.Boot(bg, "n1", "", true)
	require.NoError(t, err)
	s.await("n1", provisioned)
	require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, time.Minute, time.Millisecond)
	require.Equal(t, redfish.Started{From: "cd", Image: s.image}, b.Boots()[0])
}

// The host may start its installation after the first attempt of a boot has failed.
func TestRunningHost_secondAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		fault   redfish.Fault
		force   bool
		began   step // the step of the first attempt that failed
		refused bool
	}{
		"the server is still on":    {fault: redfish.PowerStuck, began: stepOff, refused: true},
		"the boot is forced":        {fault: redfish.PowerStuck, began: stepOff, force: true},
		"the server is off already": {fault: redfish.Insert500, began: stepInsert},
		"the power-on is repeated":  {fault: redfish.NoRanges, began: stepOn},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdleSite(t)
			s.image = newTestSite(t).image
			b := s.startBMC("generic", c.fault)
			s.ensure(b, nil)
			w := &worker{m: s.manager, id: "n1"}
			w.runNext(t.Context())
			ordered, err := s.manager.Boot(bg, "n1", "", c.force)
			require.NoError(t, err)
			w.runNext(t.Context())
			r, err := s.manager.load("n1")
			require.NoError(t, err)
			require.NoError(t, w.updateRow(bg, r.Generation, func(r *row, now time.Time) {
				if r.Error == nil { // as if the appliance had ended in the last step
					r.Step, r.Image, r.Booted, r.Pending = stepOn, s.image, nil, ordered.Pending
				} else {
					r.Error.RetryAt = now
				}
				require.Equal(t, c.began, r.Step)
			}))
			s.setHost(Host{HostRef: HostRef{infraEnv, "h1"}, Name: "edge-0", MACs: []string{"52:54:00:00:00:07"},
				Status: models.HostStatusInstallingInProgress})
			power := powerChanges(b)
			w.runNext(t.Context())
			server, err := s.manager.Server("n1")
			require.NoError(t, err)
			refused := server.Error != nil && strings.Contains(server.Error.Message, "which is being installed")
			require.Equal(t, c.refused, refused, "%v", server.Error)
			if c.refused {
				require.Equal(t, power, powerChanges(b))
			}
		})
	}
}

// powerChanges returns the number of changes of the power that a BMC was asked for.
func powerChanges(b *redfish.BMC) int {
	return strings.Count(strings.Join(b.Requests(), "\n"), "ComputerSystem.Reset")
}
