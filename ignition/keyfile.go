package ignition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// keyfileSpace is the name space of the UUIDs of connections. Equal descriptions result in equal
// UUIDs.
var keyfileSpace = uuid.MustParse("f1c2ab2e-5d0c-5a0e-9a39-6a8a5c4d2f10")

// noTimeout, in seconds, makes NetworkManager wait for DHCP and routers without a time-out, like
// nmstate. A switch with slow spanning tree must not leave a machine without an address.
const noTimeout = "2147483647"

// keyfiles returns the description of a host as connections of NetworkManager, one file per
// interface. It returns a fault if keyfiles do not support a field. NICs are identified by MAC
// address, so if [hostState.byMAC] returns true, the files have no effect on other machines.
// Format: https://networkmanager.dev/docs/api/latest/nm-settings-keyfile.html
func (s *hostState) keyfiles(prefix string, nics []NetworkInterface) ([]File, *NetworkFault) {
	names := s.resolverLinks()
	if s.beyond != nil {
		return nil, s.beyond
	}
	w := &keyfileWriter{
		state: s, host: string(macTable(nics)), nics: nics, resolvers: names,
		links:  make(map[string]*link, len(s.interfaces)),
		routes: make(map[string][]route), rules: make(map[*link][]rule),
	}
	for _, r := range s.routes {
		w.routes[r.via] = append(w.routes[r.via], r)
	}
	for _, r := range s.rules {
		w.rules[r.on] = append(w.rules[r.on], r)
	}
	for _, l := range s.interfaces {
		w.links[l.name] = l
	}
	files := make([]File, 0, len(s.interfaces))
	for _, l := range s.interfaces {
		files = append(files, File{Path: prefix + l.name + ".nmconnection", Mode: 0o600, Data: w.connection(prefix, l)})
	}
	return files, nil
}

// resolverLinks returns the interfaces to which the name servers of IPv4 (false) and IPv6 (true)
// are assigned.
func (s *hostState) resolverLinks() map[bool]*link {
	chosen := make(map[bool]*link)
	without := func(field string, what any) {
		if s.beyond == nil {
			s.beyond = s.fault(s.dns.path+field, 0,
				fmt.Sprintf("is %s, for which no interface has addresses of its kind, so it %s", what, beyondKeyfiles))
		}
	}
	for _, v6 := range []bool{false, true} {
		servers := ofFamily(s.dns.servers, v6)
		l := s.resolverLink(v6)
		switch {
		case l == nil && len(servers) > 0:
			without(fmt.Sprintf(".server[%d]", slices.Index(s.dns.servers, servers[0])), servers[0])
		case l != nil && (len(servers) > 0 || len(s.dns.servers) == 0):
			chosen[v6] = l
		}
	}
	if chosen[true] == nil && chosen[false] == nil && len(s.dns.search)+len(s.dns.options) > 0 {
		without(".search", "given")
	}
	return chosen
}

type keyfileWriter struct {
	state     *hostState
	host      string // distinguishes hosts in UUIDs
	nics      []NetworkInterface
	links     map[string]*link
	routes    map[string][]route // by interface
	rules     map[*link][]rule
	resolvers map[bool]*link
	text      strings.Builder
}

func (w *keyfileWriter) uuid(l *link) string {
	return uuid.NewSHA1(keyfileSpace, []byte(w.host+"\x00"+l.name)).String()
}

func (w *keyfileWriter) section(name string) {
	if w.text.Len() > 0 {
		w.text.WriteByte('\n')
	}
	w.text.WriteString("[" + name + "]\n")
}

// set writes a key. It does nothing if the value is "".
func (w *keyfileWriter) set(key, value string) {
	if value == "" {
		return
	}
	value = strings.ReplaceAll(value, `\`, `\\`)
	if strings.HasPrefix(value, " ") {
		value = `\s` + value[1:]
	}
	w.text.WriteString(key + "=" + value + "\n")
}

func (w *keyfileWriter) all(settings []setting) {
	for _, s := range settings {
		w.set(s.key, s.value)
	}
}

func (w *keyfileWriter) list(key string, values []string) {
	if len(values) > 0 {
		w.text.WriteString(key + "=" + strings.Join(values, ";") + ";\n")
	}
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func given(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// connectionTypes maps nmstate's names of interface types to different names of NetworkManager.
var connectionTypes = map[string]string{"linux-bridge": "bridge"}

func (w *keyfileWriter) connection(prefix string, l *link) []byte {
	w.text.Reset()
	w.section("connection")
	w.set("id", orElse(l.profile, prefix+l.name))
	w.set("uuid", w.uuid(l))
	w.set("type", orElse(connectionTypes[l.kind], l.kind))
	if l.kind != "ethernet" || l.mac == "" {
		w.set("interface-name", l.name)
	}
	w.set("autoconnect", "true")
	w.set("autoconnect-priority", "1") // above the priority of the live system's default connections
	if l.lldp != "" {
		w.set("lldp", map[string]string{"true": "1", "false": "0"}[l.lldp])
	}
	if l.controller != nil {
		// These are the old names of controller and port-type. All releases support them.
		w.set("master", w.uuid(l.controller))
		w.set("slave-type", orElse(connectionTypes[l.controller.kind], l.controller.kind))
	}
	if l.controls() {
		w.set("autoconnect-slaves", "1")
	}
	w.ethernet(l)
	w.bond(l)
	w.bridge(l)
	w.vlan(l)
	if l.controller == nil {
		w.family(l, false)
		w.family(l, true)
	} else if len(l.port) > 0 {
		w.section(orElse(connectionTypes[l.controller.kind], l.controller.kind) + "-port")
		w.all(l.port)
	}
	return []byte(w.text.String())
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func (w *keyfileWriter) ethernet(l *link) {
	mac := l.mac
	if l.kind == "vlan" && w.links[l.vlan.base] == nil {
		mac = w.nic(l.vlan.base)
	}
	if l.kind != "ethernet" && mac+l.clonedMAC == "" && l.mtu == 0 {
		return
	}
	w.section("ethernet")
	w.set("mac-address", mac)
	w.set("cloned-mac-address", l.clonedMAC)
	w.set("mtu", positive(l.mtu))
	w.set("auto-negotiate", l.autoNegotiate)
	w.set("speed", positive(l.speed))
	w.set("duplex", l.duplex)
}

func (w *keyfileWriter) bond(l *link) {
	if l.kind != "bond" {
		return
	}
	w.section("bond")
	w.set("mode", l.bond.mode)
	options := slices.Clone(l.bond.options)
	slices.SortFunc(options, func(a, b setting) int { return strings.Compare(a.key, b.key) })
	w.all(options)
}

func (w *keyfileWriter) bridge(l *link) {
	if l.kind != "linux-bridge" {
		return
	}
	w.section("bridge")
	w.all(l.bridge.options)
	if l.bridge.filtering {
		w.set("vlan-filtering", "true")
	}
}

func (w *keyfileWriter) nic(name string) string {
	for _, nic := range w.nics {
		if nic.Name == name {
			return nic.MAC
		}
	}
	return ""
}

// vlan writes a VLAN. Its base interface is identified by the UUID of the connection. A NIC without
// a connection is identified by its MAC address, in the section [ethernet], or by its name.
func (w *keyfileWriter) vlan(l *link) {
	if l.kind != "vlan" {
		return
	}
	w.section("vlan")
	w.set("flags", strconv.FormatInt(l.vlan.flags, 10))
	w.set("id", strconv.FormatInt(l.vlan.id, 10))
	if base := w.links[l.vlan.base]; base != nil {
		w.set("parent", w.uuid(base))
	} else if w.nic(l.vlan.base) == "" {
		w.set("parent", l.vlan.base)
	}
}

func (w *keyfileWriter) family(l *link, v6 bool) {
	f := l.family(v6)
	w.section(strings.ToLower(familyName(v6)))
	method := f.method(v6)
	w.set("method", method)
	if method == "disabled" {
		return
	}
	for i, address := range f.addresses {
		w.set("address"+strconv.Itoa(i+1), address.String())
	}
	w.routing(l, v6)
	if method == "auto" || method == "dhcp" {
		w.dynamic(f, v6)
	}
	if v6 {
		w.set("addr-gen-mode", orElse(f.genMode, "eui64"))
	}
	if l.waitIP == "ipv4+ipv6" || l.waitIP == strings.ToLower(familyName(v6)) {
		w.set("may-fail", "false")
	}
	if w.resolvers[v6] == l {
		w.resolver(v6)
	}
}

// dynamic writes the use of settings from DHCP and routers. The DHCP client id is the MAC address,
// as in most reservations. It stays the same after the installation.
func (w *keyfileWriter) dynamic(f *family, v6 bool) {
	w.set("route-table", positive(f.table))
	w.set("route-metric", given(f.metric))
	w.set("ignore-auto-dns", opposite(f.autoDNS))
	w.set("ignore-auto-routes", opposite(f.autoRoutes))
	w.set("never-default", opposite(f.autoGateway))
	w.set("dhcp-timeout", noTimeout)
	w.set("dhcp-send-hostname", f.sendHostname)
	if v6 {
		w.set("ra-timeout", noTimeout)
		w.set("dhcp-duid", orElse(f.duid, "ll"))
		w.set("dhcp-iaid", "mac")
		w.set("token", f.token)
	} else {
		w.set("dhcp-client-id", orElse(f.clientID, "mac"))
	}
	switch {
	case f.sendHostname == "false":
	case !v6 && strings.Contains(f.hostname, "."):
		w.set("dhcp-fqdn", f.hostname)
	default:
		w.set("dhcp-hostname", f.hostname)
	}
}

// routing writes the routes and rules of an interface.
func (w *keyfileWriter) routing(l *link, v6 bool) {
	number := 0
	for _, r := range w.routes[l.name] {
		if r.destination.Addr().Is6() == v6 {
			number++
			key := "route" + strconv.Itoa(number)
			text, options := r.settings()
			w.set(key, text)
			w.set(key+"_options", options)
		}
	}
	number = 0
	for _, r := range w.rules[l] {
		if r.v6 == v6 {
			number++
			w.set("routing-rule"+strconv.Itoa(number), r.setting())
		}
	}
}

// resolver writes the name servers of a family. The family that is described first has the higher
// priority.
func (w *keyfileWriter) resolver(v6 bool) {
	dns := w.state.dns
	var servers []string
	for _, server := range ofFamily(dns.servers, v6) {
		servers = append(servers, server.String())
	}
	w.list("dns", servers)
	w.list("dns-search", dns.search)
	w.list("dns-options", dns.options)
	switch { // higher priority than servers from DHCP on other interfaces
	case len(servers) == 0:
	case dns.servers[0].Is6() == v6:
		w.set("dns-priority", "40")
	default:
		w.set("dns-priority", "50")
	}
}

func (f *family) method(v6 bool) string {
	switch {
	case !f.on():
		return "disabled"
	case f.dhcp && v6 && !f.autoconf:
		return "dhcp"
	case f.dhcp:
		return "auto"
	case len(f.addresses) > 0:
		return "manual"
	case v6:
		return "link-local"
	}
	return "disabled"
}

func opposite(truth string) string {
	switch truth {
	case "true":
		return "false"
	case "false":
		return "true"
	}
	return ""
}
