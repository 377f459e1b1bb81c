package ignition

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// hostState is an nmstate state as far as NetworkManager's keyfiles can say it: ethernet cards, bonds and VLANs with their
// addresses, routes and name servers. Format: https://nmstate.io/devel/yaml_api.html
type hostState struct {
	document   *yaml.Node
	interfaces []*link
	routes     []route
	dns        resolver
	// beyond is the first field that keyfiles can't say, such as "interfaces[0].bridge"; "" if there is none.
	beyond string
}

type link struct {
	path                string
	name                string // as the state calls it
	kind                string // ethernet, bond, vlan or what else the state says
	up                  bool   // as all are that keyfiles speak of
	profile             string
	mac                 string // recognises an ethernet card; "" if its name does
	clonedMAC           string // to be taken on
	copyMACOf           string
	mtu                 int64
	autoNegotiate, lldp string // true, false or ""
	speed               int64
	duplex              string
	waitIP              string
	v4, v6              *family
	mode                string // of a bond
	options             [][2]string
	ports               []string
	base                string // of a VLAN
	id                  int64
	protocol            string
	controller          *link // the bond that it is a port of
}

// family is what an interface has of IPv4 or IPv6. The texts are true, false or "".
type family struct {
	enabled, dhcp, autoconf           bool
	addresses                         []netip.Prefix
	autoDNS, autoRoutes, autoGateway  string
	table, metric                     int64 // of routes that are learnt; -1 if not given
	clientID, duid, genMode, hostname string
	sendHostname                      string
}

type route struct {
	path          string
	destination   netip.Prefix
	gateway       netip.Addr // may be none
	source        netip.Addr // may be none
	via           string     // interface
	metric, table int64      // -1 if not given
}

type resolver struct {
	path    string
	servers []netip.Addr
	search  []string
	options []string
}

// physicalName is what udev calls cards of a machine; a name of another form is one that only this description has. See
// systemd.net-naming-scheme(7).
var physicalName = regexp.MustCompile(`^en[PsvxXbucaipod]`)

// parseState reads a state and refuses what no machine could follow. Its errors begin with the field at fault.
func parseState(text string, cards []NetworkInterface) (*hostState, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("the network YAML can't be read: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the network YAML must be a mapping with a list of interfaces")
	}
	var plain any
	if err := document.Decode(&plain); err != nil { // a key twice, or aliases that grow beyond measure
		return nil, fmt.Errorf("the network YAML can't be read: %w", err)
	}
	state := &hostState{document: document.Content[0]}
	p := &stateParser{state: state}
	p.parse(value{p: p, node: state.document})
	if p.fault == nil {
		p.check(cards)
	}
	return state, p.fault
}

// stateParser keeps the first fault and the first field beyond keyfiles.
type stateParser struct {
	state *hostState
	fault error
}

func (p *stateParser) refuse(path string, line int, format string, args ...any) {
	if p.fault != nil {
		return
	}
	where := path
	if line > 0 {
		where = fmt.Sprintf("%s (line %d)", path, line)
	}
	p.fault = fmt.Errorf("%s %s", where, fmt.Sprintf(format, args...))
}

func (p *stateParser) beyond(path string) {
	if p.state.beyond == "" {
		p.state.beyond = path
	}
}

// value is a node of the state with its place in it.
type value struct {
	p    *stateParser
	node *yaml.Node
	path string
}

func (v value) at(name string, node *yaml.Node) value {
	path := name
	if v.path != "" {
		path = v.path + "." + name
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return value{v.p, node, path}
}

func (v value) refuse(format string, args ...any) { v.p.refuse(v.path, v.node.Line, format, args...) }

func (v value) empty() bool {
	return v.node.Tag == "!!null" || v.node.Kind != yaml.ScalarNode && len(v.node.Content) == 0
}

// fields visits the fields of a mapping. Those that visit returns false for are beyond keyfiles, unless they are empty.
func (v value) fields(visit func(name string, v value) bool) {
	if v.empty() {
		return
	}
	if v.node.Kind != yaml.MappingNode {
		v.refuse("must be a mapping")
		return
	}
	for i := 0; i+1 < len(v.node.Content) && v.p.fault == nil; i += 2 {
		name := v.node.Content[i].Value
		child := v.at(name, v.node.Content[i+1])
		if !visit(name, child) && !child.empty() {
			v.p.beyond(child.path)
		}
	}
}

func (v value) each(visit func(v value)) {
	if v.empty() {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.refuse("must be a list")
		return
	}
	for i, item := range v.node.Content {
		if v.p.fault != nil {
			return
		}
		child := v.at("", item)
		child.path = fmt.Sprintf("%s[%d]", v.path, i)
		visit(child)
	}
}

// text reads a scalar that has no control characters: it may become a line of a keyfile.
func (v value) text() string {
	if v.node.Kind != yaml.ScalarNode {
		v.refuse("must be a single value")
		return ""
	}
	if strings.ContainsFunc(v.node.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		v.refuse("must be one line without control characters")
		return ""
	}
	return v.node.Value
}

func (v value) texts() []string {
	var all []string
	v.each(func(v value) { all = append(all, v.text()) })
	return all
}

func (v value) number(from, to int64) int64 {
	text := v.text()
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n < from || n > to {
		v.refuse("is %q; it must be a whole number from %d to %d", text, from, to)
	}
	return n
}

// truth reads a boolean in the spellings that nmstate takes and returns it as NetworkManager spells it.
func (v value) truth() string {
	switch text := v.text(); strings.ToLower(text) {
	case "true", "yes", "on", "1", "y":
		return "true"
	case "false", "no", "off", "0", "n":
		return "false"
	default:
		v.refuse("is %q; it must be true or false", text)
		return ""
	}
}

func (v value) oneOf(allowed ...string) string {
	text := v.text()
	if !slices.Contains(allowed, text) {
		v.refuse("is %q; it must be one of %s", text, strings.Join(allowed, ", "))
	}
	return text
}

func (v value) mac() string {
	text := v.text()
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		v.refuse("is %q; a MAC address looks like 52:54:00:12:34:56", text)
		return ""
	}
	return strings.ToUpper(mac.String())
}

func (v value) address(v6 bool) netip.Addr {
	text := v.text()
	a, err := netip.ParseAddr(text)
	if err != nil || a.Is4() == v6 {
		v.refuse("is %q, which is no %s address", text, familyName(v6))
	}
	return a
}

func familyName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}

func (p *stateParser) parse(root value) {
	if field(root.node, "interfaces") == nil {
		p.fault = errors.New("the network YAML has no list of interfaces")
		return
	}
	root.fields(func(name string, v value) bool {
		switch name {
		case "interfaces":
			if v.empty() {
				p.fault = errors.New("the network YAML has no list of interfaces")
			}
			v.each(p.link)
		case "routes":
			v.fields(func(name string, v value) bool {
				if name == "config" {
					v.each(p.route)
				}
				return name == "config" || name == "running"
			})
		case "dns-resolver":
			v.fields(func(name string, v value) bool {
				if name == "config" {
					p.resolver(v)
				}
				return name == "config" || name == "running"
			})
		case "version":
		default:
			return false
		}
		return true
	})
}

func (p *stateParser) link(v value) {
	if v.node.Kind != yaml.MappingNode {
		v.refuse("must be a mapping with the name of an interface")
		return
	}
	l := &link{path: v.path, kind: "ethernet", up: true}
	var mac, identifier string
	v.fields(func(name string, v value) bool {
		switch name {
		case "name":
			l.name = v.text()
		case "type":
			if l.kind = v.text(); l.kind == "802-3-ethernet" {
				l.kind = "ethernet"
			}
		case "state":
			l.up = v.oneOf("up", "down", "absent", "ignore") == "up"
			return l.up
		case "profile-name":
			l.profile = v.text()
		case "description":
		case "identifier":
			identifier = v.oneOf("name", "mac-address", "pci-address")
			return identifier != "pci-address"
		case "mac-address", "permanent-mac-address":
			if name == "mac-address" || mac == "" {
				mac = v.mac()
			}
		case "copy-mac-from":
			l.copyMACOf = v.text()
		case "mtu":
			l.mtu = v.number(68, 65535)
		case "lldp":
			l.readLLDP(v)
		case "wait-ip":
			l.waitIP = v.oneOf("any", "ipv4", "ipv6", "ipv4+ipv6")
		case "ethernet":
			l.readEthernet(v)
		case "link-aggregation":
			l.readBond(v)
		case "vlan":
			l.readVLAN(v)
		case "ipv4":
			l.v4 = readFamily(v, false)
		case "ipv6":
			l.v6 = readFamily(v, true)
		default:
			return false
		}
		return true
	})
	switch {
	case p.fault != nil:
		return
	case l.name == "" || strings.ContainsAny(l.name, " \t/"):
		v.refuse("needs a name without blanks and slashes; it has %q", l.name)
	}
	if identifier == "mac-address" {
		if l.mac = mac; mac == "" {
			v.refuse("is to be recognised by its mac-address and has none")
		}
	} else {
		l.clonedMAC = mac
	}
	p.state.interfaces = append(p.state.interfaces, l)
}

func (l *link) readLLDP(v value) {
	v.fields(func(name string, v value) bool {
		if name == "enabled" {
			l.lldp = v.truth()
		}
		return name == "enabled" || name == "neighbors"
	})
}

func (l *link) readEthernet(v value) {
	v.fields(func(name string, v value) bool {
		switch name {
		case "auto-negotiation":
			l.autoNegotiate = v.truth()
		case "speed":
			l.speed = v.number(0, 1<<31)
		case "duplex":
			l.duplex = v.oneOf("full", "half")
		default:
			return false
		}
		return true
	})
}

// bondModes are the names of the kernel's modes by their numbers: Documentation/networking/bonding.rst.
var bondModes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}

func (l *link) readBond(v value) {
	v.fields(func(name string, v value) bool {
		switch name {
		case "mode":
			mode := v.text()
			if number, err := strconv.Atoi(mode); err == nil && number >= 0 && number < len(bondModes) {
				mode = bondModes[number]
			}
			if l.mode = mode; !slices.Contains(bondModes, mode) {
				v.refuse("is %q; the modes of a bond are %s", mode, strings.Join(bondModes, ", "))
			}
		case "port", "ports", "slaves":
			l.ports = v.texts()
		case "options":
			v.fields(func(name string, v value) bool {
				text := v.text()
				if v.node.Tag == "!!bool" {
					text = map[string]string{"true": "1", "false": "0"}[v.truth()]
				}
				if strings.ContainsFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
					v.refuse("is no option of a bond")
				}
				l.options = append(l.options, [2]string{name, text})
				return true
			})
		default:
			return false
		}
		return true
	})
}

func (l *link) readVLAN(v value) {
	v.fields(func(name string, v value) bool {
		switch name {
		case "base-iface":
			l.base = v.text()
		case "id":
			l.id = v.number(0, 4094)
		case "protocol":
			l.protocol = v.oneOf("802.1q", "802.1ad")
		case "registration-protocol":
			return v.text() == "none"
		default:
			return false
		}
		return true
	})
}

func readFamily(v value, v6 bool) *family {
	f := &family{table: -1, metric: -1}
	given := false
	v.fields(func(name string, v value) bool {
		switch name {
		case "enabled":
			f.enabled, given = v.truth() == "true", true
		case "dhcp":
			f.dhcp = v.truth() == "true"
		case "autoconf":
			f.autoconf = v.truth() == "true"
			return v6
		case "address":
			v.each(func(v value) { f.readAddress(v, v6) })
		case "auto-dns":
			f.autoDNS = v.truth()
		case "auto-routes":
			f.autoRoutes = v.truth()
		case "auto-gateway":
			f.autoGateway = v.truth()
		case "auto-route-table-id":
			f.table = v.number(0, 1<<32-1)
		case "auto-route-metric":
			f.metric = v.number(0, 1<<32-1)
		case "dhcp-client-id":
			f.clientID = v.text()
			return !v6
		case "dhcp-duid":
			f.duid = v.text()
			return v6
		case "addr-gen-mode":
			f.genMode = v.oneOf("eui64", "stable-privacy")
			return v6
		case "dhcp-send-hostname":
			f.sendHostname = v.truth()
		case "dhcp-custom-hostname":
			f.hostname = v.text()
		default:
			return false
		}
		return true
	})
	if !given {
		f.enabled = f.dhcp || f.autoconf || len(f.addresses) > 0
	}
	return f
}

func (f *family) readAddress(v value, v6 bool) {
	bits, most := int64(-1), int64(32)
	if v6 {
		most = 128
	}
	var ip netip.Addr
	v.fields(func(name string, v value) bool {
		switch name {
		case "ip":
			ip = v.address(v6)
		case "prefix-length":
			bits = v.number(0, most)
		case "valid-life-time", "preferred-life-time":
			return v.text() == "forever"
		default:
			return false
		}
		return true
	})
	if v.p.fault != nil {
		return
	}
	if !ip.IsValid() || bits < 0 {
		v.refuse("needs an ip and a prefix-length")
		return
	}
	prefix := netip.PrefixFrom(ip, int(bits))
	if slices.Contains(f.addresses, prefix) {
		v.refuse("is there a second time")
	}
	f.addresses = append(f.addresses, prefix)
}

func (p *stateParser) route(v value) {
	r := route{path: v.path, metric: -1, table: -1}
	var destination, gateway, source value
	absent := false
	v.fields(func(name string, v value) bool {
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
			r.metric = v.number(-1, 1<<32-1)
		case "table-id":
			r.table = v.number(0, 1<<32-1)
		case "state":
			absent = v.text() == "absent" // takes a route away that somebody else made
			return false
		default:
			return false
		}
		return true
	})
	if p.fault != nil || absent {
		return
	}
	if destination.node == nil {
		v.refuse("needs a destination such as 0.0.0.0/0")
		return
	}
	text := destination.text()
	var err error
	if r.destination, err = netip.ParsePrefix(text); err != nil {
		destination.refuse("is %q; a destination looks like 192.168.0.0/24 or ::/0", text)
		return
	}
	v6 := r.destination.Addr().Is6()
	if gateway.node != nil && gateway.text() != "" {
		r.gateway = gateway.address(v6)
	}
	if source.node != nil && source.text() != "" {
		r.source = source.address(v6)
	}
	p.state.routes = append(p.state.routes, r)
}

func (p *stateParser) resolver(v value) {
	dns := &p.state.dns
	dns.path = v.path
	v.fields(func(name string, v value) bool {
		switch name {
		case "server":
			v.each(func(v value) {
				text := v.text()
				server, err := netip.ParseAddr(text)
				if err != nil {
					v.refuse("is %q, which is no address of a name server", text)
				}
				dns.servers = append(dns.servers, server)
			})
		case "search":
			dns.search = v.texts()
		case "options":
			dns.options = v.texts()
		default:
			return false
		}
		return true
	})
}
