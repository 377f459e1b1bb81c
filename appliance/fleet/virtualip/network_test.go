//go:build siteclients

package virtualip_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/virtualip"
	"landfall/appliance/siteservice/namespacetest"
)

// TestMain runs the tests in a network namespace of their own.
func TestMain(m *testing.M) { namespacetest.Main(m, "virtual IPs") }

func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	output, err := exec.Command(name, arguments...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, arguments, output)
	return string(output)
}

// network is a bridge in the namespace of a client, to which two interfaces of this namespace are
// connected: those of two members.
type network struct{ pid string }

// lease is what remains of a lease that is always just renewed.
func lease() time.Duration { return 2500 * time.Millisecond }

func newNetwork(t *testing.T) *network {
	t.Helper()
	holder := exec.Command("unshare", "--net", "sleep", "600")
	require.NoError(t, holder.Start())
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	n := &network{strconv.Itoa(holder.Process.Pid)}
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		other, err := os.Readlink("/proc/" + n.pid + "/ns/net")
		return err == nil && other != own
	}, patience, moment)
	n.inside(t, "ip", "link", "add", "bridge0", "type", "bridge", "mcast_snooping", "0")
	run(t, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.rp_filter=0",
		"net.ipv4.conf.default.rp_filter=0")
	for i, name := range []string{"one", "two"} {
		run(t, "ip", "link", "add", name, "type", "veth", "peer", "name", "to-"+name)
		t.Cleanup(func() { run(t, "ip", "link", "delete", name) })
		run(t, "ip", "link", "set", "to-"+name, "netns", n.pid)
		n.inside(t, "ip", "link", "set", "to-"+name, "master", "bridge0", "up")
		run(t, "ip", "address", "add", fmt.Sprintf("192.0.2.%d/24", 11+i), "dev", name)
		run(t, "ip", "link", "set", name, "up")
		run(t, "ip", "address", "add", fmt.Sprintf("2001:db8::%d/64", 11+i), "dev", name, "nodad")
	}
	n.inside(t, "ip", "link", "set", "bridge0", "up")
	n.inside(t, "ip", "address", "add", "192.0.2.1/24", "dev", "bridge0")
	n.inside(t, "ip", "address", "add", "2001:db8::1/64", "dev", "bridge0", "nodad")
	return n
}

// inside runs a program in the namespace of the client.
func (n *network) inside(t *testing.T, arguments ...string) string {
	t.Helper()
	return run(t, "nsenter", append([]string{"--target", n.pid, "--net"}, arguments...)...)
}

const patience, moment = time.Minute, 50 * time.Millisecond

// send makes the client send a packet to an address, so that it asks for the hardware address.
func (n *network) send(t *testing.T, address string) {
	t.Helper()
	n.inside(t, "bash", "-c", "echo > /dev/udp/"+address+"/9")
}

// neighbour waits until the client has the hardware address of a member for an address.
func (n *network) neighbour(t *testing.T, address, member string) {
	t.Helper()
	device, err := net.InterfaceByName(member)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return strings.Contains(n.inside(t, "ip", "neighbour", "show", address), device.HardwareAddr.String())
	}, patience, moment, "the neighbour of the client is %s", member)
}

func has(t *testing.T, member, address string) bool {
	t.Helper()
	return strings.Contains(run(t, "ip", "address", "show", "dev", member), " "+address+"/")
}

func open(t *testing.T, address, member string, clock clockwork.Clock) *virtualip.Address {
	t.Helper()
	opened, err := virtualip.New(virtualip.Options{Address: address, Interface: member, Clock: clock,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return opened
}

func TestAddress_movesWithTheLeader(t *testing.T) {
	n := newNetwork(t)
	for _, address := range []string{"192.0.2.100", "2001:db8::100"} {
		one := open(t, address, "one", clockwork.NewRealClock())
		two := open(t, address, "two", clockwork.NewRealClock())
		require.True(t, one.Is(address))
		lead := func(member *virtualip.Address, name string) (resign func()) {
			ctx, cancel := context.WithCancel(t.Context())
			var leading sync.WaitGroup
			leading.Go(func() { member.Hold(ctx, lease) })
			require.Eventually(t, func() bool { return has(t, name, address) }, patience, moment)
			return func() { cancel(); leading.Wait() }
		}
		resign := lead(one, "one")
		n.send(t, address)
		n.neighbour(t, address, "one")
		resign()
		require.False(t, has(t, "one", address))
		resign = lead(two, "two")
		n.neighbour(t, address, "two") // nobody has asked: it was announced
		resign()
		require.False(t, has(t, "two", address))
	}
}

func TestAddress_pausedLeaderLosesIt(t *testing.T) {
	newNetwork(t)
	clock := clockwork.NewFakeClock() // nobody renews the address
	address := open(t, "192.0.2.100", "one", clock)
	ctx, cancel := context.WithCancel(t.Context())
	var leading sync.WaitGroup
	leading.Go(func() { address.Hold(ctx, lease) })
	require.Eventually(t, func() bool { return has(t, "one", "192.0.2.100") }, patience, moment)
	require.Eventually(t, func() bool { return !has(t, "one", "192.0.2.100") }, patience, moment)
	cancel()
	leading.Wait()
}

// TestAddress_lastsAsLongAsTheLease reads the lifetime of the address in the kernel.
func TestAddress_lastsAsLongAsTheLease(t *testing.T) {
	newNetwork(t)
	address := open(t, "192.0.2.100", "one", clockwork.NewFakeClock())
	ctx, cancel := context.WithCancel(t.Context())
	var leading sync.WaitGroup
	leading.Go(func() {
		address.Hold(ctx, func() time.Duration { return 1000*time.Second + time.Millisecond })
	})
	require.Eventually(t, func() bool { return has(t, "one", "192.0.2.100") }, patience, moment)
	_, text, found := strings.Cut(run(t, "ip", "address", "show", "to", "192.0.2.100"), "valid_lft ")
	require.True(t, found)
	var left int
	_, err := fmt.Sscanf(text, "%dsec", &left)
	require.NoError(t, err)
	require.LessOrEqual(t, left, 1001, "the rest of the lease in whole seconds")
	require.Greater(t, left, 900)
	cancel()
	leading.Wait()
}

func TestAddress_formerLeaderRemovesIt(t *testing.T) {
	newNetwork(t)
	run(t, "ip", "address", "add", "192.0.2.100/32", "dev", "one") // of a killed process
	address := open(t, "192.0.2.100", "", clockwork.NewRealClock())
	require.False(t, has(t, "one", "192.0.2.100"))
	address.Hold(t.Context(), func() time.Duration { return 0 })
	require.False(t, has(t, "one", "192.0.2.100"))
}

// TestAddress_link takes the cable out of the switch, and puts it in again.
func TestAddress_link(t *testing.T) {
	n := newNetwork(t)
	one := open(t, "192.0.2.100", "one", clockwork.NewRealClock())
	require.Eventually(t, one.Linked, patience, moment)
	n.inside(t, "ip", "link", "set", "to-one", "down")
	require.Eventually(t, func() bool { return !one.Linked() }, patience, moment)
	n.inside(t, "ip", "link", "set", "to-one", "up")
	require.Eventually(t, one.Linked, patience, moment)
	run(t, "ip", "link", "set", "one", "down")
	require.False(t, one.Linked())
}

func TestAddress_rivalIsNamedAndForgotten(t *testing.T) {
	n := newNetwork(t)
	for _, address := range []string{"192.0.2.100", "2001:db8::100"} {
		clock := clockwork.NewFakeClock()
		held := open(t, address, "one", clock)
		_, hardware, _ := strings.Cut(n.inside(t, "ip", "link", "show", "dev", "bridge0"), "link/ether ")
		hardware, _, found := strings.Cut(hardware, " ")
		require.True(t, found)
		n.inside(t, "ip", "address", "add", address, "dev", "bridge0", "nodad")
		ctx, cancel := context.WithCancel(t.Context())
		var leading sync.WaitGroup
		leading.Go(func() { held.Hold(ctx, lease) })
		require.Eventually(t, func() bool { return strings.Contains(held.State().Problem, hardware) }, patience, moment,
			"the other machine with %s", address)
		n.inside(t, "ip", "address", "delete", address, "dev", "bridge0")
		require.NoError(t, clock.BlockUntilContext(ctx, 2))
		clock.Advance(30 * time.Second)
		require.Eventually(t, func() bool { return held.State().Problem == "" }, patience, moment)
		require.Equal(t, &virtualip.State{Address: address, Interface: "one"}, held.State())
		cancel()
		leading.Wait()
	}
}

func TestNew_withoutCapabilities(t *testing.T) {
	newNetwork(t)
	err := exec.Command("setpriv", "--version").Run()
	require.NoError(t, err)
	program := exec.Command("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--clear-groups", "--reuid=65534",
		os.Args[0], "-test.run", "^TestNew_sentenceWithoutCapabilities$", "-test.v")
	program.Env = append(os.Environ(), namespacetest.Inside+"=1", "VIRTUALIP_UNPRIVILEGED=1")
	output, err := program.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "CAP_NET_ADMIN and CAP_NET_RAW")
}

// TestNew_sentenceWithoutCapabilities is run by the test above without capabilities.
func TestNew_sentenceWithoutCapabilities(t *testing.T) {
	if os.Getenv("VIRTUALIP_UNPRIVILEGED") == "" {
		return
	}
	_, err := virtualip.New(virtualip.Options{Address: "192.0.2.100", Interface: "one"})
	require.Error(t, err)
	fmt.Println(err)
}
