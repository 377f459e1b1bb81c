package bmc

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

func TestHistory_failureOnce(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic", redfish.Insert500)
	s.ensure(b, useHTTPBoot)
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	server := s.await("n1", provisioned)
	require.NotContains(t, reasons(server), "ProvisioningError")

	legacy := s.startBMC("dell-idrac9", redfish.Insert500)
	s.ensure(legacy, useHTTPBoot)
	_, err = s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	server = s.await("n1", func(server *Server) bool { return server.Error != nil && server.Error.Count >= 4 })
	var messages []string
	for _, event := range server.History {
		if event.Reason == "VirtualMediaUsed" || event.Reason == "ProvisioningError" {
			messages = append(messages, event.Message)
		}
	}
	require.Len(t, messages, 2, "four attempts, each with the same warning and the same error")
}

func TestHistory_warningAfterSuccess(t *testing.T) {
	r, now := &row{}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range 2 {
		r.addEvent(now, true, "A", "first")
		r.addEvent(now, true, "B", "second")
	}
	require.Len(t, r.History, 2)
	r.addEvent(now, false, "C", "done")
	r.addEvent(now, true, "A", "first")
	require.Len(t, r.History, 4, "a success lies between")
}

func TestHistory_noSerialNumber(t *testing.T) {
	r := &row{Server: Server{System: &System{Manufacturer: "Contoso", Model: "Model 1"}}}
	r.setRegistered(time.Now())
	require.Equal(t, "Registered new host: Contoso Model 1", r.History[1].Message)
	require.Equal(t, "unknown model, serial number SN-7", (&System{SerialNumber: "SN-7"}).Title())
}

func TestEject_allowedBootTarget(t *testing.T) {
	for _, c := range []struct {
		name    string
		targets []string
		history string // "" if the override is cleared
	}{
		{"None", []string{"None", "Cd", "Hdd"}, ""},
		{"disk", []string{"Cd", "Hdd"}, ""},
		{"neither", []string{"Cd", "Pxe"},
			"The boot override stays, because the BMC allows only Cd, Pxe as boot sources."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTestSite(t)
			profile, _ := redfish.ProfileByName("sushy-emulator")
			profile.Targets = c.targets
			b := s.startBMCWith(redfish.Options{Profile: profile}, nil)
			s.boot(b, Host{Status: models.HostStatusInstalled})
			server := s.await("n1", func(server *Server) bool { return !server.Booted.Ejected.IsZero() })
			at := slices.IndexFunc(server.History, func(event Event) bool { return event.Reason == "BootOverride" })
			if c.history == "" {
				require.Negative(t, at, "%v", server.History)
				return
			}
			require.GreaterOrEqual(t, at, 0)
			require.Equal(t, c.history, server.History[at].Message)
		})
	}
}

// A BMC may report its sentence in the error alone, and only a code in its ExtendedInfo.
func TestEject_sentenceOfBMC(t *testing.T) {
	f := readFailure("PATCH", "/redfish/v1/Systems/1", 400, []byte(`{"error": {"code": "Base.1.0.GeneralError",
		"message": "Unknown boot target None", "@Message.ExtendedInfo": [{"MessageId": "Base.1.0.GeneralError"}]}}`))
	require.Equal(t, "Unknown boot target None", f.text())
	s := &session{password: secret}
	require.Equal(t, "Unknown boot target None", s.report(f))
}

func TestActivity_runningAttempt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &row{Server: Server{State: Available, CredentialsGood: true, System: &System{},
		Error: &ErrorStatus{RetryAt: now.Add(time.Second)}}}
	require.Equal(t, "The next attempt is at 12:00:01 UTC.", r.activity(now))
	require.Equal(t, "The next attempt is running.", r.activity(now.Add(time.Second)))
	r.State, r.Step = Provisioning, stepInsert
	require.Equal(t, "It is being booted from the image. Current step: insert the image.",
		r.activity(now.Add(time.Second)))
}

func TestRefusedConnection_schemeOfAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, scheme := range []string{"http", "https"} {
		s := newTestSite(t)
		_, err = s.manager.Ensure(bg, "n1", Desired{Name: "n1",
			Address: "redfish-virtualmedia+" + scheme + "://" + free, Username: operator, Password: secret})
		require.NoError(t, err)
		require.Contains(t, s.await("n1", failed).Error.Message, "that Redfish ("+scheme+") is enabled")
	}
}
