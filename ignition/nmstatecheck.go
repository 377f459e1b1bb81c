package ignition

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// interfaceNameLimit is the kernel's IFNAMSIZ without the end of the text.
const interfaceNameLimit = 15

// smallestIPv6MTU is below which Linux switches IPv6 off on an interface: RFC 8200, section 5.
const smallestIPv6MTU = 1280

// stateChecker joins what the parts of a state say of each other, and refuses what doesn't fit
// together.
type stateChecker struct {
	*stateParser
	cards []NetworkInterface
	macs  map[string]string // of cards, by their names
	links map[string]*link
	// Who has an address, and who is which VLAN of which interface.
	owners map[netip.Addr]*link
	tagged map[vlan]*link
}

func (p *stateParser) check(cards []NetworkInterface) {
	c := &stateChecker{
		stateParser: p, cards: cards, macs: make(map[string]string), links: make(map[string]*link),
		owners: make(map[netip.Addr]*link), tagged: make(map[vlan]*link),
	}
	for _, card := range cards {
		c.macs[card.Name] = card.MAC
	}
	for _, l := range p.state.interfaces {
		if other := c.links[l.name]; other != nil && !strings.HasPrefix(l.kind, "ovs-") &&
			!strings.HasPrefix(other.kind, "ovs-") {
			p.refuse(l.path+".name", 0, "is %q, as that of %s", l.name, other.path)
			return
		}
		c.links[l.name] = l
	}
	// Interfaces that are ports and not described are added while this goes on.
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
	c.circles()
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

// known tells whether a name is that of an interface of the description, of a card with a MAC
// address, or one that Linux gives to cards.
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
				"is %q, which has no MAC address in mac_interface_map and is no name that Linux gives to a card",
				l.name)
		}
		if l.clonedMAC == l.mac {
			l.clonedMAC = ""
		}
	}
	if len(l.name) > interfaceNameLimit {
		c.refuse(l.path+".name", 0, "is %q; Linux takes names of up to %d characters", l.name, interfaceNameLimit)
	}
	if l.v6.on() && l.v6.autoconf && !l.v6.dhcp {
		c.refuse(l.path+".ipv6.autoconf", 0,
			"goes with dhcp: true only, which lets the router choose; set both or neither")
	}
	if l.v6.on() && l.mtu > 0 && l.mtu < smallestIPv6MTU {
		c.refuse(l.path+".mtu", 0, "is %d, and Linux has no IPv6 below %d", l.mtu, smallestIPv6MTU)
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

// ports joins a bond or bridge with its ports, which need no description of their own.
func (c *stateChecker) ports(l *link) {
	if l.kind == "bond" && l.bond.mode == "" {
		c.refuse(l.path+".link-aggregation.mode", 0, "is missing; it is one of %s", strings.Join(bondModes, ", "))
		return
	}
	if l.kind == "bond" && l.clonedMAC != "" && l.bond.mode == "active-backup" &&
		l.option("fail_over_mac") == "active" {
		c.refuse(l.path+".mac-address", 0,
			"does not go with fail_over_mac: active, by which the bond takes the address of the active port")
	}
	for i, name := range l.portNames() {
		path := fmt.Sprintf("%s.link-aggregation.port[%d]", l.path, i)
		if l.kind == "linux-bridge" {
			path = l.bridge.ports[i].path
		}
		if !c.known(name) {
			c.refuse(path, 0, "is %q, which is no interface of this description and has no MAC address in "+
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
			c.refuse(path, 0, "is %q, which is a port already or the %s itself", name,
				strings.TrimPrefix(l.kind, "linux-"))
			return
		case !port.up:
			c.refuse(path, 0, "is %q, which %s says is not up", name, port.path)
			return
		}
		c.join(port, l, i)
	}
	for name := range l.bond.queues {
		if !slices.Contains(l.bond.ports, name) {
			c.refuse(l.path+".link-aggregation.ports-config", 0, "speaks of %q, which is no port of the bond", name)
		}
	}
	if primary := l.option("primary"); primary != "" && !slices.Contains(l.bond.ports, primary) {
		c.refuse(l.path+".link-aggregation.options.primary", 0, "is %q, which is no port of the bond", primary)
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
		c.refuse(l.path+".vlan.base-iface", 0, "is missing; it names the interface that the VLAN lies on")
	case l.vlan.base == l.name || !c.known(l.vlan.base):
		c.refuse(l.path+".vlan.base-iface", 0,
			"is %q, which is no interface of this description and has no MAC address in mac_interface_map", l.vlan.base)
	case l.vlan.id < 0:
		c.refuse(l.path+".vlan.id", 0, "is missing; it is a number from 1 to 4094")
	case base != nil && base.mtu > 0 && l.mtu > base.mtu:
		c.refuse(l.path+".mtu", 0, "is %d, above the %d of %s that the VLAN lies on", l.mtu, base.mtu, base.name)
	case l.vlan.protocol == "802.1ad":
		c.beyond(l.path+".vlan.protocol", 0, `is "802.1ad", which `+beyondKeyfiles)
	}
	place := vlan{base: l.vlan.base, id: l.vlan.id}
	if other := c.tagged[place]; other != nil {
		c.refuse(l.path+".vlan.id", 0, "is %d on %s, as that of %s", l.vlan.id, l.vlan.base, other.name)
	}
	c.tagged[place] = l
}

// port checks what an interface says of itself as a port, and joins it with a controller that it
// names alone.
func (c *stateChecker) port(l *link) {
	if l.controller == nil && l.controlledBy != "" {
		controller := c.links[l.controlledBy]
		if controller == nil || !controller.up || !controller.controls() {
			c.beyond(l.path+".controller", 0,
				fmt.Sprintf("is %q, which is no bond or bridge of this description, so it %s", l.controlledBy,
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
		c.refuse(l.path+".controller", 0, "is %q, and %s has it as a port", l.controlledBy, l.controller.name)
	case l.v4.on() || l.v6.on():
		c.refuse(l.path, 0, "is a port of %s and can't have addresses of its own", l.controller.name)
	}
}

// addresses refuses one address on two interfaces of the host.
func (c *stateChecker) addresses(l *link) {
	for _, v6 := range []bool{false, true} {
		for i, address := range staticAddresses(l, v6) {
			ip := address.Addr()
			if other := c.owners[ip]; other != nil && other != l && !ip.IsLinkLocalUnicast() {
				c.refuse(fmt.Sprintf("%s.%s.address[%d].ip", l.path, strings.ToLower(familyName(v6)), i),
					0, "is %s, which %s has already", ip, other.name)
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

// circles refuses interfaces that lie on themselves, such as a bridge with a VLAN of its own as a
// port.
func (c *stateChecker) circles() {
	done, under := make(map[*link]bool), make(map[*link]bool)
	var visit func(l *link)
	visit = func(l *link) {
		if l == nil || done[l] || c.fault != nil {
			return
		}
		if under[l] {
			c.refuse(l.path, 0, "lies on itself, by its ports or the interface that its VLAN is on")
			return
		}
		under[l] = true
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
			fmt.Sprintf("is %q, which is no interface of this description, so it %s", r.via, beyondKeyfiles))
	case l == nil:
		c.refuse(r.path+".next-hop-interface", 0, "is %q, which is no interface of this description", r.via)
	case !l.family(v6).on() || l.family(v6).method(v6) == "disabled":
		c.refuse(r.path+".next-hop-interface", 0, "is %q, which has no %s addresses", r.via, familyName(v6))
	case r.gateway.IsValid() && slices.ContainsFunc(l.family(v6).addresses,
		func(p netip.Prefix) bool { return p.Addr() == r.gateway }):
		c.refuse(r.path+".next-hop-address", 0, "is %s, an address of %s itself", r.gateway, r.via)
	}
}

// rules gives each rule the interface that it comes and goes with: the first with a route of its
// table, else that of the name servers.
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
			c.refuse(r.path, 0, "is a rule for %s, and no interface has %s addresses", familyName(r.v6),
				familyName(r.v6))
		}
	}
}

// use refuses a description that has nothing to do with the cards that it is said to be for.
func (c *stateChecker) use() {
	used := func(name string) bool {
		return slices.ContainsFunc(c.state.interfaces, func(l *link) bool {
			return l.name == name || l.vlan.base == name || slices.Contains(l.portNames(), name)
		})
	}
	if c.state.beyond == nil && len(c.cards) > 0 && !slices.ContainsFunc(c.cards,
		func(card NetworkInterface) bool { return used(card.Name) }) {
		c.refuse("interfaces", 0, "have none of the names that mac_interface_map gives to cards, as %q",
			c.cards[0].Name)
	}
}

// byMAC tells whether a description names cards by their MAC addresses alone and makes no interface
// without one: on any other machine it comes to nothing by itself.
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
	// What is said of an incoming interface is said by its name on the machine, which the script
	// puts in.
	return !slices.ContainsFunc(s.rules, func(r rule) bool { return r.incoming != "" })
}

// asks tells whether an interface can have name servers of a family: NetworkManager takes none
// where there are link-local addresses alone.
func (l *link) asks(v6 bool) bool {
	if !l.up || l.controller != nil {
		return false
	}
	method := l.family(v6).method(v6)
	return method != "disabled" && method != "link-local"
}

// resolverLink chooses the interface that name servers of a family are asked through: that of the
// default route, else one with addresses of its own, else any.
func (s *hostState) resolverLink(v6 bool) *link {
	for _, r := range s.routes {
		if r.destination.Bits() == 0 && r.destination.Addr().Is6() == v6 && r.table == mainTable {
			i := slices.IndexFunc(s.interfaces, func(l *link) bool { return l.name == r.via })
			if i >= 0 && s.interfaces[i].asks(v6) {
				return s.interfaces[i]
			}
		}
	}
	var found *link
	for _, l := range s.interfaces {
		if l.asks(v6) && (found == nil || len(found.family(v6).addresses) == 0 && len(l.family(v6).addresses) > 0) {
			found = l
		}
	}
	return found
}
