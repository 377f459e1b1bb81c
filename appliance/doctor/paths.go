package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Machine is a machine to which the network path is checked.
type Machine struct {
	Name    string
	Address netip.Addr
}

// Path is a network path to a machine on which packets must not be fragmented. Sizes are in bytes
// and include all headers.
type Path interface {
	// MTU returns the maximum size of packets that this machine knows at the moment.
	MTU() (int, error)
	// Arrives sends a packet of a size and reports whether the machine answered within the
	// patience. It returns errTooLarge if the packet is known to exceed the path's MTU.
	Arrives(ctx context.Context, size int, patience time.Duration) (bool, error)
	Close() error
}

// errTooLarge is the error of a packet that exceeds the path's MTU.
var errTooLarge = errors.New("the packet is too large for the way there")

const (
	smallPacket    = 128
	usualPacket    = 1500
	largestPacket  = 9216 // of jumbo frames; the larger MTU of a loopback device has no meaning
	overlayHeaders = 100  // added by OVN-Kubernetes to the packets between nodes (Geneve over IPv4 or IPv6)
)

func (e *diagnosis) pathChecks() []check {
	var checks []check
	for _, host := range e.site.registryHosts() {
		name, _, err := net.SplitHostPort(withPort(host, "443"))
		if err != nil {
			continue // the check of the registry reports it
		}
		checks = append(checks, func(ctx context.Context) []Finding {
			ctx, cancel := context.WithTimeout(ctx, e.Timeout)
			defer cancel()
			addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
			if err != nil || len(addresses) == 0 || addresses[0].IsLoopback() {
				return nil
			}
			return []Finding{e.checkPath(ctx, Machine{Name: host, Address: addresses[0].Unmap()})}
		})
	}
	for _, machine := range e.site.Machines {
		checks = append(checks, func(ctx context.Context) []Finding { return []Finding{e.checkPath(ctx, machine)} })
	}
	return checks
}

// path checks whether full packets reach a machine without fragmentation. The silent loss of large
// packets is the usual cause of pulls that start and then stall.
func (e *diagnosis) checkPath(ctx context.Context, machine Machine) Finding {
	finding := Finding{Area: Paths, Subject: "way to " + machine.Name, Status: Unknown,
		Check: "whether full packets arrive that must not be cut"}
	cannotTell := func(why string) Finding {
		finding.Result = "it can't be told from here: " + why
		finding.Advice = "Hosts look themselves once they are up; a person can ask with: ping -M do -s 1472 " +
			machine.Address.String()
		return finding
	}
	path, err := e.OpenPath(machine.Address)
	if err != nil {
		return cannotTell(err.Error())
	}
	mtu, small, whole, err := e.measure(ctx, path)
	if err = errors.Join(err, path.Close()); err != nil {
		return cannotTell(reason(err))
	}
	switch {
	case !small:
		return cannotTell(machine.Address.String() + " does not answer datagrams")
	case whole == 0:
		finding.Status = Red
		finding.Result = fmt.Sprintf("packets of %d bytes arrive, those of %d bytes do not, and nobody says why",
			smallPacket, mtu)
		finding.Advice = "Find the switch, tunnel or firewall on the way that drops large packets or the ICMP messages " +
			"about them, or lower the MTU of the networks on both sides."
	case whole < mtu:
		finding.Status = Amber
		finding.Result = fmt.Sprintf("the way takes packets of %d bytes, this machine's network sends %d", whole, mtu)
		finding.Advice = fmt.Sprintf("Give the networks on the way the same MTU. If the nodes' network has %d bytes, the "+
			"cluster network must have %d bytes less (networking.clusterNetworkMTU).", whole, overlayHeaders)
	case mtu < usualPacket:
		finding.Status = Amber
		finding.Result = fmt.Sprintf("packets of %d bytes arrive; the network here takes no larger ones", mtu)
		finding.Advice = fmt.Sprintf("See that the nodes' network is no smaller; the cluster network has %d bytes less "+
			"than that.", overlayHeaders)
	default:
		finding.Status, finding.Result = Green, fmt.Sprintf("packets of %d bytes arrive", mtu)
	}
	return finding
}

// measure returns this machine's own MTU on the path, whether small packets arrive, and the size of
// the largest packet that arrived, 0 if large ones are lost.
func (e *diagnosis) measure(ctx context.Context, path Path) (mtu int, small bool, whole int, err error) {
	if mtu, err = path.MTU(); err != nil {
		return 0, false, 0, err
	}
	mtu = min(mtu, largestPacket)
	if small, err = path.Arrives(ctx, smallPacket, e.Timeout); err != nil || !small {
		return mtu, false, 0, err
	}
	arrived, err := path.Arrives(ctx, mtu, e.Timeout)
	if err == nil && arrived {
		return mtu, true, mtu, nil
	}
	if err == nil || !errors.Is(err, errTooLarge) {
		return mtu, true, 0, err
	}
	known, err := path.MTU() // the MTU of the router that rejected it
	if err != nil || known >= mtu {
		return mtu, true, 0, err
	}
	if arrived, err = path.Arrives(ctx, known, e.Timeout); err != nil || !arrived {
		return mtu, true, 0, err
	}
	return mtu, true, known, nil
}
