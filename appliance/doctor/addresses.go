package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// ErrCannotTell is returned by Doctor.Neighbour for an address outside of this machine's networks.
var ErrCannotTell = errors.New("this machine is not in the address's network")

func (e *diagnosis) addressChecks() []check {
	var checks []check
	for _, address := range e.site.UnusedAddresses {
		checks = append(checks, func(ctx context.Context) []Finding { return []Finding{e.checkUnused(ctx, address)} })
	}
	return checks
}

// free checks that no machine uses an address that the cluster is to get.
func (e *diagnosis) checkUnused(ctx context.Context, address netip.Addr) Finding {
	finding := Finding{Area: Addresses, Subject: address.String(), Status: Green,
		Check: "which machine answers ARP requests for it", Result: "nobody"}
	if len(e.site.MachineNetworks) > 0 && !slices.ContainsFunc(e.site.MachineNetworks,
		func(p netip.Prefix) bool { return p.Contains(address) }) {
		finding.Status, finding.Check = Red, "whether it is in a machine network"
		finding.Result = "the machine networks are " + prefixes(e.site.MachineNetworks)
		finding.Advice = fmt.Sprintf("Choose an address of these networks instead of %s.", address)
		return finding
	}
	holder, err := e.FindNeighbour(ctx, address)
	switch {
	case err != nil:
		finding.Status, finding.Result = Unknown, "it can't be told from here: "+err.Error()
		finding.Advice = "The hosts look themselves once they are up; until then, see that nothing else has the address."
	case holder != "":
		finding.Status, finding.Result = Red, holder
		finding.Advice = fmt.Sprintf("Find the machine with %s and give it another address, or choose another one for "+
			"the cluster.", holder)
	}
	return finding
}

func prefixes(networks []netip.Prefix) string {
	texts := make([]string, len(networks))
	for i, network := range networks {
		texts[i] = network.String()
	}
	return strings.Join(texts, ", ")
}

const (
	// neighbourPatience is the time after which the kernel gives up on an IPv4 neighbour: three
	// requests, one second each.
	neighbourTimeout = 3200 * time.Millisecond
	neighbourPollInterval     = 50 * time.Millisecond
	// discardPort is a port at which a datagram has no effect (RFC 863).
	discardPort = "9"
)

// neighbour returns the hardware address of an IP address. It needs no privileges: it sends a
// datagram to the address and reads the result of the kernel's address resolution from the
// neighbour table.
func findNeighbour(ctx context.Context, address netip.Addr) (string, error) {
	own, near, err := ownAddress(address)
	switch {
	case err != nil:
		return "", err
	case own:
		return "this machine itself", nil
	case !near:
		return "", ErrCannotTell
	case !address.Is4():
		return "", errors.New("neighbours with IPv6 addresses are not asked for")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(address.String(), discardPort))
	if err != nil {
		return "", err
	}
	_, err = conn.Write([]byte{0})
	if err = errors.Join(err, conn.Close()); err != nil {
		return "", err
	}
	ticks := time.NewTicker(neighbourPollInterval)
	defer ticks.Stop()
	ctx, cancel := context.WithTimeout(ctx, neighbourTimeout)
	defer cancel()
	for {
		table, err := os.ReadFile("/proc/net/arp")
		if err != nil {
			return "", err
		}
		if mac := arpEntry(string(table), address); mac != "" {
			return mac, nil
		}
		select {
		case <-ctx.Done():
			return "", nil
		case <-ticks.C:
		}
	}
}

// ownAddress reports whether an address belongs to this machine, or to a network of this machine.
func ownAddress(address netip.Addr) (own, near bool, err error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false, false, err
	}
	for _, held := range addresses {
		prefix, err := netip.ParsePrefix(held.String())
		if err != nil {
			continue
		}
		own = own || prefix.Addr().Unmap() == address
		near = near || prefix.Contains(address)
	}
	return own, near, nil
}

// arpComplete is the flag of an entry whose hardware address is known (ATF_COM, linux/if_arp.h).
const arpComplete = "0x2"

// arpEntry returns the hardware address of an address in the kernel's table; "" if there is none.
func arpEntry(table string, address netip.Addr) string {
	for lines := bufio.NewScanner(strings.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // IP address, HW type, flags, HW address, mask, device
		if len(fields) == 6 && fields[0] == address.String() && fields[2] == arpComplete &&
			fields[3] != "00:00:00:00:00:00" {
			return fields[3]
		}
	}
	return ""
}
