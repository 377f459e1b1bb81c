package ignition

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// hostState contains the parts of an nmstate state that NetworkManager's keyfiles support: ethernet
// NICs, bonds, VLANs and Linux bridges with their addresses, routes, routing rules and name
// servers. Format: https://nmstate.io/devel/yaml_api.html
type hostState struct {
	document   *yaml.Node
	interfaces []*link
	routes     []route
	rules      []rule
	dns        resolver
	// beyond is the first field that keyfiles do not support, or nil.
	beyond *NetworkFault
}

type link struct {
	path                string
	name                string // in the state
	kind                string // ethernet, bond, vlan, linux-bridge or another type in the state
	up                  bool   // true for all interfaces in keyfiles
	profile             string
	mac                 string // identifies an ethernet NIC; "" if the name identifies it
	clonedMAC           string // the MAC address to set
	copyMACOf           string
	mtu                 int64
	autoNegotiate, lldp string // true, false or ""
	speed               int64
	duplex              string
	waitIP              string
	v4, v6              *family
	bond                bond
	vlan                vlan
	bridge              bridge
	controlledBy        string // the controller named by the port itself
	controller          *link  // the bond or bridge of the port
	port                []setting
}

// setting is a key and a value in a keyfile.
type setting struct{ key, value string }

type bond struct {
	mode    string
	options []setting
	ports   []string
	queues  map[string]int64 // ids of the transmit queues of ports
}

type vlan struct {
	base     string
	id       int64
	protocol string
	flags    int64 // NetworkManager's NMVlanFlags
}

type bridge struct {
	options   []setting
	ports     []bridgePort
	filtering bool
}

type bridgePort struct {
	path, name string
	settings   []setting
}

// portNames returns the names of the ports of a bond or bridge.
func (l *link) portNames() []string {
	if l.kind == "bond" {
		return l.bond.ports
	}
	var names []string
	for _, port := range l.bridge.ports {
		names = append(names, port.name)
	}
	return names
}

// controls reports whether an interface is a bond or bridge.
func (l *link) controls() bool { return l.kind == "bond" || l.kind == "linux-bridge" }

// family contains the IPv4 or IPv6 settings of an interface. The strings are true, false or "".
type family struct {
	enabled, dhcp, autoconf           bool
	addresses                         []netip.Prefix
	autoDNS, autoRoutes, autoGateway  string
	table, metric                     int64 // of dynamic routes; -1 if not set
	clientID, duid, genMode, hostname string
	sendHostname, token               string
}

type resolver struct {
	path    string
	servers []netip.Addr
	search  []string
	options []string
}

// physicalName matches the names that udev gives to physical NICs. Other names exist only in the
// description. See systemd.net-naming-scheme(7).
var physicalName = regexp.MustCompile(`^en[PsvxXbucaipod]`)

// beyondKeyfiles ends the error about a field that NetworkManager's keyfiles do not support.
const beyondKeyfiles = "is not supported by NetworkManager's keyfiles"

// keyfileKinds are the types of interfaces that keyfiles support.
var keyfileKinds = []string{"ethernet", "802-3-ethernet", "bond", "vlan", "linux-bridge"}

// The keys of nmstate by parent. For an unknown key, the error suggests a similar key.
const (
	stateKeys = "interfaces routes route-rules dns-resolver hostname ovs-db ovn description version capture " +
		"desiredState"
	linkKeys = "name profile-name description type driver state identifier pci-address mac-address " +
		"permanent-mac-address mtu min-mtu max-mtu wait-ip ipv4 ipv6 mptcp controller accept-all-mac-addresses " +
		"copy-mac-from ovs-db 802.1x lldp ethtool dispatch alt-names ethernet link-aggregation vlan bridge veth " +
		"vrf vxlan mac-vlan mac-vtap macsec infiniband ipvlan hsr libreswan patch dpdk xfrm"
	ethernetKeys = "auto-negotiation speed duplex sr-iov"
	bondKeys     = "mode options port ports slaves ports-config"
	vlanKeys     = "base-iface id protocol registration-protocol reorder-headers loose-binding ingress-qos-map " +
		"egress-qos-map"
	familyKeys = "enabled dhcp autoconf address auto-dns auto-routes auto-gateway auto-route-table-id " +
		"auto-route-metric dhcp-client-id dhcp-duid addr-gen-mode allow-extra-address token dhcp-send-hostname " +
		"dhcp-custom-hostname forwarding"
	addressKeys = "ip prefix-length mptcp-flags valid-life-time preferred-life-time"
	routeKeys   = "state destination next-hop-interface next-hop-address metric table-id weight route-type cwnd " +
		"source congestion-window initcwnd initrwnd mtu quickack advmss"
	ruleKeys      = "family state ip-from ip-to priority route-table fwmark fwmask action iif suppress-prefix-length"
	resolverKeys  = "server search options"
	configKeys    = "config running"
	bridgeKeys    = "options port ports"
	portKeys      = "name stp-hairpin-mode stp-path-cost stp-priority vlan"
	portVLANKeys  = "mode tag trunk-tags enable-native"
	bondPortKeys  = "name priority queue-id"
	stpKeys       = "enabled forward-delay hello-time max-age priority"
	bridgeOptKeys = "gc-timer group-addr group-forward-mask group-fwd-mask hash-max hello-timer mac-ageing-time " +
		"multicast-last-member-count multicast-last-member-interval multicast-membership-interval multicast-querier " +
		"multicast-querier-interval multicast-query-interval multicast-query-response-interval " +
		"multicast-query-use-ifaddr multicast-router multicast-snooping multicast-startup-query-count " +
		"multicast-startup-query-interval stp vlan-protocol vlan-default-pvid"
)

// parseState parses a state. It returns a fault for a state that no machine could apply.
func parseState(text string, nics []NetworkInterface) (*hostState, *NetworkFault) {
	document, fault := readDocument(text)
	if fault != nil {
		return nil, fault
	}
	state := &hostState{document: document}
	p := &stateParser{state: state}
	p.parse(value{p: p, node: state.document})
	if p.fault == nil {
		p.check(nics)
	}
	return state, p.fault
}

// stateParser parses a state. It keeps the first fault and the first field that keyfiles do not
// support.
type stateParser struct {
	state *hostState
	fault *NetworkFault
}

// refuse stores the first fault. If the line is 0, refuse finds the line of the path.
func (p *stateParser) refuse(path string, line int, format string, args ...any) {
	if p.fault == nil {
		p.fault = p.state.fault(path, line, fmt.Sprintf(format, args...))
	}
}

func (p *stateParser) beyond(path string, line int, problem string) {
	if p.state.beyond == nil {
		p.state.beyond = p.state.fault(path, line, problem)
	}
}

func (s *hostState) fault(path string, line int, problem string) *NetworkFault {
	if line == 0 && path != "" {
		line = lineOf(s.document, path)
	}
	return &NetworkFault{Field: path, Line: line, Problem: problem}
}

func (p *stateParser) parse(root value) {
	none := func() {
		problem := "the network YAML has no list of interfaces"
		if field(root.node, "capture") != nil || field(root.node, "desiredState") != nil {
			problem = "the network YAML is a policy with captures; give only the desired state, because the NICs are " +
				"captured by mac_interface_map"
		}
		if p.fault == nil {
			p.fault = &NetworkFault{Line: 1, Problem: problem}
		}
	}
	root.fields(stateKeys, func(name string, v value) bool {
		switch name {
		case "interfaces":
			if v.empty() {
				none()
			}
			v.each(p.link)
		case "routes":
			p.config(v, func(v value) { v.each(p.route) })
		case "route-rules":
			p.config(v, func(v value) { v.each(p.rule) })
		case "dns-resolver":
			p.config(v, p.resolver)
		case "version", "description":
		default:
			return false
		}
		return true
	})
	if field(root.node, "interfaces") == nil {
		none()
	}
}

// config visits the desired configuration. It skips the running configuration, which nmstate's
// output also contains.
func (p *stateParser) config(v value, visit func(v value)) {
	v.fields(configKeys, func(name string, v value) bool {
		if name == "config" {
			visit(v)
		}
		return name == "config" || name == "running"
	})
}

func (p *stateParser) link(v value) {
	if v.node.Kind != yaml.MappingNode {
		v.refuse("must be a mapping with the name of an interface")
		return
	}
	l := &link{path: v.path, kind: "ethernet", up: true, vlan: vlan{id: -1, flags: vlanReorderHeaders}}
	kind := field(v.node, "type")
	if kind != nil && !slices.Contains(keyfileKinds, kind.Value) {
		p.beyond(v.path+".type", 0, fmt.Sprintf("is %q, which %s", kind.Value, beyondKeyfiles))
	}
	var mac, identifier string
	v.fields(linkKeys, func(name string, v value) bool {
		switch name {
		case "name":
			l.name = v.text()
		case "type":
			if l.kind = v.text(); l.kind == "802-3-ethernet" {
				l.kind = "ethernet"
			}
		case "state":
			state := v.oneOf("up", "down", "absent", "ignore")
			if l.up = state == "up"; !l.up {
				p.beyond(v.path, v.node.Line, fmt.Sprintf("is %q, which %s: they always activate interfaces",
					state, beyondKeyfiles))
			}
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
		case "controller":
			l.controlledBy = v.text()
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
		case "bridge":
			return l.readBridge(v, kind)
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
		v.refuse("needs a name without blanks and slashes; the name is %q", l.name)
	}
	if identifier == "mac-address" {
		if l.mac = mac; mac == "" {
			v.refuse("has identifier: mac-address but no mac-address")
		}
	} else {
		l.clonedMAC = mac
	}
	p.state.interfaces = append(p.state.interfaces, l)
}

func (l *link) readLLDP(v value) {
	v.fields("enabled neighbors", func(name string, v value) bool {
		if name == "enabled" {
			l.lldp = v.truth()
		}
		return name == "enabled" || name == "neighbors"
	})
}

func (l *link) readEthernet(v value) {
	v.fields(ethernetKeys, func(name string, v value) bool {
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
	if (l.speed > 0) != (l.duplex != "") {
		v.refuse("needs speed and duplex together, or neither")
	}
}

// The flags NMVlanFlags of NetworkManager. The first flag is set by default in Linux.
const (
	vlanReorderHeaders = 1 << iota
	vlanGVRP
	vlanLooseBinding
	vlanMVRP
)

func (l *link) readVLAN(v value) {
	flag := func(truth string, bit int64) {
		if truth == "true" {
			l.vlan.flags |= bit
		} else {
			l.vlan.flags &^= bit
		}
	}
	v.fields(vlanKeys, func(name string, v value) bool {
		switch name {
		case "base-iface":
			l.vlan.base = v.text()
		case "id":
			l.vlan.id = v.number(0, 4094)
		case "protocol":
			l.vlan.protocol = v.oneOf("802.1q", "802.1ad")
		case "registration-protocol":
			switch v.oneOf("none", "gvrp", "mvrp") {
			case "gvrp":
				l.vlan.flags |= vlanGVRP
			case "mvrp":
				l.vlan.flags |= vlanMVRP
			}
		case "reorder-headers":
			flag(v.truth(), vlanReorderHeaders)
		case "loose-binding":
			flag(v.truth(), vlanLooseBinding)
		default:
			return false
		}
		return true
	})
}

// familyOf contains the keys that exist for one address family only. The value is true for IPv6.
var familyOf = map[string]bool{"autoconf": true, "dhcp-duid": true, "addr-gen-mode": true, "token": true,
	"dhcp-client-id": false}

func readFamily(v value, v6 bool) *family {
	f := &family{table: -1, metric: -1}
	given := false
	v.fields(familyKeys, func(name string, v value) bool {
		if of6, ofOne := familyOf[name]; ofOne && of6 != v6 {
			v.refuse("exists only for %s", familyName(of6))
			return true
		}
		switch name {
		case "enabled":
			f.enabled, given = v.truth() == "true", true
		case "dhcp":
			f.dhcp = v.truth() == "true"
		case "autoconf":
			f.autoconf = v.truth() == "true"
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
			f.clientID = readClientID(v)
		case "dhcp-duid":
			f.duid = readDUID(v)
		case "addr-gen-mode":
			f.genMode = v.oneOf("eui64", "stable-privacy")
		case "token":
			f.token = readToken(v)
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
	if f.token != "" && f.genMode == "stable-privacy" {
		v.refuse("has a token, which requires addr-gen-mode: eui64")
	}
	return f
}

// octets matches hexadecimal numbers of two digits, separated by colons.
var octets = regexp.MustCompile(`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2})+$`)

// readClientID translates nmstate's names of DHCP client ids to those of NetworkManager.
func readClientID(v value) string {
	switch text := v.text(); strings.ToLower(text) {
	case "":
		return ""
	case "ll":
		return "mac"
	case "iaid+duid":
		return "duid"
	default:
		if !octets.MatchString(text) {
			v.refuse("is %q; it must be ll, iaid+duid, or octets such as 01:52:54:00:12:34:56", text)
		}
		return text
	}
}

func readDUID(v value) string {
	switch text := v.text(); strings.ToLower(text) {
	case "":
		return ""
	case "ll", "llt", "uuid":
		return strings.ToLower(text)
	default:
		if !octets.MatchString(text) {
			v.refuse("is %q; it must be ll, llt, uuid, or octets such as 00:03:00:01:52:54:00:12:34:56", text)
		}
		return text
	}
}

// readToken reads the lower 64 bits of an IPv6 address. The upper 64 bits are those of the network.
func readToken(v value) string {
	text := v.text()
	if text == "" || text == "::" {
		return ""
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is6() || a.Zone() != "" || slices.ContainsFunc(a.AsSlice()[:min(8, len(a.AsSlice()))],
		func(b byte) bool { return b != 0 }) {
		v.refuse("is %q; it must be the lower 64 bits of an address, such as ::a", text)
		return ""
	}
	return a.String()
}

func (f *family) readAddress(v value, v6 bool) {
	bits, most := int64(-1), int64(32)
	if v6 {
		most = 128
	}
	var ip netip.Addr
	v.fields(addressKeys, func(name string, v value) bool {
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
	switch {
	case v.p.fault != nil:
		return
	case !ip.IsValid() || bits < 0:
		v.refuse("needs an ip and a prefix-length")
		return
	case ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback():
		v.refuse("is %s, which is not valid for an interface", ip)
		return
	}
	prefix := netip.PrefixFrom(ip, int(bits))
	if slices.Contains(f.addresses, prefix) {
		v.refuse("is a duplicate")
	}
	f.addresses = append(f.addresses, prefix)
}
