package ignition

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// interfaceNameLimit is the kernel's IFNAMSIZ without the terminating zero.
const interfaceNameLimit = 15

// smallestIPv6MTU is the minimum MTU for IPv6 (RFC 8200, section 5). Linux disables IPv6 on an
// interface with a smaller MTU.
const smallestIPv6MTU = 1280

// stateChecker resolves the references between the parts of a state and checks their consistency.
type stateChecker struct {
	*stateParser
	nics  []NetworkInterface
	macs  map[string]string // of NICs, by name
	links map[string]*link
	// The interfaces by address, and by VLAN.
	owners map[netip.Addr]*link
	tagged map[vlan]*link
}

func (p *stateParser) check(nics []NetworkInterface) {
	c := &stateChecker{
		stateParser: p, nics: nics, macs: make(map[string]string), links: make(map[string]*link),
		owners: make(map[netip.Addr]*link), tagged: make(map[vlan]*link),
	}
	for _, nic := range nics {
		c.macs[nic.Name] = nic.MAC
	}
	for _, l := range p.state.interfaces {
		if other := c.links[l.name]; other != nil && !strings.HasPrefix(l.kind, "ovs-") &&
			!strings.HasPrefix(other.kind, "ovs-") {
			p.refuse(l.path+".name", 0, "is %q, which is also the name of %s", l.name, other.path)
			return
		}
		c.links[l.name] = l
	}
	// The loop adds interfaces for ports without a description.
	for _, l := range slices.Clone(p.state.interfaces) {
		if l.up {
			c.link(l)
		}
	}
	for _, l := range slices.Clone(p.state.interfaces) {
		if l.up {
			c.ports(l)
			c.vlan(l)
		}
	}
	for _, l := range p.state.interfaces {
		if l.up {
			c.port(l)
			c.addresses(l)
		}
	}
	c.cycles()
	for _, r := range p.state.routes {
		c.route(r)
	}
	c.rules()
	c.use()
}

func (f *family) on() bool { return f != nil && f.enabled }

func (l *link) family(v6 bool) *family {
	if v6 {
		return l.v6
	}
	return l.v4
}

// known reports whether a name is that of a described interface or of a NIC with a MAC address, or
// a name that Linux gives to NICs.
func (c *stateChecker) known(name string) bool {
	return c.links[name] != nil || c.macs[name] != "" || physicalName.MatchString(name)
}

func (c *stateChecker) link(l *link) {
	if l.kind == "ethernet" {
		if l.mac == "" {
			l.mac = c.macs[l.name]
		}
		if l.mac == "" && !physicalName.MatchString(l.name) {
			c.refuse(l.path+".name", 0,
				"is %q, which has no MAC address in mac_interface_map and is not a name that Linux gives to a NIC",
				l.name)
		}
		if l.clonedMAC == l.mac {
			l.clonedMAC = ""
		}
	}
	if len(l.name) > interfaceNameLimit {
		c.refuse(l.path+".name", 0, "is %q; Linux supports names of up to %d characters", l.name, interfaceNameLimit)
	}
	if l.v6.on() && l.v6.autoconf && !l.v6.dhcp {
		c.refuse(l.path+".ipv6.autoconf", 0,
			"requires dhcp: true, because the router selects the method; set both or neither")
	}
	if l.v6.on() && l.mtu > 0 && l.mtu < smallestIPv6MTU {
		c.refuse(l.path+".mtu", 0, "is %d, but Linux requires at least %d for IPv6", l.mtu, smallestIPv6MTU)
	}
	if l.copyMACOf == "" {
		return
	}
	if mac, ok := c.macs[l.copyMACOf]; ok {
		l.clonedMAC = mac
	} else {
		c.beyond(l.path+".copy-mac-from", 0,
			fmt.Sprintf("is %q, which has no MAC address in mac_interface_map, so it %s", l.copyMACOf, beyondKeyfiles))
	}
}

// ports links a bond or bridge with its ports. Ports need no description of their own.
func (c *stateChecker) ports(l *link) {
	if l.kind == "bond" && l.bond.mode == "" {
		c.refuse(l.path+".link-aggregation.mode", 0, "is missing; it must be one of %s", strings.Join(bondModes, ", "))
		return
	}
	if l.kind == "bond" && l.clonedMAC != "" && l.bond.mode == "active-backup" &&
		l.option("fail_over_mac") == "active" {
		c.refuse(l.path+".mac-address", 0,
			"conflicts with fail_over_mac: active, which gives the bond the address of the active port")
	}
	for i, name := range l.portNames() {
		path := fmt.Sprintf("%s.link-aggregation.port[%d]", l.path, i)
		if l.kind == "linux-bridge" {
			path = l.bridge.ports[i].path
		}
		if !c.known(name) {
			c.refuse(path, 0, "is %q, which is not an interface of this description and has no MAC address in "+
				"mac_interface_map", name)
			return
		}
		port := c.links[name]
		if port == nil {
			port = &link{path: path, name: name, kind: "ethernet", up: true, mac: c.macs[name]}
			c.links[name] = port
			c.state.interfaces = append(c.state.interfaces, port)
		}
		switch {
		case port == l || port.controller != nil:
			c.refuse(path, 0, "is %q, which is already a port, or is the %s itself", name,
				strings.TrimPrefix(l.kind, "linux-"))
			return
		case !port.up:
			c.refuse(path, 0, "is %q, which is not up (see %s)", name, port.path)
			return
		}
		c.join(port, l, i)
	}
	for name := range l.bond.queues {
		if !slices.Contains(l.bond.ports, name) {
			c.refuse(l.path+".link-aggregation.ports-config", 0, "names %q, which is not a port of the bond", name)
		}
	}
	if primary := l.option("primary"); primary != "" && !slices.Contains(l.bond.ports, primary) {
		c.refuse(l.path+".link-aggregation.options.primary", 0, "is %q, which is not a port of the bond", primary)
	}
}

func (c *stateChecker) join(port, controller *link, i int) {
	port.controller = controller
	if controller.kind == "linux-bridge" {
		port.port = controller.bridge.ports[i].settings
	} else if queue := controller.bond.queues[port.name]; queue > 0 {
		port.port = []setting{{"queue-id", fmt.Sprint(queue)}}
	}
}

func (c *stateChecker) vlan(l *link) {
	if l.kind != "vlan" {
		return
	}
	base := c.links[l.vlan.base]
	switch {
	case l.vlan.base == "":
		c.refuse(l.path+".vlan.base-iface", 0, "is missing; it must be the base interface of the VLAN")
	case l.vlan.base == l.name || !c.known(l.vlan.base):
		c.refuse(l.path+".vlan.base-iface", 0,
			"is %q, which is not an interface of this description and has no MAC address in mac_interface_map",
			l.vlan.base)
	case l.vlan.id < 0:
		c.refuse(l.path+".vlan.id", 0, "is missing; it must be a number from 1 to 4094")
	case base != nil && base.mtu > 0 && l.mtu > base.mtu:
		c.refuse(l.path+".mtu", 0, "is %d, above the %d of %s, the base interface of the VLAN", l.mtu, base.mtu,
			base.name)
	case l.vlan.protocol == "802.1ad":
		c.beyond(l.path+".vlan.protocol", 0, `is "802.1ad", which `+beyondKeyfiles)
	}
	place := vlan{base: l.vlan.base, id: l.vlan.id}
	if other := c.tagged[place]; other != nil {
		c.refuse(l.path+".vlan.id", 0, "is %d on %s, which is also the id of %s", l.vlan.id, l.vlan.base, other.name)
	}
	c.tagged[place] = l
}

// port checks the controller that an interface names. It links both if the controller does not list
// the port.
func (c *stateChecker) port(l *link) {
	if l.controller == nil && l.controlledBy != "" {
		controller := c.links[l.controlledBy]
		if controller == nil || !controller.up || !controller.controls() {
			c.beyond(l.path+".controller", 0,
				fmt.Sprintf("is %q, which is not a bond or bridge of this description, so it %s", l.controlledBy,
					beyondKeyfiles))
			return
		}
		l.controller = controller
		if controller.kind == "bond" {
			controller.bond.ports = append(controller.bond.ports, l.name)
		} else {
			controller.bridge.ports = append(controller.bridge.ports, bridgePort{path: l.path + ".controller",
				name: l.name})
		}
	}
	switch {
	case l.controller == nil:
	case l.controlledBy != "" && l.controlledBy != l.controller.name:
		c.refuse(l.path+".controller", 0, "is %q, but %s lists this interface as a port", l.controlledBy,
			l.controller.name)
	case l.v4.on() || l.v6.on():
		c.refuse(l.path, 0, "is a port of %s and cannot have addresses of its own", l.controller.name)
	}
}

// addresses records a fault for an address on two interfaces of the host.
func (c *stateChecker) addresses(l *link) {
	for _, v6 := range []bool{false, true} {
		for i, address := range staticAddresses(l, v6) {
			ip := address.Addr()
			if other := c.owners[ip]; other != nil && other != l && !ip.IsLinkLocalUnicast() {
				c.refuse(fmt.Sprintf("%s.%s.address[%d].ip", l.path, strings.ToLower(familyName(v6)), i),
					0, "is %s, which is already an address of %s", ip, other.name)
			}
			c.owners[ip] = l
		}
	}
}

func staticAddresses(l *link, v6 bool) []netip.Prefix {
	if f := l.family(v6); l.up && f.on() {
		return f.addresses
	}
	return nil
}

// cycles records a fault for interfaces that depend on themselves, such as a bridge with a VLAN of
// itself as a port.
func (c *stateChecker) cycles() {
	done, visiting := make(map[*link]bool), make(map[*link]bool)
	var visit func(l *link)
	visit = func(l *link) {
		if l == nil || done[l] || c.fault != nil {
			return
		}
		if visiting[l] {
			c.refuse(l.path, 0, "depends on itself, through its ports or the base interface of its VLAN")
			return
		}
		visiting[l] = true
		for _, name := range l.portNames() {
			visit(c.links[name])
		}
		if l.kind == "vlan" {
			visit(c.links[l.vlan.base])
		}
		done[l] = true
	}
	for _, l := range c.state.interfaces {
		visit(l)
	}
}

func (c *stateChecker) route(r route) {
	v6 := r.destination.Addr().Is6()
	l := c.links[r.via]
	switch {
	case r.via == "":
		c.beyond(r.path+".next-hop-interface", 0, "is missing; a route without an interface "+beyondKeyfiles)
	case l == nil && physicalName.MatchString(r.via):
		c.beyond(r.path+".next-hop-interface", 0,
			fmt.Sprintf("is %q, which is not an interface of this description, so it %s", r.via, beyondKeyfiles))
	case l == nil:
		c.refuse(r.path+".next-hop-interface", 0, "is %q, which is not an interface of this description", r.via)
	case !l.family(v6).on() || l.family(v6).method(v6) == "disabled":
		c.refuse(r.path+".next-hop-interface", 0, "is %q, which has no %s addresses", r.via, familyName(v6))
	case r.gateway.IsValid() && slices.ContainsFunc(l.family(v6).addresses,
		func(p netip.Prefix) bool { return p.Addr() == r.gateway }):
		c.refuse(r.path+".next-hop-address", 0, "is %s, an address of %s itself", r.gateway, r.via)
	}
}

// rules assigns each rule to the interface with which it is activated: the first interface with a
// route in the rule's table, or else the interface of the name servers.
func (c *stateChecker) rules() {
	type table struct {
		v6 bool
		id int64
	}
	on := make(map[table]*link)
	for _, r := range c.state.routes {
		key := table{r.destination.Addr().Is6(), r.table}
		if l := c.links[r.via]; l != nil && on[key] == nil {
			on[key] = l
		}
	}
	others := map[bool]*link{false: c.state.resolverLink(false), true: c.state.resolverLink(true)}
	for i := range c.state.rules {
		r := &c.state.rules[i]
		if r.on = on[table{r.v6, r.table}]; r.on == nil {
			r.on = others[r.v6]
		}
		if r.on == nil {
			c.refuse(r.path, 0, "is a rule for %s, but no interface has %s addresses", familyName(r.v6),
				familyName(r.v6))
		}
	}
}

// use records a fault for a description that uses none of its NICs.
func (c *stateChecker) use() {
	used := func(name string) bool {
		return slices.ContainsFunc(c.state.interfaces, func(l *link) bool {
			return l.name == name || l.vlan.base == name || slices.Contains(l.portNames(), name)
		})
	}
	if c.state.beyond == nil && len(c.nics) > 0 && !slices.ContainsFunc(c.nics,
		func(nic NetworkInterface) bool { return used(nic.Name) }) {
		c.refuse("interfaces", 0, "contain none of the names in mac_interface_map, such as %q",
			c.nics[0].Name)
	}
}

// byMAC reports whether a description identifies all NICs by MAC address and creates no independent
// interfaces. Such a description has no effect on other machines.
func (s *hostState) byMAC() bool {
	for _, l := range s.interfaces {
		switch l.kind {
		case "ethernet":
			if l.mac == "" {
				return false
			}
		case "vlan":
			i := slices.IndexFunc(s.interfaces, func(base *link) bool { return base.name == l.vlan.base })
			if i >= 0 && s.interfaces[i].kind != "ethernet" && s.interfaces[i].kind != "vlan" ||
				i < 0 && physicalName.MatchString(l.vlan.base) {
				return false
			}
		default:
			return false
		}
	}
	// A rule with an incoming interface needs the interface's name on the machine, which the script
	// inserts.
	return !slices.ContainsFunc(s.rules, func(r rule) bool { return r.incoming != "" })
}

// supportsDNS reports whether name servers of a family can be assigned to an interface.
// NetworkManager ignores them on an interface that has only link-local addresses.
func (l *link) supportsDNS(v6 bool) bool {
	if !l.up || l.controller != nil {
		return false
	}
	method := l.family(v6).method(v6)
	return method != "disabled" && method != "link-local"
}

// resolverLink returns the interface to which the name servers of a family are assigned: the
// interface of the default route, else an interface with static addresses, else any interface.
func (s *hostState) resolverLink(v6 bool) *link {
	for _, r := range s.routes {
		if r.destination.Bits() == 0 && r.destination.Addr().Is6() == v6 && r.table == mainTable {
			i := slices.IndexFunc(s.interfaces, func(l *link) bool { return l.name == r.via })
			if i >= 0 && s.interfaces[i].supportsDNS(v6) {
				return s.interfaces[i]
			}
		}
	}
	var found *link
	for _, l := range s.interfaces {
		if l.supportsDNS(v6) && (found == nil || len(found.family(v6).addresses) == 0 &&
			len(l.family(v6).addresses) > 0) {
			found = l
		}
	}
	return found
}
