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

// ErrOtherNetwork is returned by Doctor.FindNeighbour for an address outside of this machine's
// networks.
var ErrOtherNetwork = errors.New("the address is not in a network of this machine")

func (d *diagnosis) addressChecks() []check {
	var checks []check
	for _, address := range d.site.UnusedAddresses {
		checks = append(checks, func(ctx context.Context) []Finding { return []Finding{d.checkUnused(ctx, address)} })
	}
	return checks
}

// checkUnused checks that no machine uses an address that is reserved for the cluster.
func (d *diagnosis) checkUnused(ctx context.Context, address netip.Addr) Finding {
	finding := Finding{Area: Addresses, Subject: address.String(), Status: Green,
		Check: "which machine answers ARP requests for it", Result: "no machine"}
	if len(d.site.MachineNetworks) > 0 && !slices.ContainsFunc(d.site.MachineNetworks,
		func(p netip.Prefix) bool { return p.Contains(address) }) {
		finding.Status, finding.Check = Red, "whether it is in a machine network"
		finding.Result = "the machine networks are " + prefixes(d.site.MachineNetworks)
		finding.Advice = fmt.Sprintf("Choose an address of these networks instead of %s.", address)
		return finding
	}
	holder, err := d.FindNeighbour(ctx, address)
	switch {
	case err != nil:
		finding.Status, finding.Result = Unknown, "cannot be determined from this machine: "+err.Error()
		finding.Advice = "The hosts check the address themselves after they boot. Until then, make sure that no " +
			"other machine uses it."
	case holder != "":
		finding.Status, finding.Result = Red, holder
		finding.Advice = fmt.Sprintf("Find the machine with %s and give it another address, or choose another "+
			"address for the cluster.", holder)
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
	// neighbourTimeout is the time after which the kernel gives up on an IPv4 neighbour: three
	// requests, one second each.
	neighbourTimeout = 3200 * time.Millisecond
	// renewalTimeout is the same for one that it knew earlier: it first hopes for 5 seconds that
	// the machine sends something.
	renewalTimeout        = 5*time.Second + 2*neighbourTimeout
	neighbourPollInterval = 50 * time.Millisecond
	// discardPort is the port of the discard service, which ignores datagrams (RFC 863).
	discardPort = "9"
)

// FindNeighbour returns the hardware address of an IP address, or "". The machine may have left
// some minutes ago: see [findHolder]. It needs no privileges: it sends a datagram to the address
// and reads the result of the kernel's address resolution from the neighbour table.
func FindNeighbour(ctx context.Context, address netip.Addr) (string, error) {
	return resolve(ctx, address, neighbourTimeout, func() (string, bool, error) {
		table, err := os.ReadFile("/proc/net/arp")
		mac := arpEntry(string(table), address)
		return mac, mac != "", err
	})
}

// findHolder returns the hardware address of a machine that answers for an IP address now, or "".
// If the kernel knew one earlier, it waits until the kernel has asked that one again, and then
// makes it ask all machines.
func findHolder(ctx context.Context, address netip.Addr) (string, error) {
	earlier := false
	look := func() (string, bool, error) {
		mac, known, err := neighbourNow(address)
		earlier = earlier || !known && mac != ""
		return mac, known, err
	}
	mac, err := resolve(ctx, address, renewalTimeout, look)
	if err == nil && mac == "" && earlier {
		return resolve(ctx, address, renewalTimeout, look)
	}
	return mac, err
}

// resolve makes the kernel ask for the hardware address of an IP address, and returns what look
// finds in the time. The result of look is final if known is true.
func resolve(ctx context.Context, address netip.Addr, limit time.Duration,
	look func() (mac string, known bool, err error)) (string, error) {
	own, near, err := ownAddress(address)
	switch {
	case err != nil:
		return "", err
	case own:
		return "this machine itself", nil
	case !near:
		return "", ErrOtherNetwork
	case !address.Is4():
		return "", errors.New("neighbours with IPv6 addresses are not supported")
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
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		mac, known, err := look()
		if err != nil || known {
			return mac, err
		}
		select {
		case <-ctx.Done():
			if mac != "" {
				return "", fmt.Errorf("the machine with %s had the address, and the kernel has not asked it again", mac)
			}
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
	for _, local := range addresses {
		prefix, err := netip.ParsePrefix(local.String())
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

// arpEntry returns the hardware address of an IP address in the kernel's table; "" without an
// entry.
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
