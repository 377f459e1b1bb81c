package bmc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

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
