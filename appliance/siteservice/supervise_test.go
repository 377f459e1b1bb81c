package siteservice

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/siteservice/link"
)

// Case 38: another server on the interface: the service does not start beside it, starts when it
// has gone, and stops when it appears again.
func TestFault38_anotherServerAnswers(t *testing.T) {
	b, server := newBench(t), newFakeServer()
	other := link.Other{Address: "192.0.2.1", MAC: "52:54:00:00:00:01", Details: "offers 192.0.2.50"}
	server.set([]link.Other{other}, nil)
	states := b.supervise(t, server)
	yielded := <-states
	require.Equal(t, StateYielded, yielded.State)
	require.Equal(t, []link.Other{other}, yielded.Others)
	require.Contains(t, yielded.Message, "192.0.2.1 (MAC address 52:54:00:00:00:01) (offers 192.0.2.50)")

	server.set(nil, nil)
	b.advance(t, 1, lookInterval)
	require.Equal(t, StateServing, (<-states).State)
	<-server.started

	server.set([]link.Other{other}, nil)
	b.advance(t, 2, lookInterval)
	require.Equal(t, StateYielded, (<-states).State)
}

// Case 34: a laptop whose address changes: the service follows.
func TestFault34_addressChanges(t *testing.T) {
	b, server := newBench(t), newFakeServer()
	states := b.supervise(t, server)
	require.Equal(t, []string{"192.0.2.10"}, (<-states).Addresses)
	require.Equal(t, eth1("192.0.2.10/24"), <-server.started)

	b.move(eth1("198.51.100.7/24"))
	b.advance(t, 2, addressInterval)
	require.Equal(t, []string{"198.51.100.7"}, (<-states).Addresses)
	require.Equal(t, eth1("198.51.100.7/24"), <-server.started)

	b.move(eth1())
	b.advance(t, 2, addressInterval)
	failed := <-states
	require.Equal(t, StateFailed, failed.State)
	require.Equal(t, "The interface has no address yet.", failed.Message)
}

// Case 37: a port that another program has, and of missing rights: the service says so and tries
// again.
func TestFault37_portTaken(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.10:53")
	for name, c := range map[string]struct {
		failure *link.ListenError
		message string
	}{
		"taken": {&link.ListenError{Network: link.UDP, Address: at, Holder: "dnsmasq (process 812)",
			Err: syscall.EADDRINUSE}, "Port 53/udp of 192.0.2.10 is taken by dnsmasq (process 812); stop it, or " +
			"leave this service switched off here."},
		"taken by an unknown program": {&link.ListenError{Network: link.TCP, Address: at, Err: syscall.EADDRINUSE},
			"Port 53/tcp of 192.0.2.10 is taken by another program (ss -lnp shows it to root); stop it, or leave " +
				"this service switched off here."},
		"no right": {&link.ListenError{Network: link.UDP, Address: at, Program: "/usr/local/bin/landfall",
			Err: syscall.EACCES},
			"The appliance has no right to open port 53/udp of 192.0.2.10; grant it with: setcap " +
				"cap_net_bind_service,cap_net_raw+ep /usr/local/bin/landfall, and restart the appliance."},
		"no right in a service": {&link.ListenError{Network: link.UDP, Address: at, Unit: true, Err: syscall.EACCES},
			"The appliance has no right to open port 53/udp of 192.0.2.10; add the lines for services of the site " +
				"in docs/packages.md with: systemctl edit landfall.service, and restart the appliance."},
	} {
		t.Run(name, func(t *testing.T) {
			b, server := newBench(t), newFakeServer()
			server.set(nil, c.failure)
			states := b.supervise(t, server)
			failed := <-states
			require.Equal(t, StateFailed, failed.State)
			require.Equal(t, c.message, failed.Message)
			server.set(nil, nil)
			b.advance(t, 1, retryInterval)
			require.Equal(t, StateServing, (<-states).State)
		})
	}
}
