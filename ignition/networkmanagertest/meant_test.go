//go:build networkmanager

package networkmanagertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/ignition"
)

// descriptions is the number of random descriptions.
const descriptions = 2000

// The test creates the meaning of random descriptions first, and then writes the descriptions as
// YAML. A real nmcli must read the same meaning from the keyfiles generated from the YAML. Both
// sides share only this test's names of settings.
func TestKeyfiles_networkManagerReadsRandomDescriptions(t *testing.T) {
	seed := uint64(20260301)
	var connections atomic.Int64
	all(t, descriptions, func(i int) error {
		m := &meaning{Rand: rand.New(rand.NewPCG(seed, uint64(i))), profiles: make(map[string]profile),
			uuids: make(map[string]string)}
		m.invent()
		text, err := yaml.Marshal(m.state)
		if err != nil {
			return err
		}
		describe := func(problem string) error {
			return fmt.Errorf("description %d of seed %d: %s\n%s", i, seed, problem, text)
		}
		files, err := keyfiles(ignition.HostNetwork{YAML: string(text), Interfaces: m.nics})
		if err != nil {
			return describe(err.Error())
		}
		if len(files) != len(m.profiles) {
			return describe(fmt.Sprintf("%d keyfiles for %d interfaces", len(files), len(m.profiles)))
		}
		for name, keyfile := range files {
			m.uuids[name] = read(keyfile)["connection.uuid"]
		}
		for name, keyfile := range files {
			got, err := understood(keyfile)
			if err != nil {
				return describe(fmt.Sprintf("%s: %v\n%s", name, err, keyfile))
			}
			if d := difference(m.named(name).written(), got); d != "" {
				return describe(name + ":\n" + d)
			}
		}
		connections.Add(int64(len(files)))
		return nil
	})
	require.GreaterOrEqual(t, connections.Load(), int64(descriptions))
	t.Logf("%d descriptions, %d connections", descriptions, connections.Load())
}

type object = map[string]any

// meaning is the network of a host: its YAML and the expected profiles.
type meaning struct {
	*rand.Rand
	state      object
	interfaces []object
	routes     []object
	rules      []object
	nics       []ignition.NetworkInterface
	profiles   map[string]profile
	uuids      map[string]string // by interface
	addresses  int
	// routing table, other than main, that contains routes of an interface and family
	tables   map[string]int
	defaults map[bool]string
	l3       []string // in order, with their families
	families map[string][2]bool
	static   map[string][2]bool
	// interfaces with more than link-local addresses; other interfaces have no name servers
	global map[string][2]bool
}

// named returns a profile with the names of other profiles replaced by their ids.
func (m *meaning) named(name string) profile {
	out := make(profile)
	for key, value := range m.profiles[name] {
		switch key {
		case "connection.master", "vlan.parent":
			if id, ok := m.uuids[value]; ok {
				value = id
			}
		}
		out[key] = value
	}
	out["connection.uuid"] = m.uuids[name]
	return out
}

func (m *meaning) maybe() bool             { return m.IntN(2) == 0 }
func (m *meaning) rarely() bool            { return m.IntN(4) == 0 }
func (m *meaning) one(of ...string) string { return of[m.IntN(len(of))] }

// either writes a number in YAML as a number or as a string.
func (m *meaning) either(n int) any {
	if m.rarely() {
		return strconv.Itoa(n)
	}
	return n
}

func (m *meaning) invent() {
	m.tables, m.defaults = make(map[string]int), make(map[bool]string)
	m.families, m.static = make(map[string][2]bool), make(map[string][2]bool)
	m.global = make(map[string][2]bool)
	switch m.IntN(10) {
	case 0, 1, 2, 3, 4:
		m.nic("eth0", "")
	case 5:
		m.nic("eth0", "")
		m.vlan("eth0.7", "eth0")
	case 6:
		m.bond("")
	case 7:
		m.bridge("eth1")
	case 8:
		m.bond("")
		m.vlan("tagged", "bond0")
	case 9:
		m.bond("br0")
		m.bridge("bond0")
	}
	for range m.IntN(3) {
		m.route()
	}
	if m.rarely() {
		m.rule()
	}
	m.state = object{"interfaces": m.interfaces}
	m.resolver()
	if len(m.routes) > 0 {
		m.state["routes"] = object{"config": m.routes}
	}
	if len(m.rules) > 0 {
		m.state["route-rules"] = object{"config": m.rules}
	}
}

// begin returns the fields that all interfaces have.
func (m *meaning) begin(name, kind, controller, controllerKind string) (object, profile) {
	in := object{"name": name, "type": kind, "state": "up"}
	p := profile{"connection.id": name, "connection.type": strings.TrimPrefix(kind, "linux-"),
		"connection.autoconnect-priority": "1"}
	if m.rarely() {
		id := "Profil für " + name
		in["profile-name"], p["connection.id"] = id, id
	}
	if m.rarely() {
		on := m.maybe()
		in["lldp"] = object{"enabled": on}
		p["connection.lldp"] = map[bool]string{true: "1", false: "0"}[on]
	}
	if controller != "" {
		p["connection.master"], p["connection.slave-type"] = controller, controllerKind
	}
	if m.rarely() {
		mtu := 1280 + m.IntN(8000)
		in["mtu"], p["ethernet.mtu"] = m.either(mtu), strconv.Itoa(mtu)
		if kind == "vlan" { // at most that of the base interface
			in["mtu"], p["ethernet.mtu"] = 1280, "1280"
		}
	}
	return in, p
}

func (m *meaning) add(name string, in object, p profile) {
	m.interfaces = append(m.interfaces, in)
	m.profiles[name] = p
}

func (m *meaning) nic(name, controller string) {
	kind := ""
	if controller != "" {
		kind = map[bool]string{true: "bridge", false: "bond"}[strings.HasPrefix(controller, "br")]
	}
	in, p := m.begin(name, "ethernet", controller, kind)
	mac := fmt.Sprintf("52:54:00:00:%02X:%02X", m.IntN(256), len(m.nics))
	m.nics = append(m.nics, ignition.NetworkInterface{MAC: strings.ToLower(mac), Name: name})
	p["ethernet.mac-address"] = mac
	switch m.IntN(5) {
	case 0: // the NIC's own address, which has no effect
		in["mac-address"] = strings.ToLower(mac)
	case 1:
		in["mac-address"], p["ethernet.cloned-mac-address"] = "02:00:00:00:00:99", "02:00:00:00:00:99"
	case 2:
		in["identifier"], in["mac-address"] = "mac-address", mac
	}
	if m.rarely() {
		speed, duplex, negotiate := 1000*(1+m.IntN(10)), m.one("full", "half"), m.maybe()
		in["ethernet"] = object{"speed": m.either(speed), "duplex": duplex, "auto-negotiation": negotiate}
		p["ethernet.speed"], p["ethernet.duplex"] = strconv.Itoa(speed), duplex
		if negotiate {
			p["ethernet.auto-negotiate"] = "true"
		}
	}
	if controller == "" {
		m.ip(name, in, p)
	}
	m.add(name, in, p)
}

func (m *meaning) bond(controller string) {
	kind := ""
	if controller != "" {
		kind = "bridge"
	}
	in, p := m.begin("bond0", "bond", controller, kind)
	p["connection.interface-name"], p["connection.autoconnect-slaves"] = "bond0", "1"
	number := m.IntN(len(modes))
	mode := modes[number]
	section := object{"mode": mode, "port": []string{"eth0", "eth1"}}
	if m.rarely() {
		section["mode"] = number
	}
	p["bond.mode"] = mode
	options := object{}
	set := func(name, value string) { options[name], p["bond."+name] = value, value }
	if m.maybe() {
		set("miimon", strconv.Itoa(1+m.IntN(1000)))
		if m.rarely() {
			set("updelay", strconv.Itoa(m.IntN(1000)))
		}
	} else if m.maybe() && slices.Contains(modes[:4], mode) {
		set("arp_interval", strconv.Itoa(1+m.IntN(1000)))
		set("arp_ip_target", "192.0.2.1,192.0.2.2")
		set("arp_validate", m.one("none", "all", "active", "backup"))
	}
	if m.maybe() {
		set("xmit_hash_policy", m.one("layer2", "layer2+3", "layer3+4", "encap3+4"))
	}
	if mode == "802.3ad" && m.maybe() {
		set("lacp_rate", m.one("slow", "fast"))
		if m.rarely() {
			options["lacp_rate"] = 1
			p["bond.lacp_rate"] = "fast"
		}
	}
	if m.rarely() {
		options["all_slaves_active"], p["bond.all_slaves_active"] = m.one("1", "delivered"), "1"
	}
	if mode == "active-backup" && m.maybe() {
		set("primary", "eth1")
		set("primary_reselect", m.one("always", "better", "failure"))
	}
	if len(options) > 0 {
		section["options"] = options
	}
	in["link-aggregation"] = section
	if controller == "" {
		m.ip("bond0", in, p)
	}
	m.add("bond0", in, p)
	m.nic("eth0", "bond0")
	m.nic("eth1", "bond0")
	if m.rarely() {
		section["ports-config"] = []object{{"name": "eth0", "queue-id": 0}, {"name": "eth1", "queue-id": 5,
			"priority": 0}}
		m.profiles["eth1"]["bond-port.queue-id"] = "5"
	}
}

func (m *meaning) bridge(port string) {
	in, p := m.begin("br0", "linux-bridge", "", "")
	p["connection.interface-name"], p["connection.autoconnect-slaves"] = "br0", "1"
	section := object{}
	if m.maybe() {
		stp := object{"enabled": m.maybe()}
		p["bridge.stp"] = fmt.Sprint(stp["enabled"])
		for key, bounds := range map[string][2]int{"forward-delay": {2, 30}, "hello-time": {1, 10}, "max-age": {6, 40},
			"priority": {0, 65535}} {
			if m.rarely() {
				n := bounds[0] + m.IntN(bounds[1]-bounds[0]+1)
				stp[key], p["bridge."+key] = m.either(n), strconv.Itoa(n)
			}
		}
		options := object{"stp": stp}
		if m.maybe() {
			options["mac-ageing-time"], p["bridge.ageing-time"] = 600, "600"
			options["multicast-snooping"], p["bridge.multicast-snooping"] = false, "false"
			options["group-forward-mask"], p["bridge.group-forward-mask"] = 8, "8"
		}
		if m.rarely() {
			options["hash-max"], p["bridge.multicast-hash-max"] = 1024, "1024"
			options["multicast-router"], p["bridge.multicast-router"] = 2, "enabled"
			options["multicast-querier"], p["bridge.multicast-querier"] = true, "true"
			options["vlan-protocol"], p["bridge.vlan-protocol"] = "802.1ad", "802.1ad"
		}
		section["options"] = options
	}
	conf := object{"name": port}
	portProfile := profile{}
	if m.maybe() {
		cost, priority := 1+m.IntN(65535), m.IntN(64)
		conf["stp-path-cost"], portProfile["bridge-port.path-cost"] = m.either(cost), strconv.Itoa(cost)
		conf["stp-priority"], portProfile["bridge-port.priority"] = m.either(priority), strconv.Itoa(priority)
		conf["stp-hairpin-mode"], portProfile["bridge-port.hairpin-mode"] = true, "true"
	}
	switch m.IntN(4) {
	case 0:
		tag := 1 + m.IntN(4094)
		conf["vlan"] = object{"mode": "access", "tag": tag}
		portProfile["bridge-port.vlans"] = fmt.Sprintf("%d pvid untagged", tag)
	case 1:
		conf["vlan"] = object{"mode": "trunk", "trunk-tags": []object{{"id": 101},
			{"id-range": object{"min": 500, "max": 599}}}}
		portProfile["bridge-port.vlans"] = "101, 500-599"
		if m.maybe() {
			conf["vlan"].(object)["tag"], conf["vlan"].(object)["enable-native"] = 100, true
			portProfile["bridge-port.vlans"] = "100 pvid untagged, 101, 500-599"
		}
	}
	if _, ok := conf["vlan"]; ok {
		p["bridge.vlan-filtering"] = "true"
	}
	section["port"] = []object{conf}
	in["bridge"] = section
	if m.rarely() {
		in["mac-address"], p["ethernet.cloned-mac-address"] = "02:00:00:00:00:07", "02:00:00:00:00:07"
	}
	m.ip("br0", in, p)
	m.add("br0", in, p)
	if port != "bond0" {
		m.nic(port, "br0")
	}
	for key, value := range portProfile {
		m.profiles[port][key] = value
	}
}

func (m *meaning) vlan(name, base string) {
	in, p := m.begin(name, "vlan", "", "")
	id := m.IntN(4095)
	in["vlan"] = object{"base-iface": base, "id": m.either(id)}
	p["connection.interface-name"], p["vlan.id"], p["vlan.parent"] = name, strconv.Itoa(id), base
	flags := 1
	if m.rarely() {
		in["vlan"].(object)["reorder-headers"] = false
		flags = 0
	}
	if m.rarely() {
		in["vlan"].(object)["loose-binding"] = "yes"
		flags |= 4
	}
	if m.rarely() {
		in["vlan"].(object)["registration-protocol"] = "gvrp"
		flags |= 2
	}
	p["vlan.flags"] = strconv.Itoa(flags)
	m.ip(name, in, p)
	m.add(name, in, p)
}

// ip configures IPv4 and IPv6 of an interface by one of the possible methods.
func (m *meaning) ip(name string, in object, p profile) {
	var has, static, global [2]bool
	for i, family := range []string{"ipv4", "ipv6"} {
		method := m.one("disabled", "manual", "manual", "auto")
		v6 := i == 1
		if v6 && m.rarely() {
			method = m.one("dhcp", "link-local")
		}
		p[family+".method"] = method
		section := object{"enabled": method != "disabled"}
		switch method {
		case "disabled":
			if m.maybe() {
				continue // the default
			}
		case "manual":
			for n := range 1 + m.IntN(2) {
				m.addresses++
				ip, bits := fmt.Sprintf("192.0.%d.10", m.addresses), 8+m.IntN(25)
				if v6 {
					ip, bits = fmt.Sprintf("2001:db8:0:%x::a", m.addresses), 16+m.IntN(113)
				}
				list, _ := section["address"].([]object)
				section["address"] = append(list, object{"ip": ip, "prefix-length": m.either(bits)})
				p[fmt.Sprintf("%s.address%d", family, n+1)] = fmt.Sprintf("%s/%d", ip, bits)
			}
			static[i] = true
		case "auto", "dhcp":
			section["dhcp"] = true
			if v6 {
				section["autoconf"] = method == "auto"
			}
			m.dynamic(family, section, p)
		}
		if v6 && method != "disabled" {
			p["ipv6.addr-gen-mode"] = "eui64"
			if m.rarely() && p["ipv6.token"] == "" {
				section["addr-gen-mode"], p["ipv6.addr-gen-mode"] = "stable-privacy", "stable-privacy"
			}
		}
		has[i], global[i] = method != "disabled", method != "disabled" && method != "link-local"
		in[family] = section
	}
	if m.rarely() {
		wait := m.one("any", "ipv4", "ipv6", "ipv4+ipv6")
		in["wait-ip"] = wait
		for i, family := range []string{"ipv4", "ipv6"} {
			if has[i] && strings.Contains(wait, family) {
				p[family+".may-fail"] = "false"
			}
		}
	}
	m.families[name], m.static[name], m.global[name] = has, static, global
	m.l3 = append(m.l3, name)
}

// dynamic configures the use of settings from DHCP and routers.
func (m *meaning) dynamic(family string, section object, p profile) {
	p[family+".dhcp-timeout"] = "2147483647"
	if family == "ipv6" {
		p["ipv6.ra-timeout"], p["ipv6.dhcp-duid"], p["ipv6.dhcp-iaid"] = "2147483647", "ll", "mac"
		switch m.IntN(4) {
		case 0:
			section["dhcp-duid"], p["ipv6.dhcp-duid"] = "llt", "llt"
		case 1:
			section["token"], p["ipv6.token"] = "::a", "::a"
		}
	} else {
		p["ipv4.dhcp-client-id"] = "mac"
		switch m.IntN(5) {
		case 0:
			section["dhcp-client-id"], p["ipv4.dhcp-client-id"] = "iaid+duid", "duid"
		case 1:
			section["dhcp-client-id"], p["ipv4.dhcp-client-id"] = "01:02:03:04", "01:02:03:04"
		}
	}
	for key, name := range map[string]string{"auto-dns": "ignore-auto-dns", "auto-routes": "ignore-auto-routes",
		"auto-gateway": "never-default"} {
		if m.rarely() {
			section[key], p[family+"."+name] = false, "true"
		}
	}
	if m.rarely() {
		section["auto-route-table-id"], p[family+".route-table"] = 77, "77"
		section["auto-route-metric"], p[family+".route-metric"] = 300, "300"
	}
	switch m.IntN(6) {
	case 0:
		section["dhcp-send-hostname"], p[family+".dhcp-send-hostname"] = false, "false"
	case 1:
		section["dhcp-custom-hostname"], p[family+".dhcp-hostname"] = "node", "node"
	case 2:
		if family == "ipv4" {
			section["dhcp-custom-hostname"], p["ipv4.dhcp-fqdn"] = "node.site.example", "node.site.example"
		}
	}
}

// somewhere returns an interface that has addresses of a family, or "".
func (m *meaning) somewhere(v6 int) (name, family string) {
	var with []string
	for _, l := range m.l3 {
		if m.families[l][v6] {
			with = append(with, l)
		}
	}
	if len(with) == 0 {
		return "", ""
	}
	return m.one(with...), []string{"ipv4", "ipv6"}[v6]
}

func (m *meaning) route() {
	v6 := m.IntN(2)
	name, family := m.somewhere(v6)
	if name == "" {
		return
	}
	p := m.profiles[name]
	number := 1
	for p[fmt.Sprintf("%s.route%d", family, number)] != "" {
		number++
	}
	key := fmt.Sprintf("%s.route%d", family, number)
	destination, gateway, none := "0.0.0.0/0", "192.0.2.1", "0.0.0.0"
	if v6 == 1 {
		destination, gateway, none = "::/0", "2001:db8::1", "::"
	}
	all := m.maybe() && m.defaults[v6 == 1] == ""
	if !all {
		n := m.IntN(200)
		destination = []string{fmt.Sprintf("10.%d.0.0/16", n), fmt.Sprintf("2001:db8:%x::/48", 0x100+n)}[v6]
	}
	r := object{"destination": destination, "next-hop-interface": name}
	if m.maybe() || all {
		r["next-hop-address"] = gateway
	} else {
		gateway = none
	}
	metric, table := 0, 254
	switch m.IntN(3) {
	case 0:
		metric = 1 + m.IntN(1000)
		r["metric"] = m.either(metric)
	case 1:
		r["metric"] = -1
	}
	switch m.IntN(4) {
	case 0:
		table = 5 + m.IntN(100)
		r["table-id"] = table
		m.tables[name+family] = table
	case 1:
		r["table-id"] = 0
	case 2:
		r["table-id"] = 254
	}
	if all && table == 254 && m.global[name][v6] {
		m.defaults[v6 == 1] = name
	}
	options := []string{fmt.Sprintf("table=%d", table)}
	if v6 == 0 && gateway != none && m.rarely() {
		r["weight"] = 5
		options = append(options, "weight=5")
	}
	if m.rarely() {
		r["cwnd"] = 20
		options = append(options, "cwnd=20", "lock-cwnd=true")
	}
	p[key], p[key+"_options"] = fmt.Sprintf("%s,%s,%d", destination, gateway, metric), strings.Join(options, ",")
	m.routes = append(m.routes, r)
}

// rule adds a rule for a table with routes of an interface.
func (m *meaning) rule() {
	for _, name := range m.l3 {
		for v6, family := range []string{"ipv4", "ipv6"} {
			table := m.tables[name+family]
			if table == 0 {
				continue
			}
			for other, t := range m.tables { // the rule belongs to the interface with the first route of the table
				if t == table && other != name+family {
					return
				}
			}
			from, everything := []string{"192.0.2.0/24", "2001:db8::/64"}[v6], []string{"0.0.0.0/0", "::/0"}[v6]
			r, words := object{"route-table": table, "priority": 100 + m.IntN(900)}, ""
			words = fmt.Sprintf("priority %d", r["priority"])
			switch m.IntN(4) {
			case 0:
				r["ip-from"] = from
				words += " from " + from
			case 1:
				r["ip-to"] = from
				words += " to " + from
			case 2:
				r["ip-from"], r["ip-to"] = from, from
				words += " from " + from + " to " + from
			default:
				r["family"] = family
				words += " from " + everything
			}
			if m.maybe() {
				r["fwmark"], r["fwmask"] = "0x30", "0x10"
				words += " fwmark 0x30/0x10"
			}
			if m.rarely() {
				r["iif"] = name
				words += " iif " + name
			}
			if m.rarely() {
				r["suppress-prefix-length"] = 0
				words += " suppress_prefixlength 0"
			}
			m.profiles[name][family+".routing-rule1"] = words + fmt.Sprintf(" table %d", table)
			m.rules = append(m.rules, r)
			return
		}
	}
}

// resolver adds name servers of families that an interface has. They are assigned to the interface
// of the default route, else to the first interface with static addresses, else to the first
// interface.
func (m *meaning) resolver() {
	var servers, search []string
	order := []int{0, 1}
	if m.maybe() {
		order = []int{1, 0}
	}
	if m.maybe() {
		search = []string{"site.example", "example"}
	}
	priority := "40"
	chosen := make(map[string]string)
	for _, v6 := range order {
		family := []string{"ipv4", "ipv6"}[v6]
		target := m.defaults[v6 == 1]
		ordered := m.order()
		for _, l := range ordered {
			if target == "" && m.static[l][v6] {
				target = l
			}
		}
		for _, l := range ordered {
			if target == "" && m.global[l][v6] {
				target = l
			}
		}
		if target == "" || m.rarely() {
			continue
		}
		all := []string{"192.0.2.53", "192.0.2.54"}
		if v6 == 1 {
			all = []string{"2001:db8::53", "2001:db8::54"}
		}
		all = all[:1+m.IntN(2)]
		servers = append(servers, all...)
		p := m.profiles[target]
		p[family+".dns"], p[family+".dns-priority"] = strings.Join(all, ";")+";", priority
		chosen[family] = target
		priority = "50"
	}
	if len(servers) == 0 {
		return
	}
	config := object{"server": servers}
	if search != nil {
		config["search"] = search
		for family, target := range chosen {
			m.profiles[target][family+".dns-search"] = "site.example;example;"
		}
	}
	m.state["dns-resolver"] = object{"config": config}
}

// order returns the interfaces with addresses in the order of the description.
func (m *meaning) order() []string {
	var names []string
	for _, in := range m.interfaces {
		if name := in["name"].(string); slices.Contains(m.l3, name) {
			names = append(names, name)
		}
	}
	return names
}
