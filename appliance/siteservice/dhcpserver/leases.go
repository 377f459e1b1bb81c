package dhcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine/network"
	"landfall/appliance/fault"
	"landfall/store"
)

const (
	// offerLifetime is the time for which an offered address is kept for its client.
	offerLifetime = time.Minute
	// conflictLifetime is the time for which an address is not given after another machine had it.
	conflictLifetime = 10 * time.Minute
)

// Lease is an address that a machine has.
type Lease struct {
	Address   string        `json:"address"`
	MAC       string        `json:"mac"`
	Hostname  string        `json:"hostname,omitempty"`
	Interface string        `json:"interface"`
	Duration  time.Duration `json:"duration"` // in nanoseconds
	Granted   time.Time     `json:"granted"`
	// Until is the end of the lease; a restart of the appliance prolongs it. It is not stored.
	Until time.Time `json:"until,omitzero"`
}

// Reservation is the address that a machine gets.
type Reservation struct {
	MAC      string `json:"mac"`
	Address  string `json:"address"`
	Hostname string `json:"hostname,omitempty"`
}

// leaseRows and reservationRows have the MAC address as key.
var (
	leaseRows       = store.NewBucket[Lease]("dhcp-leases", 1)
	reservationRows = store.NewBucket[Reservation]("dhcp-reservations", 1)
)

// held is an address that is not free.
type held struct {
	mac   string    // "" after a conflict
	until time.Time // with a monotonic reading, so that a jump of the clock does not end it
	// stored is the end of a lease of an earlier start of the appliance, by the clock of this
	// machine; zero for others.
	stored time.Time
}

// Leases are the leases and reservations of all interfaces. A lease is in the store before its
// client hears of it. Its methods are safe for concurrent use.
type Leases struct {
	db        *store.DB
	clock     clockwork.Clock
	reserving sync.Mutex // makes the reservations in memory those of the last commit

	mu        sync.Mutex
	byAddress map[netip.Addr]held
	byMAC     map[string]netip.Addr // the address of a machine's lease, which may have ended
	byLease   map[netip.Addr]string // the machines in byMAC by their addresses
	reserved  map[string]Reservation
	taken     map[netip.Addr]string // MAC address of the reservation of an address
}

// OpenLeases reads the leases and reservations. The clock may have jumped since a lease was given,
// so each lease lasts its whole time again. An appliance that starts often would run out of
// addresses by that: if no other address is free, one of a lease that has ended by the clock is.
func OpenLeases(db *store.DB, clock clockwork.Clock) (*Leases, error) {
	l := &Leases{db: db, clock: clock, byAddress: map[netip.Addr]held{}, byMAC: map[string]netip.Addr{},
		byLease: map[netip.Addr]string{}, reserved: map[string]Reservation{}, taken: map[netip.Addr]string{}}
	err := db.View(func(tx *store.Tx) error {
		err := leaseRows.Each(tx, "", func(mac string, lease *Lease) error {
			address, err := netip.ParseAddr(lease.Address)
			if err != nil {
				return fmt.Errorf("read the lease of %s: %w", mac, err)
			}
			l.byAddress[address] = held{mac, clock.Now().Add(lease.Duration), lease.Granted.Add(lease.Duration)}
			l.byMAC[mac], l.byLease[address] = address, mac
			return nil
		})
		return errors.Join(err, reservationRows.Each(tx, "", func(mac string, r *Reservation) error {
			return l.reserve(*r)
		}))
	})
	if err != nil {
		return nil, fmt.Errorf("read the DHCP leases: %w", err)
	}
	return l, nil
}

func (l *Leases) reserve(r Reservation) error {
	address, err := netip.ParseAddr(r.Address)
	if err != nil {
		return fmt.Errorf("read the reservation of %s: %w", r.MAC, err)
	}
	l.reserved[r.MAC], l.taken[address] = r, r.MAC
	return nil
}

// Reserved returns the reservation of a machine.
func (l *Leases) Reserved(mac net.HardwareAddr) (Reservation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.reserved[mac.String()]
	return r, ok
}

// find returns an address for a machine: that of its reservation, the one that it has, the one that
// it wants, or a free one of the range. fresh reports that the machine did not have the address.
func (l *Leases) find(mac net.HardwareAddr, subnet Subnet, own, wanted netip.Addr) (address netip.Addr,
	fresh, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := mac.String()
	if r, reserved := l.reserved[key]; reserved {
		address, err := netip.ParseAddr(r.Address)
		if err == nil && subnet.Network.Contains(address) && subnet.Unfit(address, own) == "" &&
			(l.usable(address, key) || l.ended(address, subnet, own)) {
			return address, l.byMAC[key] != address, l.hold(address, key)
		}
	}
	for _, candidate := range []netip.Addr{l.byMAC[key], wanted} {
		if l.dynamic(candidate, subnet, own, key) {
			return candidate, l.byMAC[key] != candidate, l.hold(candidate, key)
		}
	}
	if !subnet.Range.First.IsValid() {
		return netip.Addr{}, false, false
	}
	first := uint64(number(subnet.Range.First))
	size := uint64(number(subnet.Range.Last)) - first + 1
	hash := fnv.New32a()
	hash.Write(mac)
	start := uint64(hash.Sum32()) % size // a machine whose lease is forgotten gets the same address again
	for i := range size {
		candidate := fromNumber(uint32(first + (start+i)%size))
		if l.dynamic(candidate, subnet, own, key) {
			return candidate, true, l.hold(candidate, key)
		}
	}
	if candidate := l.endedFirst(subnet, own, key); candidate.IsValid() {
		return candidate, true, l.hold(candidate, key)
	}
	return netip.Addr{}, false, false
}

// endedFirst returns the address of the stored lease that ended first; invalid for none.
func (l *Leases) endedFirst(subnet Subnet, own netip.Addr, mac string) (first netip.Addr) {
	for address, h := range l.byAddress {
		if !l.ended(address, subnet, own) || !l.inRange(address, subnet, own, mac) {
			continue
		}
		order := h.stored.Compare(l.byAddress[first].stored)
		if !first.IsValid() || order < 0 || order == 0 && address.Less(first) {
			first = address
		}
	}
	return first
}

// ended reports whether the stored lease of an address has ended by the clock. The clock may be
// wrong, so the caller must ask by ARP whether a machine has the address. ARP does not reach the
// networks of relay agents: their leases last.
func (l *Leases) ended(address netip.Addr, subnet Subnet, own netip.Addr) bool {
	stored := l.byAddress[address].stored
	return subnet.Network.Contains(own) && !stored.IsZero() && !l.clock.Now().Before(stored)
}

// dynamic reports whether an address of the range can be given to a machine.
func (l *Leases) dynamic(address netip.Addr, subnet Subnet, own netip.Addr, mac string) bool {
	return l.inRange(address, subnet, own, mac) && l.usable(address, mac)
}

// inRange reports whether an address of the range can be given to a machine when it is free.
func (l *Leases) inRange(address netip.Addr, subnet Subnet, own netip.Addr, mac string) bool {
	return address.IsValid() && subnet.Range.Contains(address) && subnet.Network.Contains(address) &&
		subnet.Unfit(address, own) == "" && address != subnet.Router &&
		(l.taken[address] == "" || l.taken[address] == mac)
}

func (l *Leases) usable(address netip.Addr, mac string) bool {
	h, ok := l.byAddress[address]
	return !ok || h.mac == mac || !l.clock.Now().Before(h.until)
}

// hold keeps an address for a machine until it asks for it.
func (l *Leases) hold(address netip.Addr, mac string) bool {
	until := l.clock.Now().Add(offerLifetime)
	if h := l.byAddress[address]; h.mac == mac && h.until.After(until) {
		until = h.until
	}
	l.byAddress[address] = held{mac: mac, until: until}
	return true
}

// mayHave reports whether a machine may have an address in a network. After it has moved to another
// network, it may not keep the address that it had (RFC 2131, 4.3.2).
func (l *Leases) mayHave(mac net.HardwareAddr, address netip.Addr, subnet Subnet, own netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := mac.String()
	if r, ok := l.reserved[key]; ok && r.Address == address.String() && subnet.Network.Contains(address) &&
		subnet.Unfit(address, own) == "" && l.usable(address, key) {
		return true
	}
	return l.dynamic(address, subnet, own, key)
}

// has reports whether a machine has an address.
func (l *Leases) has(mac net.HardwareAddr, address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byMAC[mac.String()] == address
}

// holds reports whether an address was given to a machine, or is kept for it.
func (l *Leases) holds(mac net.HardwareAddr, address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byMAC[mac.String()] == address || l.byAddress[address].mac == mac.String()
}

// knows reports whether a machine has or had an address.
func (l *Leases) knows(mac net.HardwareAddr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, leased := l.byMAC[mac.String()]
	_, reserved := l.reserved[mac.String()]
	return leased || reserved
}

// grant stores a lease, in place of one that has ended for the same address. Its client may use the
// address when grant has returned.
func (l *Leases) grant(ctx context.Context, lease Lease) error {
	address, err := netip.ParseAddr(lease.Address)
	if err != nil {
		return fmt.Errorf("store the lease of %s: %w", lease.MAC, err)
	}
	l.mu.Lock()
	if !l.usable(address, lease.MAC) {
		l.mu.Unlock()
		return fault.New(fault.Conflict, "Address %s belongs to another machine.", address)
	}
	before, previous := l.byAddress[address], l.byLease[address]
	l.byAddress[address] = held{mac: lease.MAC, until: l.clock.Now().Add(lease.Duration)}
	l.mu.Unlock()
	err = l.db.Update(ctx, func(tx *store.Tx) error {
		if previous != "" && previous != lease.MAC {
			if err := removeLease(tx, previous, lease.Address); err != nil {
				return err
			}
		}
		return leaseRows.Put(tx, lease.MAC, &lease)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.byAddress[address] = before
		return fmt.Errorf("store the lease of %s: %w", lease.MAC, err)
	}
	if previous != lease.MAC && l.byMAC[previous] == address {
		delete(l.byMAC, previous)
	}
	if l.byMAC[lease.MAC] != address {
		l.free(lease.MAC)
	}
	l.byMAC[lease.MAC], l.byLease[address] = address, lease.MAC
	return nil
}

// removeLease removes the lease of a machine from the store if it is for an address.
func removeLease(tx *store.Tx, mac, address string) error {
	lease, err := leaseRows.Get(tx, mac)
	if errors.Is(err, store.ErrNotFound) || err == nil && lease.Address != address {
		return nil
	}
	if err != nil {
		return err
	}
	return leaseRows.Delete(tx, mac)
}

// free ends the lease of a machine in memory. The address may belong to another machine by now.
func (l *Leases) free(mac string) {
	address, ok := l.byMAC[mac]
	if !ok {
		return
	}
	delete(l.byMAC, mac)
	if l.byLease[address] == mac {
		delete(l.byLease, address)
	}
	if l.byAddress[address].mac == mac {
		delete(l.byAddress, address)
	}
}

// release ends the lease of a machine.
func (l *Leases) release(ctx context.Context, mac net.HardwareAddr) error {
	key := mac.String()
	err := l.db.Update(ctx, func(tx *store.Tx) error {
		err := leaseRows.Delete(tx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the lease of %s: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(key)
	return nil
}

// block keeps an address free for some time, because a machine without a lease has it.
func (l *Leases) block(address netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.byAddress[address]; l.byMAC[h.mac] == address {
		delete(l.byMAC, h.mac)
	}
	l.byAddress[address] = held{until: l.clock.Now().Add(conflictLifetime)}
}

// keep keeps an address for the machine of its last lease, which still has it. It reports false
// for another machine.
func (l *Leases) keep(address netip.Addr, holder string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byLease[address] != holder {
		return false
	}
	l.byAddress[address] = held{mac: holder, until: l.clock.Now().Add(conflictLifetime)}
	return true
}

// List returns the stored leases, ordered by address.
func (l *Leases) List() ([]Lease, error) {
	leases := []Lease{}
	err := l.db.View(func(tx *store.Tx) error {
		return leaseRows.Each(tx, "", func(_ string, lease *Lease) error {
			lease.Until = l.until(lease)
			leases = append(leases, *lease)
			return nil
		})
	})
	slices.SortFunc(leases, func(a, b Lease) int { return compareAddresses(a.Address, b.Address) })
	return leases, err
}

// until returns the end of a lease.
func (l *Leases) until(lease *Lease) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if address, err := netip.ParseAddr(lease.Address); err == nil && l.byAddress[address].mac == lease.MAC {
		return l.byAddress[address].until.UTC()
	}
	return lease.Granted.Add(lease.Duration)
}

// ListReservations returns the reservations, ordered by address.
func (l *Leases) ListReservations() []Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	reservations := []Reservation{}
	for _, r := range l.reserved {
		reservations = append(reservations, r)
	}
	slices.SortFunc(reservations, func(a, b Reservation) int { return compareAddresses(a.Address, b.Address) })
	return reservations
}

func compareAddresses(a, b string) int {
	left, errA := netip.ParseAddr(a)
	right, errB := netip.ParseAddr(b)
	if errA != nil || errB != nil {
		return cmp.Compare(a, b)
	}
	return left.Compare(right)
}

// Reserve stores the reservation of a machine.
func (l *Leases) Reserve(ctx context.Context, wanted Reservation) (*Reservation, error) {
	mac, err := net.ParseMAC(wanted.MAC)
	if err != nil || len(mac) != 6 {
		return nil, fault.New(fault.Invalid, "%q is not a MAC address such as 52:54:00:12:34:56.", wanted.MAC)
	}
	address, err := netip.ParseAddr(wanted.Address)
	if err != nil || !address.Is4() {
		return nil, fault.New(fault.Invalid, "%q is not an IPv4 address.", wanted.Address)
	}
	if problem := network.CheckHostname(wanted.Hostname); wanted.Hostname != "" && problem != "" {
		return nil, fault.New(fault.Invalid, "%s", problem)
	}
	wanted.MAC, wanted.Address = mac.String(), address.String()
	l.reserving.Lock()
	defer l.reserving.Unlock()
	l.mu.Lock()
	holder := l.taken[address]
	l.mu.Unlock()
	if holder != "" && holder != wanted.MAC {
		return nil, fault.New(fault.Conflict, "Address %s is reserved for %s.", address, holder)
	}
	if err := l.db.Update(ctx, func(tx *store.Tx) error {
		return reservationRows.Put(tx, wanted.MAC, &wanted)
	}); err != nil {
		return nil, fmt.Errorf("store the reservation of %s: %w", wanted.MAC, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(wanted.MAC)
	return &wanted, l.reserve(wanted)
}

// RemoveReservation removes the reservation of a machine. Its lease stays.
func (l *Leases) RemoveReservation(ctx context.Context, text string) error {
	mac, err := net.ParseMAC(text)
	l.reserving.Lock()
	defer l.reserving.Unlock()
	l.mu.Lock()
	_, ok := l.reserved[mac.String()]
	l.mu.Unlock()
	if err != nil || !ok {
		return fault.New(fault.NotFound, "There is no reservation for %s.", text)
	}
	remove := func(tx *store.Tx) error { return reservationRows.Delete(tx, mac.String()) }
	if err := l.db.Update(ctx, remove); err != nil {
		return fmt.Errorf("remove the reservation of %s: %w", mac, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(mac.String())
	return nil
}

func (l *Leases) forget(mac string) {
	if r, ok := l.reserved[mac]; ok {
		if address, err := netip.ParseAddr(r.Address); err == nil {
			delete(l.taken, address)
		}
		delete(l.reserved, mac)
	}
}

func number(address netip.Addr) uint32 {
	b := address.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func fromNumber(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// last returns the broadcast address of a network.
func last(network netip.Prefix) netip.Addr {
	hosts := uint32(uint64(1)<<(32-network.Bits()) - 1)
	return fromNumber(number(network.Masked().Addr()) | hosts)
}
