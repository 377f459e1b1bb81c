package doctor

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
)

// segment is a network with the DHCP servers of a test. Broadcasts reach every server.
type segment struct {
	net.PacketConn
	servers []net.Addr
}

func (s segment) WriteTo(packet []byte, _ net.Addr) (int, error) {
	for _, server := range s.servers {
		if _, err := s.PacketConn.WriteTo(packet, server); err != nil {
			return 0, err
		}
	}
	return len(packet), nil
}

// startDHCP answers each DHCPDISCOVER with an invalid packet, an offer for another client, and an
// offer.
func startDHCP(t *testing.T, offer ...dhcpv4.Modifier) net.Addr {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		for packet := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				ended <- err
				return
			}
			discovery, err := dhcpv4.FromBytes(packet[:n])
			if err == nil {
				err = answerDHCP(conn, from, discovery, offer)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		require.ErrorIs(t, <-ended, net.ErrClosed)
	})
	return conn.LocalAddr()
}

func answerDHCP(conn net.PacketConn, to net.Addr, discovery *dhcpv4.DHCPv4, offer []dhcpv4.Modifier) error {
	if discovery.MessageType() != dhcpv4.MessageTypeDiscover || !discovery.IsBroadcast() {
		return errors.New("the packet is not a broadcast DHCPDISCOVER")
	}
	ours, err := dhcpv4.NewReplyFromRequest(discovery,
		append([]dhcpv4.Modifier{dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer)}, offer...)...)
	if err != nil {
		return err
	}
	foreign := *ours
	foreign.TransactionID = dhcpv4.TransactionID{1, 2, 3, 4}
	for _, packet := range [][]byte{[]byte("nonsense"), foreign.ToBytes(), ours.ToBytes()} {
		if _, err := conn.WriteTo(packet, to); err != nil {
			return err
		}
	}
	return nil
}

func lease(server, address string, more ...dhcpv4.Modifier) []dhcpv4.Modifier {
	return append([]dhcpv4.Modifier{dhcpv4.WithServerIP(net.ParseIP(server)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(server))),
		dhcpv4.WithYourIP(net.ParseIP(address))}, more...)
}

func TestDHCP_requestedCheck(t *testing.T) {
	router := dhcpv4.WithRouter(net.ParseIP("10.0.0.1"))
	full := lease("10.0.0.2", "10.0.0.50", router, dhcpv4.WithDNS(net.ParseIP("10.0.0.3")),
		dhcpv4.WithOption(dhcpv4.OptNTPServers(net.ParseIP("10.0.0.4"))),
		dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x05, 0xdc}))
	nic := net.Interface{Name: "eth0", Flags: net.FlagUp | net.FlagBroadcast,
		HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	nics := func() ([]net.Interface, error) {
		return []net.Interface{{Name: "lo", Flags: net.FlagUp | net.FlagLoopback},
			{Name: "eth1", Flags: net.FlagBroadcast, HardwareAddr: nic.HardwareAddr}, nic}, nil
	}
	for name, c := range map[string]struct {
		servers [][]dhcpv4.Modifier
		own     string // address of the appliance if it is a DHCP server
		status  Status
		result  string
		advice  string
	}{
		"one server": {[][]dhcpv4.Modifier{full}, "", Green,
			"10.0.0.2 offers 10.0.0.50; router 10.0.0.1; DNS 10.0.0.3; NTP 10.0.0.4; MTU 1500", ""},
		"no server": {nil, "", Amber, "no DHCP server offers an address",
			"Nothing, if the hosts have static addresses"},
		"two servers": {[][]dhcpv4.Modifier{full, lease("192.168.1.1", "192.168.1.7", router)}, "", Red,
			"2 servers offer addresses: ", "Keep the intended server"},
		"offer from another network": {[][]dhcpv4.Modifier{lease("192.168.1.1", "192.168.1.7", router)}, "",
			Amber, "192.168.1.1 offers 192.168.1.7; router 10.0.0.1", "in none of the machine networks 10.0.0.0/24"},
		"no default route": {[][]dhcpv4.Modifier{lease("10.0.0.2", "10.0.0.50")}, "", Amber,
			"10.0.0.2 offers 10.0.0.50", "Configure a router in the DHCP server"},
		"this appliance": {nil, "10.0.0.9", Green, "only this appliance offers addresses", ""},
		"this appliance and another server": {[][]dhcpv4.Modifier{full}, "10.0.0.9", Red,
			"2 servers offer addresses: 10.0.0.9, 10.0.0.2", "Keep the intended server"},
		"this appliance, whose offer arrives": {[][]dhcpv4.Modifier{full}, "10.0.0.2", Green,
			"10.0.0.2 offers 10.0.0.50", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var servers []net.Addr
			for _, offer := range c.servers {
				servers = append(servers, startDHCP(t, offer...))
			}
			d := Doctor{Interfaces: nics, Timeout: 150 * time.Millisecond,
				OpenDHCP: func(iface net.Interface) (net.PacketConn, error) {
					require.Equal(t, "eth0", iface.Name,
						"interfaces that are down and the loopback device are not used")
					conn, err := net.ListenPacket("udp", "127.0.0.1:0")
					return segment{conn, servers}, err
				}}
			own := map[string][]string{}
			if c.own != "" {
				own["eth0"] = []string{c.own}
			}
			finding := find(t, d.Diagnose(t.Context(), &Site{CheckDHCP: true, OwnDHCP: own,
				MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}), "DHCP on eth0")
			require.Equal(t, c.status, finding.Status, finding)
			require.Contains(t, finding.Result, c.result)
			require.Contains(t, finding.Advice, c.advice)
			require.Equal(t, c.advice == "", finding.Advice == "")
		})
	}
	t.Run("missing privilege", func(t *testing.T) {
		d := Doctor{Interfaces: nics, OpenDHCP: func(net.Interface) (net.PacketConn, error) {
			return nil, &os.SyscallError{Syscall: "socket", Err: fs.ErrPermission}
		}}
		finding := find(t, d.Diagnose(t.Context(), &Site{CheckDHCP: true}), "DHCP on eth0")
		require.Equal(t, Unknown, finding.Status)
		require.Equal(t, "cannot be determined from this machine: this process lacks the privilege to send DHCP "+
			"packets", finding.Result)
		require.Contains(t, finding.Advice, "cap_net_raw")
	})
	t.Run("no interface", func(t *testing.T) {
		d := Doctor{Interfaces: func() ([]net.Interface, error) { return nil, nil }}
		require.Equal(t, Unknown, find(t, d.Diagnose(t.Context(), &Site{CheckDHCP: true}),
			"this machine's networks").Status)
	})
	t.Run("not requested", func(t *testing.T) {
		d := Doctor{Interfaces: nics, OpenDHCP: func(net.Interface) (net.PacketConn, error) {
			return nil, errors.New("unexpected DHCP check")
		}}
		for _, finding := range d.Diagnose(t.Context(), &Site{}).Findings {
			require.NotEqual(t, DHCP, finding.Area)
		}
	})
}
