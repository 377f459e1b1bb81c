package ignition

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// mainTable is the default routing table.
const mainTable = 254

type route struct {
	path          string
	destination   netip.Prefix
	gateway       netip.Addr // optional
	source        netip.Addr // optional
	via           string     // interface
	metric, table int64      // 0 and mainTable by default
	weight, cwnd  int64      // 0 if not set
}

// rule is a routing rule: it selects the routing table for packets.
type rule struct {
	path            string
	v6              bool
	from, to        netip.Prefix // optional
	priority, table int64
	mark, mask      int64 // -1 if not set
	incoming        string
	action          string
	suppress        int64 // -1 if not set
	on              *link // interface with which the rule is activated
}

// firstRulePriority is the first priority that nmstate assigns to rules without a priority.
const firstRulePriority = 30000

func (p *stateParser) route(v value) {
	r := route{path: v.path, table: mainTable}
	var destination, gateway, source value
	v.fields(routeKeys, func(name string, v value) bool {
		switch name {
		case "destination":
			destination = v
		case "next-hop-address":
			gateway = v
		case "source":
			source = v
		case "next-hop-interface":
			r.via = v.text()
		case "metric":
			r.metric = max(v.number(-1, 1<<32-1), 0)
		case "table-id":
			if table := v.number(0, 1<<32-1); table > 0 {
				r.table = table
			}
		case "weight":
			r.weight = v.number(1, 256)
		case "cwnd":
			r.cwnd = v.number(0, 1<<32-1)
		case "state": // removes an existing route
			return false
		default:
			return false
		}
		return true
	})
	switch {
	case p.fault != nil || field(v.node, "state") != nil:
		return
	case destination.node == nil:
		v.refuse("needs a destination such as 0.0.0.0/0")
		return
	}
	if r.destination = destination.network(); p.fault != nil {
		return
	}
	v6 := r.destination.Addr().Is6()
	if gateway.node != nil && gateway.text() != "" {
		r.gateway = gateway.address(v6)
	}
	if source.node != nil && source.text() != "" {
		r.source = source.address(v6)
	}
	if r.weight > 0 && !r.gateway.IsValid() {
		v.refuse("has a weight, which requires a next-hop-address")
	}
	if v6 && r.weight > 0 {
		p.beyond(v.path+".weight", 0, "of an IPv6 route "+beyondKeyfiles)
	}
	p.state.routes = append(p.state.routes, r)
}

func (p *stateParser) rule(v value) {
	r := rule{path: v.path, priority: firstRulePriority + int64(len(p.state.rules)), table: mainTable, mark: -1,
		mask: -1, suppress: -1}
	var families []bool
	v.fields(ruleKeys, func(name string, v value) bool {
		switch name {
		case "family":
			families = append(families, v.oneOf("ipv4", "ipv6") == "ipv6")
		case "ip-from", "ip-to":
			if v.text() == "" {
				return true
			}
			network := v.network()
			families = append(families, network.Addr().Is6())
			if name == "ip-from" {
				r.from = network
			} else {
				r.to = network
			}
		case "priority":
			if priority := v.number(-1, 1<<32-1); priority >= 0 {
				r.priority = priority
			}
		case "route-table":
			if table := v.number(0, 1<<32-1); table > 0 {
				r.table = table
			}
		case "fwmark":
			r.mark = v.number(0, 1<<32-1)
		case "fwmask":
			r.mask = v.number(0, 1<<32-1)
		case "action":
			r.action = v.oneOf("blackhole", "prohibit", "unreachable")
		case "iif":
			r.incoming = v.word()
		case "suppress-prefix-length":
			r.suppress = v.number(0, 128)
		case "state": // removes an existing rule
			return false
		default:
			return false
		}
		return true
	})
	switch {
	case p.fault != nil || field(v.node, "state") != nil:
		return
	case len(families) == 0:
		v.refuse("needs ip-from, ip-to or a family, which select IPv4 or IPv6")
		return
	case slices.Contains(families, true) && slices.Contains(families, false):
		v.refuse("contains IPv4 and IPv6; a rule must use only one of them")
		return
	case r.mask >= 0 && r.mark < 0:
		v.refuse("has a fwmask but no fwmark")
		return
	}
	r.v6 = families[0]
	p.state.rules = append(p.state.rules, r)
}

func (p *stateParser) resolver(v value) {
	dns := &p.state.dns
	dns.path = v.path
	v.fields(resolverKeys, func(name string, v value) bool {
		switch name {
		case "server":
			v.each(func(v value) {
				text := v.text()
				server, err := netip.ParseAddr(text)
				if err != nil || server.Is4In6() {
					v.refuse("is %q, which is not an address of a name server", text)
				}
				if server.Zone() != "" {
					p.beyond(v.path, v.node.Line, "names an interface, which "+beyondKeyfiles)
				}
				dns.servers = append(dns.servers, server)
			})
		case "search":
			dns.search = v.words()
		case "options":
			dns.options = v.words()
		default:
			return false
		}
		return true
	})
}

func ofFamily(servers []netip.Addr, v6 bool) []netip.Addr {
	var chosen []netip.Addr
	for _, server := range servers {
		if server.Is6() == v6 {
			chosen = append(chosen, server)
		}
	}
	return chosen
}

// settings returns the values of a route and of its options in a keyfile.
func (r route) settings() (text, options string) {
	gateway := "0.0.0.0"
	if r.destination.Addr().Is6() {
		gateway = "::"
	}
	if r.gateway.IsValid() {
		gateway = r.gateway.String()
	}
	text = r.destination.String() + "," + gateway + "," + strconv.FormatInt(r.metric, 10)
	all := []string{"table=" + strconv.FormatInt(r.table, 10)}
	if r.source.IsValid() {
		all = append(all, "src="+r.source.String())
	}
	if r.weight > 0 {
		all = append(all, "weight="+strconv.FormatInt(r.weight, 10))
	}
	if r.cwnd > 0 {
		all = append(all, "cwnd="+strconv.FormatInt(r.cwnd, 10), "lock-cwnd=true")
	}
	return text, strings.Join(all, ",")
}

// setting returns a rule in the form of nm-settings-keyfile(5), which uses the keywords of
// ip-rule(8).
func (r rule) setting() string {
	words := []string{"priority", strconv.FormatInt(r.priority, 10)}
	prefix := func(word string, p netip.Prefix) {
		if p.IsValid() && p.Bits() > 0 {
			words = append(words, word, p.String())
		}
	}
	prefix("from", r.from)
	prefix("to", r.to)
	if !(r.from.IsValid() && r.from.Bits() > 0) && !(r.to.IsValid() && r.to.Bits() > 0) {
		if r.v6 {
			words = append(words, "from", "::/0")
		} else {
			words = append(words, "from", "0.0.0.0/0")
		}
	}
	if r.mark >= 0 {
		mark := "0x" + strconv.FormatInt(r.mark, 16)
		if r.mask >= 0 {
			mark += "/0x" + strconv.FormatInt(r.mask, 16)
		}
		words = append(words, "fwmark", mark)
	}
	if r.incoming != "" {
		words = append(words, "iif", r.incoming)
	}
	if r.suppress >= 0 {
		words = append(words, "suppress_prefixlength", strconv.FormatInt(r.suppress, 10))
	}
	if r.action != "" {
		words = append(words, "type", r.action)
	} else {
		words = append(words, "table", strconv.FormatInt(r.table, 10))
	}
	return strings.Join(words, " ")
}
