package ignition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// keyfileSpace is the name space of the UUIDs of connections: equal descriptions get equal ones.
const keyfileSpace = "f1c2ab2e-5d0c-5a0e-9a39-6a8a5c4d2f10"

// keyfiles writes a host's description as connections of NetworkManager, one file an interface. Cards are recognised by
// their MAC addresses, so the files are inert on other machines where [hostState.byMAC] holds. It fails if the description
// has what keyfiles can't say. Format: https://networkmanager.dev/docs/api/latest/nm-settings-keyfile.html
func (s *hostState) keyfiles(prefix string, cards []NetworkInterface) ([]File, error) {
	if s.beyond != "" {
		return nil, fmt.Errorf("%s can't be said in NetworkManager's keyfiles", s.beyond)
	}
	names := s.resolverLinks()
	if s.beyond != "" {
		return nil, fmt.Errorf("%s can't be said in NetworkManager's keyfiles, for no interface has addresses of its kind", s.beyond)
	}
	w := &keyfileWriter{state: s, host: string(macTable(cards)), cards: cards, resolvers: names}
	var files []File
	for _, l := range s.interfaces {
		files = append(files, File{Path: prefix + l.name + ".nmconnection", Mode: 0o600, Data: w.connection(prefix, l)})
	}
	return files, nil
}

// resolverLinks says which interface gets the name servers of which family.
func (s *hostState) resolverLinks() map[bool]*link {
	chosen := make(map[bool]*link)
	for _, v6 := range []bool{false, true} {
		servers := ofFamily(s.dns.servers, v6)
		l := s.resolverLink(v6)
		switch {
		case l == nil && len(servers) > 0:
			s.beyond = s.dns.path + ".server " + servers[0].String()
		case l != nil && (len(servers) > 0 || len(s.dns.servers) == 0):
			chosen[v6] = l
		}
	}
	if chosen[true] == nil && chosen[false] == nil && len(s.dns.search)+len(s.dns.options) > 0 {
		s.beyond = s.dns.path + ".search"
	}
	return chosen
}

type keyfileWriter struct {
	state     *hostState
	host      string // tells hosts apart
	cards     []NetworkInterface
	resolvers map[bool]*link
	text      strings.Builder
}

func (w *keyfileWriter) uuid(l *link) string {
	return uuid.NewSHA1(uuid.MustParse(keyfileSpace), []byte(w.host+"\x00"+l.name)).String()
}

func (w *keyfileWriter) section(name string) {
	if w.text.Len() > 0 {
		w.text.WriteByte('\n')
	}
	fmt.Fprintf(&w.text, "[%s]\n", name)
}

// set writes a key unless its value is "".
func (w *keyfileWriter) set(key, value string) {
	if value == "" {
		return
	}
	value = strings.ReplaceAll(value, `\`, `\\`)
	if strings.HasPrefix(value, " ") {
		value = `\s` + value[1:]
	}
	fmt.Fprintf(&w.text, "%s=%s\n", key, value)
}

func (w *keyfileWriter) list(key string, values []string) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(&w.text, "%s=", key)
	for _, value := range values {
		w.text.WriteString(strings.NewReplacer(`\`, `\\`, ";", `\;`).Replace(value) + ";")
	}
	w.text.WriteByte('\n')
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

func (w *keyfileWriter) connection(prefix string, l *link) []byte {
	w.text.Reset()
	w.section("connection")
	w.set("id", orElse(l.profile, prefix+l.name))
	w.set("uuid", w.uuid(l))
	w.set("type", l.kind)
	if l.kind != "ethernet" || l.mac == "" {
		w.set("interface-name", l.name)
	}
	w.set("autoconnect", "true")
	w.set("autoconnect-priority", "1")
	if l.lldp != "" {
		w.set("lldp", map[string]string{"true": "1", "false": "0"}[l.lldp])
	}
	if l.controller != nil {
		w.set("master", w.uuid(l.controller)) // the older spelling of controller, which all releases read
		w.set("slave-type", "bond")
	}
	if l.kind == "bond" {
		w.set("autoconnect-slaves", "1")
	}
	w.ethernet(l)
	w.bond(l)
	w.vlan(l)
	if l.controller == nil {
		w.family(l, false)
		w.family(l, true)
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
	if l.kind == "vlan" && w.base(l) == nil {
		mac = w.card(l.base)
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
	w.set("mode", l.mode)
	options := slices.Clone(l.options)
	slices.SortFunc(options, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	for _, option := range options {
		w.set(option[0], option[1])
	}
}

// base is the interface of this description that a VLAN lies on, or nil when that is a card which it says no more of.
func (w *keyfileWriter) base(l *link) *link {
	for _, base := range w.state.interfaces {
		if base.name == l.base {
			return base
		}
	}
	return nil
}

func (w *keyfileWriter) card(name string) string {
	for _, card := range w.cards {
		if card.Name == name {
			return card.MAC
		}
	}
	return ""
}

// vlan names the interface below by the UUID of its connection; a card that has none by its MAC address, which stands in
// the section [ethernet] then, or by its name.
func (w *keyfileWriter) vlan(l *link) {
	if l.kind != "vlan" {
		return
	}
	w.section("vlan")
	w.set("flags", "1") // reorder headers, as is the default
	w.set("id", strconv.FormatInt(l.id, 10))
	if base := w.base(l); base != nil {
		w.set("parent", w.uuid(base))
	} else if w.card(l.base) == "" {
		w.set("parent", l.base)
	}
}

func (w *keyfileWriter) family(l *link, v6 bool) {
	f := l.family(v6)
	w.section(strings.ToLower(familyName(v6)))
	w.set("method", f.method(v6))
	if !f.on() {
		return
	}
	for i, address := range f.addresses {
		w.set("address"+strconv.Itoa(i+1), address.String())
	}
	number := 0
	for _, r := range w.state.routes {
		if r.via == l.name && r.destination.Addr().Is6() == v6 {
			number++
			w.route(number, r, v6)
		}
	}
	w.set("route-table", positive(f.table))
	w.set("route-metric", given(f.metric))
	w.set("ignore-auto-dns", opposite(f.autoDNS))
	w.set("ignore-auto-routes", opposite(f.autoRoutes))
	w.set("never-default", opposite(f.autoGateway))
	w.set("dhcp-client-id", clientID(f.clientID))
	w.set("dhcp-duid", f.duid)
	w.set("dhcp-send-hostname", f.sendHostname)
	w.set("dhcp-hostname", f.hostname)
	if v6 {
		w.set("addr-gen-mode", orElse(f.genMode, "eui64"))
	}
	if l.waitIP == "ipv4+ipv6" || l.waitIP == strings.ToLower(familyName(v6)) {
		w.set("may-fail", "false")
	}
	if w.resolvers[v6] == l {
		var servers []string
		for _, server := range ofFamily(w.state.dns.servers, v6) {
			servers = append(servers, server.String())
		}
		w.list("dns", servers)
		w.list("dns-search", w.state.dns.search)
		w.list("dns-options", w.state.dns.options)
		if len(servers) > 0 {
			w.set("dns-priority", "40") // before what DHCP offers on other interfaces
		}
	}
}

func (w *keyfileWriter) route(number int, r route, v6 bool) {
	gateway := "0.0.0.0"
	if v6 {
		gateway = "::"
	}
	if r.gateway.IsValid() {
		gateway = r.gateway.String()
	}
	text := r.destination.Masked().String() + "," + gateway
	if r.metric >= 0 {
		text += "," + strconv.FormatInt(r.metric, 10)
	}
	key := "route" + strconv.Itoa(number)
	w.set(key, text)
	var options []string
	if r.source.IsValid() {
		options = append(options, "src="+r.source.String())
	}
	if r.table > 0 && r.table != mainTable {
		options = append(options, "table="+strconv.FormatInt(r.table, 10))
	}
	w.set(key+"_options", strings.Join(options, ","))
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

// clientID turns nmstate's names for kinds of DHCP client ids into NetworkManager's.
func clientID(id string) string {
	switch id {
	case "ll":
		return "mac"
	case "iaid+duid":
		return "duid"
	}
	return id
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
