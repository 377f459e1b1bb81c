package bmc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

func byHTTP(d *Desired) {
	d.Address = strings.Replace(d.Address, "redfish-virtualmedia", "redfish-uefihttp", 1)
}

func TestAServerBootsAnImageByUEFIHTTP(t *testing.T) {
	for _, c := range []struct{ profile, from string }{
		{"generic", "http"}, {"supermicro-x12", "http"}, {"ami-megarac", "http"}, {"fujitsu-irmc", "http"},
		{"nvidia-dgx", "http"}, {"sushy-emulator", "http"},
		// their firmware has attributes of its own for it
		{"dell-idrac9", "cd"}, {"hpe-ilo6", "cd"}, {"lenovo-xcc", "cd"},
	} {
		t.Run(c.profile, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.bmc(c.profile)
			s.ensure(b, byHTTP)
			_, err := s.manager.Boot(bg, "n1", "")
			require.NoError(t, err)
			server := s.await("n1", provisioned)
			require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, 5*time.Second, time.Millisecond)
			require.Equal(t, redfish.Started{From: c.from, Image: s.image}, b.Boots()[0], "%v", b.Requests())
			if c.from == "cd" {
				require.Contains(t, reasons(server), "VirtualMediaUsed")
				require.True(t, slices.IsSortedFunc(server.History, func(a, b Note) int { return a.At.Compare(b.At) }),
					"who follows the history misses none")
				return
			}
			require.NotContains(t, reasons(server), "VirtualMediaUsed")
			require.Empty(t, b.Inserted())
			require.Nil(t, server.Media)

			s.setHost(Host{
				HostRef: HostRef{infraEnv, "h1"}, MACs: []string{"52:54:00:00:00:07"}, Registered: s.clock.Now(),
				Status: models.HostStatusInstallingInProgress, Stage: models.HostStageRebooting, Minimal: true,
			})
			s.await("n1", func(server *Server) bool { return !server.Booted.Ejected.IsZero() })
			require.Empty(t, b.HTTPBootURI(), "the URL is taken back")
			b.Reboot()
			require.Eventually(t, func() bool { return len(b.Boots()) == 2 }, 5*time.Second, time.Millisecond)
			require.Equal(t, "disk", b.Boots()[1].From)
		})
	}
}

func TestAServerWithoutVirtualDrivesBootsByUEFIHTTP(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic", redfish.NoDrives)
	s.ensure(b, byHTTP)
	_, err := s.manager.Boot(bg, "n1", "")
	require.NoError(t, err)
	s.await("n1", provisioned)
	require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, 5*time.Second, time.Millisecond)
	require.Equal(t, "http", b.Boots()[0].From)
}

func TestAnURLThatABMCDoesNotTakeForUEFIHTTP(t *testing.T) {
	for fault, image := range map[redfish.Fault]string{
		redfish.HTTPBootShort: "http://appliance.landfall.example.com/image.iso",
		redfish.HTTPBootPlain: "https://192.0.2.1/image.iso",
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.bmc("generic", fault)
			s.ensure(b, func(d *Desired) {
				byHTTP(d)
				d.ImageURL = image
			})
			_, err := s.manager.Boot(bg, "n1", "")
			require.NoError(t, err)
			server := s.await("n1", inTrouble)
			require.Equal(t, ProvisioningError, server.Error.Type)
			require.Contains(t, server.Error.Message, "does not take the image's URL "+image+
				" for UEFI HTTP boot; give the appliance a shorter address, in plain http (boot_listen)")
			require.Empty(t, b.Boots())
		})
	}
}

func TestUEFIHTTPBootThatIsCutShortEndsWell(t *testing.T) {
	s := &site{t: t, clock: redfish.Accelerated(hurry), hosts: map[HostRef]Host{}}
	s.image = newSite(t).image
	dir := t.TempDir()
	stop := s.open(dir)
	b := s.bmc("generic")
	s.ensure(b, byHTTP)
	s.await("n1", available)
	_, err := s.manager.Boot(bg, "n1", "")
	require.NoError(t, err)
	for range 3 {
		s.await("n1", func(server *Server) bool { return server.State != Available })
		stop()
		stop = s.open(dir)
	}
	s.await("n1", provisioned)
	require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, 5*time.Second, time.Millisecond)
	for _, started := range b.Boots() {
		require.Equal(t, "http", started.From, "it never came up without the image")
	}
}

func TestUEFIHTTPBootIsForUEFI(t *testing.T) {
	_, err := Desired{Name: "n1", Address: "redfish-uefihttp://192.0.2.7", Username: "root", Password: "x",
		BootMode: "legacy"}.checked()
	require.ErrorContains(t, err, "redfish-uefihttp is for UEFI only; leave the mode out")
}
