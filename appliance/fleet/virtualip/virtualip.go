// Package virtualip gives an address to an interface of the leader of a fleet, so that clients use
// one address whichever member leads.
//
// The kernel removes the address by itself when the leader does not renew it. So a leader that was
// killed or paused keeps it at most about a second longer than its lease, because the kernel counts
// seconds.
package virtualip

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"landfall/appliance/sentence"
)

const (
	// renewInterval is the time between two renewals of the address.
	renewInterval = time.Second
	// announcements is how often the address is announced at once, because a frame may be lost, and
	// announceInterval is the time between two announcements afterwards, for switches that forget,
	// and between two searches for another machine with the address.
	announcements    = 3
	announceInterval = 30 * time.Second
)

// Of neighbour discovery (RFC 4861, sections 4.4 and 4.6.1).
const (
	hopLimit               = 255
	targetLinkLayerAddress = 2 // option
)

// Constants of Linux.
const (
	protocolARP = 0x0806 // ETH_P_ARP
	withoutDAD  = 0x02   // IFA_F_NODAD
)

// Options configures [New].
type Options struct {
	Address   string // without a prefix length
	Interface string // ""; the one with a network that contains the address
	Clock     clockwork.Clock
	Logger    *slog.Logger
}

// Address is an address of the leader. nil is none.
type Address struct {
	Options
	ip     netip.Addr
	device net.Interface

	mu     sync.Mutex
	failed error            // to set or announce the address
	rival  net.HardwareAddr // of another machine with the address; nil: none answered
}

// State describes the address as its holder sees it.
type State struct {
	Address, Interface string
	// Problem says why clients may not reach the leader at the address; "" for none.
	Problem string
}

// State returns the state of the address, nil for none. Only the leader knows its problems.
func (a *Address) State() *State {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &State{Address: a.ip.String(), Interface: a.device.Name}
	switch {
	case a.failed != nil:
		s.Problem = sentence.New(a.failed)
	case a.rival != nil:
		s.Problem = fmt.Sprintf("Another machine, with the hardware address %s, has the virtual IP, too.", a.rival)
	}
	return s
}

// New checks the address and its interface, and removes the address from the interface, where a
// killed process may have left it. Its errors are sentences.
func New(options Options) (*Address, error) {
	if options.Address == "" {
		return nil, nil
	}
	ip, err := netip.ParseAddr(options.Address)
	if err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() {
		return nil, fmt.Errorf("fleet.virtual_ip is %q; expected an IPv4 or IPv6 address that no machine has",
			options.Address)
	}
	a := &Address{Options: options, ip: ip.Unmap()}
	if a.device, err = a.find(); err != nil {
		return nil, err
	}
	if err := a.remove(); err != nil {
		return nil, err
	}
	conn, err := packet.Listen(&a.device, packet.Raw, protocolARP, nil)
	if err != nil {
		return nil, a.explain("announced", err)
	}
	return a, conn.Close()
}

// find returns the interface.
func (a *Address) find() (net.Interface, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return net.Interface{}, fmt.Errorf("list the network interfaces for fleet.virtual_ip: %w", err)
	}
	for _, device := range interfaces {
		if a.Interface == device.Name {
			return device, nil
		}
		addresses, err := device.Addrs()
		if err != nil || a.Interface != "" {
			continue
		}
		for _, address := range addresses {
			prefix, err := netip.ParsePrefix(address.String())
			if err == nil && !prefix.IsSingleIP() && prefix.Contains(a.ip) {
				return device, nil
			}
		}
	}
	if a.Interface != "" {
		return net.Interface{}, fmt.Errorf("fleet.interface is %s, but this machine has no such network interface",
			a.Interface)
	}
	return net.Interface{}, fmt.Errorf("no network interface of this machine has a network that contains "+
		"fleet.virtual_ip (%s); set fleet.interface, or another address", a.ip)
}

// Is reports whether a host is the address.
func (a *Address) Is(host string) bool {
	ip, err := netip.ParseAddr(host)
	return a != nil && err == nil && ip.Unmap() == a.ip
}

// Linked reports whether the interface has a link, or whether there is no address.
func (a *Address) Linked() bool {
	if a == nil {
		return true
	}
	const linked = net.FlagUp | net.FlagRunning
	device, err := net.InterfaceByIndex(a.device.Index)
	return err == nil && device.Flags&linked == linked
}

// Hold has the address on the interface and announces it, until the context ends or this member no
// longer leads. remaining returns for how long it leads if it can't renew its lease.
func (a *Address) Hold(ctx context.Context, remaining func() time.Duration) {
	if a == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var searching sync.WaitGroup
	searching.Go(func() { a.search(ctx) })
	defer searching.Wait()
	defer cancel()
	ticker := a.Clock.NewTicker(renewInterval)
	defer ticker.Stop()
	for round := 0; ctx.Err() == nil; round++ {
		left := remaining()
		if left <= 0 {
			break
		}
		err := a.set(left)
		if err == nil && (round < announcements || round%int(announceInterval/renewInterval) == 0) {
			err = a.announce()
		}
		a.note(ctx, err)
		if err != nil {
			round = -1 // it is announced when it is there
		} else if round == 0 {
			a.Logger.InfoContext(ctx, "This member has the virtual IP.", "address", a.ip, "interface", a.device.Name)
		}
		select {
		case <-ctx.Done():
		case <-ticker.Chan():
		}
	}
	a.note(ctx, nil)
	if err := a.remove(); err != nil {
		a.Logger.Error("The virtual IP could not be removed. The kernel removes it when the lease has ended.", "error",
			err)
	}
}

// note keeps the error of the last attempt to set and announce the address.
func (a *Address) note(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && fmt.Sprint(err) != fmt.Sprint(a.failed) {
		a.Logger.ErrorContext(ctx, "Clients can't reach the fleet at its virtual IP. It is tried again.", "error", err)
	}
	a.failed = err
}

// search looks for another machine with the address until the context ends.
func (a *Address) search(ctx context.Context) {
	ticker := a.Clock.NewTicker(announceInterval)
	defer ticker.Stop()
	for {
		found, err := a.findRival()
		if err != nil && ctx.Err() == nil {
			a.Logger.WarnContext(ctx, "The network can't be asked for another machine with the virtual IP.", "error",
				err)
		}
		if ctx.Err() == nil {
			a.noteRival(ctx, found)
		}
		select {
		case <-ctx.Done():
			a.noteRival(ctx, nil)
			return
		case <-ticker.Chan():
		}
	}
}

func (a *Address) noteRival(ctx context.Context, found net.HardwareAddr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found != nil && !slices.Equal(found, a.rival) {
		a.Logger.ErrorContext(ctx, "Another machine has the virtual IP, too. Hosts may reach it instead of the fleet. "+
			"Take the address from it, or set fleet.virtual_ip to another one.", "address", a.ip,
			"hardware address", found.String())
	}
	a.rival = found
}

// address returns the address with its length of one, so that no route changes. The kernel removes
// it after a time. Its preferred lifetime is zero: connections of this machine use its own
// addresses.
func (a *Address) address(valid time.Duration) *netlink.Addr {
	address := &netlink.Addr{IPNet: &net.IPNet{IP: a.ip.AsSlice(), Mask: net.CIDRMask(a.ip.BitLen(), a.ip.BitLen())},
		ValidLft: int((valid + time.Second - 1) / time.Second)}
	if a.ip.Is6() {
		address.Flags = withoutDAD // the members agree by the election
	}
	return address
}

// zone is the interface in IPv6 addresses. It is a number, because package net keeps the numbers of
// names for a minute.
func (a *Address) zone() string { return strconv.Itoa(a.device.Index) }

func (a *Address) link() netlink.Link {
	return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: a.device.Name, Index: a.device.Index}}
}

// set gives the address to the interface for a time, or renews it.
func (a *Address) set(valid time.Duration) error {
	return a.explain("set", netlink.AddrReplace(a.link(), a.address(valid)))
}

// remove removes the address from the interface. It need not be there.
func (a *Address) remove() error {
	err := netlink.AddrDel(a.link(), a.address(0))
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		err = nil
	}
	return a.explain("removed", err)
}

func (a *Address) explain(action string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("fleet.virtual_ip (%s) can't be %s, because this process lacks the capabilities "+
			"CAP_NET_ADMIN and CAP_NET_RAW; add both to AmbientCapabilities of its systemd unit: %w", a.ip, action, err)
	}
	if err != nil {
		return fmt.Errorf("fleet.virtual_ip (%s) can't be %s on the interface %s: %w", a.ip, action, a.device.Name, err)
	}
	return nil
}

// announce tells the machines of the network that this machine has the address now.
func (a *Address) announce() error {
	if a.ip.Is4() {
		return a.explain("announced", a.announceARP())
	}
	return a.explain("announced", a.announceNDP())
}

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// announceARP sends a gratuitous ARP request and reply; some machines look at one of them only (RFC
// 5227, section 3).
func (a *Address) announceARP() (err error) {
	conn, err := packet.Listen(&a.device, packet.Raw, protocolARP, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, operation := range []byte{requestARP, replyARP} {
		frame := a.frameARP(operation, a.ip, broadcast)
		if _, err := conn.WriteTo(frame, &packet.Addr{HardwareAddr: broadcast}); err != nil {
			return err
		}
	}
	return nil
}

// announceNDP sends an unsolicited neighbour advertisement (RFC 4861, section 7.2.6).
func (a *Address) announceNDP() (err error) {
	conn, err := net.ListenPacket("ip6:ipv6-icmp", a.ip.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	through := ipv6.NewPacketConn(conn)
	err = errors.Join(through.SetMulticastHopLimit(hopLimit), through.SetMulticastInterface(&a.device))
	if err != nil {
		return err
	}
	const override = 0x20
	message, err := a.messageNDP(ipv6.ICMPTypeNeighborAdvertisement, override, targetLinkLayerAddress)
	if err != nil {
		return err
	}
	_, err = conn.WriteTo(message, &net.IPAddr{IP: net.IPv6linklocalallnodes, Zone: a.zone()})
	return err
}
