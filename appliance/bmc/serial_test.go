package bmc

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

// The boot MAC address of a server without other addresses identifies the host that has registered
// already.
func TestHosts_bootMACGivenLater(t *testing.T) {
	const mac = "52:54:00:00:00:03"
	s := newTestSite(t)
	now := s.clock.Now()
	n1 := row{Server: Server{ID: "n1", Desired: Desired{Name: "n1", Address: "http://127.0.0.1:1", Username: operator},
		State: Provisioned, CredentialsGood: true, PasswordRemoved: true, Booted: &BootStatus{At: now},
		System: &System{SerialNumber: "0123456789"}}}
	n1.Operations.Provision.Start = now
	n1.setOverdue(now)
	require.Equal(t, "The server n1 was powered on with the image 30 minutes ago, but no agent has registered that is "+
		"certainly its own; check at its console whether it booted the image, and whether it reaches the appliance; "+
		"give its boot MAC address if other servers have the same serial number.", n1.Error.Message)
	n2 := row{Server: Server{ID: "n2", State: Available, PasswordRemoved: true, System: n1.System}}
	require.NoError(t, s.db.Update(bg, func(tx *store.Tx) error {
		return errors.Join(serverRows.Put(tx, "n1", &n1), serverRows.Put(tx, "n2", &n2))
	}))
	s.setHost(Host{HostRef: HostRef{infraEnv, "h1"}, SerialNumber: "0123456789", MACs: []string{mac},
		Registered: now.Add(time.Minute)})
	require.NoError(t, s.manager.allHosts(bg))
	server, err := s.manager.Server("n1")
	require.NoError(t, err)
	require.Nil(t, server.Booted.Host)
	_, err = s.manager.Change(bg, "n1", nil, func(d Desired) (Desired, error) {
		d.BootMAC = mac
		return d, nil
	})
	require.NoError(t, err)
	s.await("n1", func(server *Server) bool { return server.Booted.Host != nil })
}

// Many boards report a serial number such as 0123456789. A host with only the serial number of a
// server runs on that server unless it may run on another one.
func TestHosts_sameSerialNumber(t *testing.T) {
	const serial = "0123456789"
	host := Host{HostRef: HostRef{infraEnv, "h1"}, SerialNumber: serial, Registered: time.Now()}
	for name, c := range map[string]struct {
		mac     string // of the host
		other   row    // another server
		matched bool
	}{
		"its own address": {mac: "52:54:00:00:00:01", matched: true,
			other: row{Server: Server{System: &System{SerialNumber: serial}}}},
		"the address of another server": {mac: "52:54:00:00:00:02",
			other: row{Server: Server{Desired: Desired{BootMAC: "52:54:00:00:00:02"}}}},
		"the serial number of two servers": {mac: "52:54:00:00:00:03",
			other: row{Server: Server{System: &System{SerialNumber: serial}}}},
		"the serial number of one server": {mac: "52:54:00:00:00:03", matched: true,
			other: row{Server: Server{System: &System{SerialNumber: "another"}}}},
		"the serial number of one machine": {mac: "52:54:00:00:00:03", matched: true,
			other: row{Server: Server{System: &System{SerialNumber: serial}, DuplicateOf: "n1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdleSite(t)
			require.NoError(t, s.db.Update(bg, func(tx *store.Tx) error {
				c.other.ID = "n2"
				if err := serverRows.Put(tx, "n2", &c.other); err != nil {
					return err
				}
				return serverRows.Put(tx, "n1", &row{Server: Server{ID: "n1", Booted: &BootStatus{},
					System: &System{SerialNumber: serial, MACs: []string{"52:54:00:00:00:01"}}}})
			}))
			host.MACs = []string{c.mac}
			require.NoError(t, s.manager.updateServerOf(bg, "n1", host))
			server, err := s.manager.Server("n1")
			require.NoError(t, err)
			require.Equal(t, c.matched, server.Booted.Host != nil)
		})
	}
}
