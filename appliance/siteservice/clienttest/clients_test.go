//go:build siteclients

package clienttest

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/siteservice"
	"landfall/appliance/siteservice/dhcpserver"
)

// on switches services on for the appliance's interface.
func on(switches ...siteservice.Switch) siteservice.Configured {
	for i := range switches {
		switches[i].Interface = "eth1"
	}
	return siteservice.Configured{Switches: switches, Names: []string{"landfall.site.example"}}
}

func dynamic(addresses string) siteservice.Switch {
	return siteservice.Switch{Service: siteservice.DHCP, Mode: dhcpserver.Dynamic, Range: addresses}
}

// TestDHCP_udhcpcGetsLease holds that Debian's udhcpc gets an address and the appliance's servers.
func TestDHCP_udhcpcGetsLease(t *testing.T) {
	s := newSite(t, on(dynamic("192.0.2.100-192.0.2.110"), siteservice.Switch{Service: siteservice.DNS},
		siteservice.Switch{Service: siteservice.NTP, LocalClock: true}))
	for _, service := range siteservice.Services() {
		s.await(t, service, siteservice.StateServing, 0)
	}
	out := s.client(t, "udhcpc", "-f", "-q", "-n", "-t", "20", "-T", "2", "-i", s.far, "-O", "ntpsrv",
		"-s", leaseScript(t))
	require.Regexp(t, `BOUND 192\.0\.2\.1\d\d/24 router 192\.0\.2\.10 dns 192\.0\.2\.10 ntp 192\.0\.2\.10 `+
		`lease 3600 server 192\.0\.2\.10`, out)
	found, err := s.services.Addresses()
	require.NoError(t, err)
	require.Len(t, found.Leases, 1)
	require.Contains(t, out, "BOUND "+found.Leases[0].Address+"/24")
}

// TestDHCP_addressThatAnswersARP holds that an address which another machine has is not given.
func TestDHCP_addressThatAnswersARP(t *testing.T) {
	s := lay(t)
	s.client(t, "ip", "address", "add", "192.0.2.100/24", "dev", s.far)
	s.client(t, "ip", "link", "add", "link", s.far, "name", "guest", "type", "macvlan", "mode", "bridge")
	s.client(t, "ip", "link", "set", "guest", "up")
	s.start(t, on(dynamic("192.0.2.100-192.0.2.101")))
	s.await(t, siteservice.DHCP, siteservice.StateServing, 0)
	out := s.client(t, "udhcpc", "-f", "-q", "-n", "-t", "20", "-T", "2", "-i", "guest", "-s", leaseScript(t))
	require.Contains(t, out, "BOUND 192.0.2.101/24")
}

// TestDHCP_addressOfMachineThatLeft holds that an address is given although the kernel still
// remembers a machine that had it.
func TestDHCP_addressOfMachineThatLeft(t *testing.T) {
	s := newSite(t, on(dynamic("192.0.2.100-192.0.2.100")))
	s.await(t, siteservice.DHCP, siteservice.StateServing, 0)
	command(t, "ip", "neighbour", "add", "192.0.2.100", "lladdr", "52:54:00:00:00:99", "dev", s.near, "nud", "stale")
	out := s.client(t, "udhcpc", "-f", "-q", "-n", "-t", "20", "-T", "2", "-i", s.far, "-s", leaseScript(t))
	require.Contains(t, out, "BOUND 192.0.2.100/24")
}

// TestDHCP_foreignServer holds that the service does not start beside dnsmasq, starts when dnsmasq
// has gone, and stops when it comes back.
func TestDHCP_foreignServer(t *testing.T) {
	s := lay(t)
	s.client(t, "ip", "address", "add", "192.0.2.77/24", "dev", s.far)
	foreign := []string{"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null",
		"--port=0", "--user=root", "--group=root",
		"--interface=" + s.far, "--bind-interfaces", "--dhcp-authoritative",
		"--dhcp-range=192.0.2.200,192.0.2.220", "--dhcp-leasefile=" + filepath.Join(t.TempDir(), "leases"),
		"--pid-file=" + filepath.Join(t.TempDir(), "pid")}
	stop := s.program(t, foreign...)
	s.start(t, on(dynamic("192.0.2.100-192.0.2.110")))
	s.await(t, siteservice.DHCP, siteservice.StateYielded, time.Minute)
	status := s.status(siteservice.DHCP)
	require.Len(t, status.Others, 1)
	require.Equal(t, "192.0.2.77", status.Others[0].Address)
	hardware := regexp.MustCompile(`link/ether (\S+)`).FindStringSubmatch(s.client(t, "ip", "link", "show", s.far))
	require.Len(t, hardware, 2)
	require.Equal(t, hardware[1], status.Others[0].MAC)
	require.Contains(t, status.Message, "192.0.2.77 (MAC address ")
	stop()
	s.await(t, siteservice.DHCP, siteservice.StateServing, time.Minute)
	s.program(t, foreign...)
	s.await(t, siteservice.DHCP, siteservice.StateYielded, time.Minute)
}

// TestDNS_digResolves holds that dig gets the names of a cluster and of the appliance, and an
// immediate refusal for others.
func TestDNS_digResolves(t *testing.T) {
	s := newSite(t, on(siteservice.Switch{Service: siteservice.DNS}))
	s.client(t, "ip", "address", "add", "192.0.2.20/24", "dev", s.far)
	s.addCluster(t)
	s.await(t, siteservice.DNS, siteservice.StateServing, 0)
	dig := func(arguments ...string) string {
		all := append([]string{"dig", "@" + serverAddress, "+short", "+tries=1", "+time=30"}, arguments...)
		return strings.TrimSpace(s.client(t, all...))
	}
	require.Eventually(t, func() bool { return dig("api.berlin.site.example") == "192.0.2.5" }, waitLimit,
		100*time.Millisecond)
	require.Equal(t, "192.0.2.6", dig("+tcp", "console.apps.berlin.site.example"))
	require.Equal(t, "api.berlin.site.example.", dig("-x", "192.0.2.5"))
	require.Equal(t, serverAddress, dig("landfall.site.example"))
	require.Contains(t, s.client(t, "dig", "@"+serverAddress, "example.com"), "status: REFUSED")
}

// TestNTP_chronydMeasures holds that chronyd accepts a declared clock and rejects one that is not
// synchronised.
func TestNTP_chronydMeasures(t *testing.T) {
	s := newSite(t, on(siteservice.Switch{Service: siteservice.NTP, LocalClock: true}))
	s.client(t, "ip", "address", "add", "192.0.2.20/24", "dev", s.far)
	s.await(t, siteservice.NTP, siteservice.StateServing, 0)
	out := s.client(t, "/usr/sbin/chronyd", "-Q", "-u", "root", "-t", "60", "-f", "/dev/null", "-L", "0",
		"pidfile "+filepath.Join(t.TempDir(), "pid"), "server "+serverAddress+" iburst maxsamples 1")
	offset := regexp.MustCompile(`System clock wrong by (-?[\d.]+) seconds`).FindStringSubmatch(out)
	require.Len(t, offset, 2, out)
	_, err := strconv.ParseFloat(offset[1], 64)
	require.NoError(t, err)
}

// TestTFTP_clientReadsFiles holds that a TFTP client reads the boot loaders and the menu of a
// machine, and that other names do not exist.
func TestTFTP_clientReadsFiles(t *testing.T) {
	s := newSite(t, on(siteservice.Switch{Service: siteservice.TFTP}))
	s.client(t, "ip", "address", "add", "192.0.2.20/24", "dev", s.far)
	s.await(t, siteservice.TFTP, siteservice.StateServing, 0)
	get := func(name string) (string, string) {
		file := filepath.Join(t.TempDir(), "got")
		out := s.client(t, "tftp", "-m", "binary", serverAddress, "-c", "get", name, file)
		content, err := os.ReadFile(file)
		if err != nil {
			content = nil
		}
		return string(content), out
	}
	content, out := get(infraEnv + "/" + bootPath + "/shimx64.efi")
	require.True(t, string(shim()) == content, out)
	content, _ = get("/" + infraEnv + "/" + bootPath + "/grub.cfg")
	require.Equal(t, "menu of "+infraEnv+" for "+bootMAC+" at "+serverAddress+"\n", content)
	content, _ = get("grub/grub.cfg-01-52-54-00-00-00-07")
	require.Contains(t, content, bootMAC, "GRUB of a site's own DHCP server")
	_, out = get(infraEnv + "/" + bootPath + "/../../etc/passwd")
	require.Contains(t, out, "file not found")
}

// Case 37: a port that another program has: the service names it, and the others start.
func TestFault37_othersStart(t *testing.T) {
	s := lay(t)
	taker := []string{"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root",
		"--listen-address=" + serverAddress, "--bind-interfaces", "--no-resolv",
		"--pid-file=" + filepath.Join(t.TempDir(), "pid")}
	stop := here(t, taker...)
	require.Eventually(t, func() bool {
		socket, err := net.ListenPacket("udp", serverAddress+":53")
		if err == nil {
			require.NoError(t, socket.Close())
		}
		return err != nil
	}, waitLimit, 50*time.Millisecond)
	s.start(t, on(siteservice.Switch{Service: siteservice.DNS}, siteservice.Switch{Service: siteservice.NTP}))
	s.await(t, siteservice.NTP, siteservice.StateServing, 0)
	s.await(t, siteservice.DNS, siteservice.StateFailed, 0)
	require.Regexp(t, `Port 53/udp of 192\.0\.2\.10 is taken by dnsmasq \(process \d+\)`,
		s.status(siteservice.DNS).Message)
	stop()
	s.await(t, siteservice.DNS, siteservice.StateServing, time.Minute)
}
