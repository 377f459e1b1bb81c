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
	// MTU returns the current path MTU of this machine's kernel.
	MTU() (int, error)
	// Arrives sends a packet of the given size and reports whether the machine answered within the
	// timeout. It returns errTooLarge if a router or the kernel rejects the packet because of its
	// size.
	Arrives(ctx context.Context, size int, timeout time.Duration) (bool, error)
	Close() error
}

// errTooLarge is the error of a packet that exceeds the path's MTU.
var errTooLarge = errors.New("the packet exceeds the MTU of the path")

const (
	smallPacket    = 128
	usualPacket    = 1500
	largestPacket  = 9216 // of jumbo frames; the larger MTU of a loopback device has no meaning
	overlayHeaders = 100  // added by OVN-Kubernetes to the packets between nodes (Geneve over IPv4 or IPv6)
)

func (d *diagnosis) pathChecks() []check {
	var checks []check
	for _, host := range d.site.registryHosts() {
		name, _, err := net.SplitHostPort(withPort(host, "443"))
		if err != nil {
			continue // the check of the registry reports the error
		}
		checks = append(checks, func(ctx context.Context) []Finding {
			ctx, cancel := context.WithTimeout(ctx, d.Timeout)
			defer cancel()
			addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
			if err != nil || len(addresses) == 0 || addresses[0].IsLoopback() {
				return nil
			}
			return []Finding{d.checkPath(ctx, Machine{Name: host, Address: addresses[0].Unmap()})}
		})
	}
	for _, machine := range d.site.Machines {
		checks = append(checks, func(ctx context.Context) []Finding { return []Finding{d.checkPath(ctx, machine)} })
	}
	return checks
}

// checkPath checks whether packets of full size reach a machine without fragmentation. The silent
// loss of large packets is the usual cause of image pulls that stall.
func (d *diagnosis) checkPath(ctx context.Context, machine Machine) Finding {
	finding := Finding{Area: Paths, Subject: "path to " + machine.Name, Status: Unknown,
		Check: "whether packets of full size arrive without fragmentation"}
	unknown := func(cause string) Finding {
		finding.Result = "cannot be determined from this machine: " + cause
		finding.Advice = "Hosts check the path themselves after they boot. To check by hand, run: ping -M do -s 1472 " +
			machine.Address.String()
		return finding
	}
	if err := d.Egress.CheckAddress(machine.Address); err != nil {
		return unknown(err.Error())
	}
	path, err := d.OpenPath(machine.Address)
	if err != nil {
		return unknown(err.Error())
	}
	mtu, small, whole, err := d.measure(ctx, path)
	if err = errors.Join(err, path.Close()); err != nil {
		return unknown(reason(err))
	}
	switch {
	case !small:
		return unknown(machine.Address.String() + " does not answer datagrams")
	case whole == 0:
		finding.Status = Red
		finding.Result = fmt.Sprintf("packets of %d bytes arrive; packets of %d bytes are lost without an ICMP error",
			smallPacket, mtu)
		finding.Advice = "Find the switch, tunnel or firewall on the path that drops large packets or the ICMP " +
			"errors about them, or lower the MTU of the networks on both sides."
	case whole < mtu:
		finding.Status = Amber
		finding.Result = fmt.Sprintf("the MTU of the path is %d bytes, the MTU of this machine's network is %d bytes",
			whole, mtu)
		finding.Advice = fmt.Sprintf("Give the networks on the path the same MTU. If the nodes' network has an MTU "+
			"of %d bytes, the MTU of the cluster network must be %d bytes smaller (networking.clusterNetworkMTU).",
			whole, overlayHeaders)
	case mtu < usualPacket:
		finding.Status = Amber
		finding.Result = fmt.Sprintf("packets of %d bytes arrive, which is the MTU of this machine's network", mtu)
		finding.Advice = fmt.Sprintf("Make sure that the MTU of the nodes' network is not smaller. The MTU of the "+
			"cluster network is %d bytes smaller still.", overlayHeaders)
	default:
		finding.Status, finding.Result = Green, fmt.Sprintf("packets of %d bytes arrive", mtu)
	}
	return finding
}

// measure returns this machine's own MTU on the path, whether small packets arrive, and the size of
// the largest packet that arrived. The size is 0 if large packets are lost.
func (d *diagnosis) measure(ctx context.Context, path Path) (mtu int, small bool, whole int, err error) {
	if mtu, err = path.MTU(); err != nil {
		return 0, false, 0, err
	}
	mtu = min(mtu, largestPacket)
	if small, err = path.Arrives(ctx, smallPacket, d.Timeout); err != nil || !small {
		return mtu, false, 0, err
	}
	arrived, err := path.Arrives(ctx, mtu, d.Timeout)
	if err == nil && arrived {
		return mtu, true, mtu, nil
	}
	if err == nil || !errors.Is(err, errTooLarge) {
		return mtu, true, 0, err
	}
	routerMTU, err := path.MTU() // of the router that rejected the packet
	if err != nil || routerMTU >= mtu {
		return mtu, true, 0, err
	}
	if arrived, err = path.Arrives(ctx, routerMTU, d.Timeout); err != nil || !arrived {
		return mtu, true, 0, err
	}
	return mtu, true, routerMTU, nil
}
