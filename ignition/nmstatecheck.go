package ignition

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// interfaceNameLimit is the kernel's IFNAMSIZ without the end of the text.
const interfaceNameLimit = 15

// check joins what the parts of a state say of each other, and refuses what doesn't fit together.
func (p *stateParser) check(cards []NetworkInterface) {
	links := make(map[string]*link)
	for _, l := range p.state.interfaces {
		if other := links[l.name]; other != nil && !strings.HasPrefix(l.kind+other.kind, "ovs-") && !strings.HasPrefix(l.kind, "ovs-") {
			p.refuse(l.path+".name", 0, "is %q, as that of %s", l.name, other.path)
			return
		}
		links[l.name] = l
	}
	macs := make(map[string]string)
	for _, card := range cards {
		macs[card.Name] = card.MAC
	}
	for _, l := range p.state.interfaces {
		if l.up {
			p.checkLink(l, macs)
		}
	}
	for _, l := range p.state.interfaces {
		switch {
		case l.up && l.kind == "bond":
			p.checkBond(l, links, macs)
		case l.up && l.kind == "vlan":
			p.checkVLAN(l, links, macs)
		}
	}
	for _, l := range p.state.interfaces {
		if l.controller != nil && (l.v4.on() || l.v6.on()) {
			p.refuse(l.path, 0, "is a port of %s and can't have addresses of its own", l.controller.name)
		}
		if _, ok := macs[l.copyMACOf]; l.copyMACOf != "" && !ok {
			p.beyond(l.path + ".copy-mac-from")
		} else if ok {
			l.clonedMAC = macs[l.copyMACOf]
		}
	}
	for _, r := range p.state.routes {
		p.checkRoute(r, links)
	}
	p.checkUse(cards)
}

func (f *family) on() bool { return f != nil && f.enabled }

func (l *link) family(v6 bool) *family {
	if v6 {
		return l.v6
	}
	return l.v4
}

func (p *stateParser) checkLink(l *link, macs map[string]string) {
	switch l.kind {
	case "ethernet":
		if l.mac == "" {
			l.mac = macs[l.name]
		}
		if l.mac == "" && !physicalName.MatchString(l.name) {
			p.refuse(l.path+".name", 0, "is %q, which has no MAC address in mac_interface_map and is no name that Linux gives to a card", l.name)
		}
		if l.clonedMAC == l.mac {
			l.clonedMAC = ""
		}
	case "bond", "vlan":
		if len(l.name) > interfaceNameLimit {
			p.refuse(l.path+".name", 0, "is %q; Linux takes names of up to %d characters", l.name, interfaceNameLimit)
		}
	default:
		p.beyond(l.path + ".type " + l.kind)
	}
	if l.v6.on() && l.v6.autoconf && !l.v6.dhcp {
		p.refuse(l.path+".ipv6.autoconf", 0, "goes with dhcp: true only, which lets the router choose; set both or neither")
	}
	for _, v6 := range []bool{false, true} {
		if f := l.family(v6); f != nil && f.autoconf && !v6 {
			p.refuse(l.path+".ipv4.autoconf", 0, "is for IPv6")
		}
	}
}

func (p *stateParser) checkBond(l *link, links map[string]*link, macs map[string]string) {
	if l.mode == "" {
		p.refuse(l.path+".link-aggregation.mode", 0, "is missing; it is one of %s", strings.Join(bondModes, ", "))
		return
	}
	for i, name := range l.ports {
		path := fmt.Sprintf("%s.link-aggregation.port[%d]", l.path, i)
		port := links[name]
		if port == nil {
			if macs[name] == "" && !physicalName.MatchString(name) {
				p.refuse(path, 0, "is %q, which is no interface of this description and has no MAC address in mac_interface_map", name)
				return
			}
			port = &link{path: path, name: name, kind: "ethernet", up: true, mac: macs[name]}
			links[name] = port
			p.state.interfaces = append(p.state.interfaces, port)
		}
		if port == l || port.controller != nil {
			p.refuse(path, 0, "is %q, which is a port already or the bond itself", name)
			return
		}
		port.controller = l
	}
}

func (p *stateParser) checkVLAN(l *link, links map[string]*link, macs map[string]string) {
	switch {
	case l.base == "":
		p.refuse(l.path+".vlan.base-iface", 0, "is missing; it names the interface that the VLAN lies on")
	case l.base == l.name || links[l.base] == nil && macs[l.base] == "" && !physicalName.MatchString(l.base):
		p.refuse(l.path+".vlan.base-iface", 0, "is %q, which is no interface of this description and has no MAC address in mac_interface_map", l.base)
	case l.protocol == "802.1ad":
		p.beyond(l.path + ".vlan.protocol")
	}
}

func (p *stateParser) checkRoute(r route, links map[string]*link) {
	v6 := r.destination.Addr().Is6()
	l := links[r.via]
	switch {
	case r.via == "":
		p.beyond(r.path + ".next-hop-interface")
	case l == nil && physicalName.MatchString(r.via):
		p.beyond(r.path + ".next-hop-interface")
	case l == nil:
		p.refuse(r.path+".next-hop-interface", 0, "is %q, which is no interface of this description", r.via)
	case !l.family(v6).on() || l.family(v6).method(v6) == "disabled":
		p.refuse(r.path+".next-hop-interface", 0, "is %q, which has no %s addresses", r.via, familyName(v6))
	case r.table == 0:
		p.beyond(r.path + ".table-id")
	}
}

// checkUse refuses a description that has nothing to do with the cards that it is said to be for.
func (p *stateParser) checkUse(cards []NetworkInterface) {
	used := func(name string) bool {
		return slices.ContainsFunc(p.state.interfaces, func(l *link) bool {
			return l.name == name || l.base == name || slices.Contains(l.ports, name)
		})
	}
	if p.state.beyond == "" && !slices.ContainsFunc(cards, func(c NetworkInterface) bool { return used(c.Name) }) {
		p.refuse("interfaces", 0, "have none of the names that mac_interface_map gives to cards, as %q", cards[0].Name)
	}
}

// byMAC tells whether a description names cards by their MAC addresses alone and makes no interface without one: on any
// other machine it comes to nothing by itself.
func (s *hostState) byMAC() bool {
	for _, l := range s.interfaces {
		switch l.kind {
		case "ethernet":
			if l.mac == "" {
				return false
			}
		case "vlan":
			i := slices.IndexFunc(s.interfaces, func(base *link) bool { return base.name == l.base })
			if i >= 0 && s.interfaces[i].kind != "ethernet" && s.interfaces[i].kind != "vlan" || i < 0 && physicalName.MatchString(l.base) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// resolverLink chooses the interface that name servers of a family are asked through: that of the default route, else one
// with addresses of its own, else any.
func (s *hostState) resolverLink(v6 bool) *link {
	for _, r := range s.routes {
		if r.destination.Bits() == 0 && r.destination.Addr().Is6() == v6 && (r.table == -1 || r.table == mainTable) {
			if i := slices.IndexFunc(s.interfaces, func(l *link) bool { return l.name == r.via }); i >= 0 {
				return s.interfaces[i]
			}
		}
	}
	var found *link
	for _, l := range s.interfaces {
		if f := l.family(v6); f.on() && l.controller == nil && (found == nil || len(found.family(v6).addresses) == 0 && len(f.addresses) > 0) {
			found = l
		}
	}
	return found
}

// mainTable is the routing table that is meant when none is named.
const mainTable = 254

func ofFamily(servers []netip.Addr, v6 bool) []netip.Addr {
	var chosen []netip.Addr
	for _, server := range servers {
		if server.Is6() == v6 {
			chosen = append(chosen, server)
		}
	}
	return chosen
}
