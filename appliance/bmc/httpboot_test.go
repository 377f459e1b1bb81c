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

func useHTTPBoot(d *Desired) {
	d.Address = strings.Replace(d.Address, "redfish-virtualmedia", "redfish-uefihttp", 1)
}

func TestHTTPBoot_everyVendor(t *testing.T) {
	for _, c := range []struct{ profile, from string }{
		{"generic", "http"}, {"supermicro-x12", "http"}, {"ami-megarac", "http"}, {"fujitsu-irmc", "http"},
		{"nvidia-dgx", "http"}, {"sushy-emulator", "http"},
		// The firmware of these vendors has its own attributes for HTTP boot.
		{"dell-idrac9", "cd"}, {"hpe-ilo6", "cd"}, {"lenovo-xcc", "cd"},
	} {
		t.Run(c.profile, func(t *testing.T) {
			t.Parallel()
			s := newTestSite(t)
			b := s.startBMC(c.profile)
			s.ensure(b, useHTTPBoot)
			_, err := s.manager.Boot(bg, "n1", "", false)
			require.NoError(t, err)
			server := s.await("n1", provisioned)
			require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, time.Minute, time.Millisecond)
			require.Equal(t, redfish.Started{From: c.from, Image: s.image}, b.Boots()[0], "%v", b.Requests())
			if c.from == "cd" {
				require.Contains(t, reasons(server), "VirtualMediaUsed")
				require.True(t, slices.IsSortedFunc(server.History, func(a, b Event) int { return a.At.Compare(b.At) }),
					"the times of the events increase")
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
			require.Empty(t, b.HTTPBootURI(), "the URL is cleared")
			b.Reboot()
			require.Eventually(t, func() bool { return len(b.Boots()) == 2 }, time.Minute, time.Millisecond)
			require.Equal(t, "disk", b.Boots()[1].From)
		})
	}
}

func TestHTTPBoot_noVirtualMedia(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic", redfish.NoDrives)
	s.ensure(b, useHTTPBoot)
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	s.await("n1", provisioned)
	require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, time.Minute, time.Millisecond)
	require.Equal(t, "http", b.Boots()[0].From)
}

func TestHTTPBoot_rejectedURL(t *testing.T) {
	for fault, image := range map[redfish.Fault]string{
		redfish.HTTPBootShort: "http://appliance.landfall.example.com/image.iso",
		redfish.HTTPBootPlain: "https://192.0.2.1/image.iso",
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			s := newTestSite(t)
			b := s.startBMC("generic", fault)
			s.ensure(b, func(d *Desired) {
				useHTTPBoot(d)
				d.ImageURL = image
			})
			_, err := s.manager.Boot(bg, "n1", "", false)
			require.NoError(t, err)
			server := s.await("n1", failed)
			require.Equal(t, ProvisioningError, server.Error.Type)
			require.Contains(t, server.Error.Message, "rejects the image's URL "+image+
				" for UEFI HTTP boot; give the appliance a shorter address, in plain http (boot_listen)")
			require.Empty(t, b.Boots())
		})
	}
}

func TestHTTPBoot_resumesAfterRestart(t *testing.T) {
	s := &testSite{t: t, clock: redfish.Accelerated(clockSpeed), hosts: map[HostRef]Host{}}
	s.image = newTestSite(t).image
	dir := t.TempDir()
	stop := s.open(dir)
	b := s.startBMC("generic")
	s.ensure(b, useHTTPBoot)
	s.await("n1", available)
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	for range 3 {
		s.await("n1", func(server *Server) bool { return server.State != Available })
		stop()
		stop = s.open(dir)
	}
	s.await("n1", provisioned)
	require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, time.Minute, time.Millisecond)
	for _, started := range b.Boots() {
		require.Equal(t, "http", started.From, "the server never boots without the image")
	}
}

func TestHTTPBoot_legacyModeRejected(t *testing.T) {
	_, err := Desired{Name: "n1", Address: "redfish-uefihttp://192.0.2.7", Username: "root", Password: "x",
		BootMode: "legacy"}.validated()
	require.ErrorContains(t, err, "redfish-uefihttp is for UEFI only; omit the mode")
}
