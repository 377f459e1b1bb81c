package ignition

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// bondModes are the names of the kernel's bond modes, by number
// (Documentation/networking/bonding.rst).
var bondModes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb",
	"balance-alb"}

// bondOption describes the valid values and modes of a bond option. NetworkManager ignores an
// option that is invalid in a mode, or rejects the whole connection.
type bondOption struct {
	from, to int64    // limits of a number; both are 0 for other options
	names    []string // names of the kernel's values 0, 1, …
	numbers  bool     // NetworkManager uses the numbers instead of the names
	modes    []string
	read     func(v value) string // reads other values
}

var (
	lacpModes    = []string{"802.3ad"}
	arpModes     = []string{"balance-rr", "active-backup", "balance-xor", "broadcast"}
	primaryModes = []string{"active-backup", "balance-tlb", "balance-alb"}
)

// bondOptions are the options in the kernel's documentation that all relevant releases of
// NetworkManager support.
var bondOptions = map[string]bondOption{
	"ad_actor_sys_prio": {from: 1, to: 65535, modes: lacpModes},
	"ad_actor_system":   {read: value.mac, modes: lacpModes},
	"ad_select":         {names: []string{"stable", "bandwidth", "count"}},
	"ad_user_port_key":  {from: 0, to: 1023, modes: lacpModes},
	"all_slaves_active": {names: []string{"dropped", "delivered"}, numbers: true},
	"arp_all_targets":   {names: []string{"any", "all"}},
	"arp_interval":      {from: 0, to: 1<<31 - 1, modes: arpModes},
	"arp_ip_target":     {read: readTargets, modes: arpModes},
	"arp_validate": {names: []string{"none", "active", "backup", "all", "filter", "filter_active",
		"filter_backup"}, modes: arpModes},
	"downdelay":         {from: 0, to: 1<<31 - 1},
	"fail_over_mac":     {names: []string{"none", "active", "follow"}},
	"lacp_rate":         {names: []string{"slow", "fast"}, modes: lacpModes},
	"lp_interval":       {from: 1, to: 1<<31 - 1},
	"miimon":            {from: 0, to: 1<<31 - 1},
	"min_links":         {from: 0, to: 1<<31 - 1},
	"num_grat_arp":      {from: 0, to: 255},
	"num_unsol_na":      {from: 0, to: 255},
	"packets_per_slave": {from: 0, to: 65535, modes: []string{"balance-rr"}},
	"primary":           {read: value.word, modes: primaryModes},
	"primary_reselect":  {names: []string{"always", "better", "failure"}},
	"resend_igmp":       {from: 0, to: 255},
	"tlb_dynamic_lb":    {names: []string{"0", "1"}, modes: []string{"balance-tlb", "balance-alb"}},
	"updelay":           {from: 0, to: 1<<31 - 1},
	"use_carrier":       {names: []string{"0", "1"}},
	"xmit_hash_policy":  {names: []string{"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"}},
}

// newBondOptions are options of newer releases of NetworkManager, which some live systems do not
// have.
var newBondOptions = []string{"arp_missed_max", "balance_slb", "lacp_active", "broadcast_neighbor", "coupled_control",
	"ns_ip6_target"}

func readTargets(v value) string {
	text := v.text()
	for target := range strings.SplitSeq(text, ",") {
		if a, err := netip.ParseAddr(target); err != nil || !a.Is4() {
			v.refuse("is %q; it must be a list of IPv4 addresses, separated by commas", text)
			return ""
		}
	}
	return text
}

func (l *link) readBond(v value) {
	var options value
	v.fields(bondKeys, func(name string, v value) bool {
		switch name {
		case "mode":
			mode := v.text()
			if number, err := strconv.Atoi(mode); err == nil && number >= 0 && number < len(bondModes) {
				mode = bondModes[number]
			}
			if l.bond.mode = mode; !slices.Contains(bondModes, mode) {
				v.refuse("is %q; the modes of a bond are %s", mode, strings.Join(bondModes, ", "))
			}
		case "port", "ports", "slaves":
			l.bond.ports = v.words()
		case "ports-config":
			v.each(l.readBondPort)
		case "options":
			options = v
		default:
			return false
		}
		return true
	})
	if options.node != nil && v.p.fault == nil && l.bond.mode != "" {
		l.readBondOptions(options)
	}
}

func (l *link) readBondPort(v value) {
	var name string
	queue := int64(0)
	v.fields(bondPortKeys, func(key string, v value) bool {
		switch key {
		case "name":
			name = v.word()
		case "queue-id":
			queue = v.number(0, 65535)
		case "priority": // only in newer releases of NetworkManager
			return v.number(-1<<31, 1<<31-1) == 0
		default:
			return false
		}
		return true
	})
	if queue > 0 {
		if l.bond.queues == nil {
			l.bond.queues = make(map[string]int64)
		}
		l.bond.queues[name] = queue
	}
}

func (l *link) readBondOptions(v value) {
	at := make(map[string]value)
	all := slices.AppendSeq(slices.Clone(newBondOptions), maps.Keys(bondOptions))
	v.fields(strings.Join(all, " "), func(name string, v value) bool {
		option, ok := bondOptions[name]
		if !ok {
			if strings.ContainsFunc(name, func(r rune) bool {
				return r != '_' && r != '-' && (r < 'a' || r > 'z') &&
					(r < '0' || r > '9')
			}) {
				v.refuse("is not a bond option")
			}
			return false
		}
		if option.modes != nil && !slices.Contains(option.modes, l.bond.mode) {
			v.refuse("is an option of the modes %s, but the mode of this bond is %s", strings.Join(option.modes, ", "),
				l.bond.mode)
		}
		l.bond.options = append(l.bond.options, setting{name, option.value(v)})
		at[name] = v
		return true
	})
	if v.p.fault == nil {
		l.checkBondOptions(at)
	}
}

// value returns an option in the spelling of NetworkManager: numbers of the kernel become names,
// except for options with numbers set.
func (o bondOption) value(v value) string {
	if o.read != nil {
		return o.read(v)
	}
	if len(o.names) == 0 {
		return strconv.FormatInt(v.number(o.from, o.to), 10)
	}
	text := v.text()
	if len(o.names) == 2 && v.node.Tag == "!!bool" {
		text = map[string]string{"true": "1", "false": "0"}[v.truth()]
	}
	if number, err := strconv.Atoi(text); err == nil && number >= 0 && number < len(o.names) {
		text = o.names[number]
	}
	if !slices.Contains(o.names, text) {
		v.refuse("is %q; it must be one of %s", text, strings.Join(o.names, ", "))
	}
	if o.numbers {
		return strconv.Itoa(slices.Index(o.names, text))
	}
	return text
}

func (l *link) option(name string) string {
	for _, option := range l.bond.options {
		if option.key == name {
			return option.value
		}
	}
	return ""
}

// checkBondOptions records a fault for options that conflict with each other.
func (l *link) checkBondOptions(at map[string]value) {
	set := func(name string) bool { return l.option(name) != "" && l.option(name) != "0" }
	switch {
	case set("miimon") && set("arp_interval"):
		at["arp_interval"].refuse("conflicts with miimon; a bond can use only one method of link monitoring")
	case set("arp_interval") && !set("arp_ip_target"):
		at["arp_interval"].refuse("needs arp_ip_target, the addresses to probe")
	case set("arp_ip_target") && !set("arp_interval"):
		at["arp_ip_target"].refuse("needs arp_interval, the interval of the probes in milliseconds")
	case set("num_grat_arp") && set("num_unsol_na") && l.option("num_grat_arp") != l.option("num_unsol_na"):
		at["num_unsol_na"].refuse("differs from num_grat_arp; the kernel has one value for both")
	}
	for _, name := range []string{"updelay", "downdelay"} {
		if set(name) && !set("miimon") {
			at[name].refuse("needs miimon, which enables link monitoring")
		}
	}
}

// bridgeNumbers contains the numeric options of a bridge: the key in a keyfile and the limits that
// NetworkManager enforces.
var bridgeNumbers = map[string]struct {
	key      string
	from, to int64
}{
	"group-forward-mask":                {"group-forward-mask", 0, 65535},
	"group-fwd-mask":                    {"group-forward-mask", 0, 65535},
	"hash-max":                          {"multicast-hash-max", 1, 1 << 31},
	"mac-ageing-time":                   {"ageing-time", 0, 1_000_000},
	"multicast-last-member-count":       {"multicast-last-member-count", 0, 1<<32 - 1},
	"multicast-last-member-interval":    {"multicast-last-member-interval", 0, 1<<63 - 1},
	"multicast-membership-interval":     {"multicast-membership-interval", 0, 1<<63 - 1},
	"multicast-querier-interval":        {"multicast-querier-interval", 0, 1<<63 - 1},
	"multicast-query-interval":          {"multicast-query-interval", 0, 1<<63 - 1},
	"multicast-query-response-interval": {"multicast-query-response-interval", 0, 1<<63 - 1},
	"multicast-startup-query-count":     {"multicast-startup-query-count", 0, 1<<32 - 1},
	"multicast-startup-query-interval":  {"multicast-startup-query-interval", 0, 1<<63 - 1},
	"vlan-default-pvid":                 {"vlan-default-pvid", 0, 4094},
}

// readBridge reads a Linux bridge. Other types of interfaces have a section with the same name.
func (l *link) readBridge(v value, kind *yaml.Node) bool {
	if kind == nil || kind.Value != "linux-bridge" {
		return false
	}
	v.fields(bridgeKeys, func(name string, v value) bool {
		switch name {
		case "options":
			v.fields(bridgeOptKeys, l.readBridgeOption)
		case "port", "ports":
			v.each(l.readBridgePort)
		default:
			return false
		}
		return true
	})
	return true
}

func (l *link) set(key, value string) {
	l.bridge.options = append(l.bridge.options, setting{key, value})
}

func (l *link) readBridgeOption(name string, v value) bool {
	if number, ok := bridgeNumbers[name]; ok {
		l.set(number.key, strconv.FormatInt(v.number(number.from, number.to), 10))
		return true
	}
	switch name {
	case "group-addr":
		l.set("group-address", v.mac())
	case "multicast-querier", "multicast-query-use-ifaddr", "multicast-snooping":
		l.set(name, v.truth())
	case "multicast-router":
		text := v.text()
		if i := slices.Index([]string{"0", "1", "2"}, text); i >= 0 {
			text = []string{"disabled", "auto", "enabled"}[i]
		}
		if !slices.Contains([]string{"disabled", "auto", "enabled"}, text) {
			v.refuse("is %q; it must be one of auto, disabled, enabled", text)
		}
		l.set(name, text)
	case "vlan-protocol":
		l.set(name, map[string]string{"802.1q": "802.1Q", "802.1ad": "802.1ad"}[v.oneOf("802.1q", "802.1ad")])
	case "gc-timer", "hello-timer": // counters of the kernel, which nmstate prints
	case "stp":
		l.readSTP(v)
	default:
		return false
	}
	return true
}

func (l *link) readSTP(v value) {
	bounds := map[string][2]int64{"forward-delay": {2, 30}, "hello-time": {1, 10}, "max-age": {6, 40},
		"priority": {0, 65535}}
	v.fields(stpKeys, func(name string, v value) bool {
		if name == "enabled" {
			l.set("stp", v.truth())
			return true
		}
		b, ok := bounds[name]
		if ok {
			l.set(name, strconv.FormatInt(v.number(b[0], b[1]), 10))
		}
		return ok
	})
}

func (l *link) readBridgePort(v value) {
	port := bridgePort{path: v.path}
	v.fields(portKeys, func(name string, v value) bool {
		switch name {
		case "name":
			port.name = v.word()
		case "stp-hairpin-mode":
			port.settings = append(port.settings, setting{"hairpin-mode", v.truth()})
		case "stp-path-cost":
			port.settings = append(port.settings, setting{"path-cost", strconv.FormatInt(v.number(1, 65535), 10)})
		case "stp-priority":
			port.settings = append(port.settings, setting{"priority", strconv.FormatInt(v.number(0, 63), 10)})
		case "vlan":
			if vlans := readPortVLANs(v); vlans != "" {
				l.bridge.filtering = true
				port.settings = append(port.settings, setting{"vlans", vlans})
			}
		default:
			return false
		}
		return true
	})
	if v.p.fault == nil && port.name == "" {
		v.refuse("needs the name of an interface")
	}
	l.bridge.ports = append(l.bridge.ports, port)
}

// readPortVLANs returns the VLANs of a bridge port in the form "101, 500-599, 100 pvid untagged".
func readPortVLANs(v value) string {
	var mode, native string
	tag := int64(-1)
	var trunk []string
	v.fields(portVLANKeys, func(name string, v value) bool {
		switch name {
		case "mode":
			mode = v.oneOf("access", "trunk")
		case "tag":
			tag = v.number(0, 4094)
		case "enable-native":
			native = v.truth()
		case "trunk-tags":
			v.each(func(v value) { trunk = append(trunk, readTrunkTag(v)) })
		default:
			return false
		}
		return true
	})
	switch {
	case v.p.fault != nil || v.empty():
		return ""
	case mode == "":
		v.refuse("needs the mode access or trunk")
	case mode == "access" && (tag < 1 || len(trunk) > 0 || native == "true"):
		v.refuse("is an access port: it needs one tag from 1 to 4094 and no trunk-tags or enable-native")
	case mode == "trunk" && len(trunk) == 0:
		v.refuse("is a trunk: it needs trunk-tags")
	case mode == "trunk" && (tag > 0) != (native == "true"):
		v.refuse("is a trunk: set both tag (the VLAN of untagged frames) and enable-native: true, or neither")
	}
	if tag > 0 {
		trunk = append(trunk, fmt.Sprintf("%d pvid untagged", tag))
	}
	return strings.Join(trunk, ", ")
}

func readTrunkTag(v value) string {
	var tags string
	v.fields("id id-range", func(name string, v value) bool {
		switch name {
		case "id":
			tags = strconv.FormatInt(v.number(1, 4094), 10)
		case "id-range":
			from, to := int64(0), int64(0)
			v.fields("min max", func(name string, v value) bool {
				switch name {
				case "min":
					from = v.number(1, 4094)
				case "max":
					to = v.number(1, 4094)
				default:
					return false
				}
				return true
			})
			if v.p.fault == nil && (from == 0 || to < from) {
				v.refuse("needs a min and a max, and max must not be less than min")
			}
			tags = fmt.Sprintf("%d-%d", from, to)
		default:
			return false
		}
		return true
	})
	if v.p.fault == nil && tags == "" {
		v.refuse("needs an id or an id-range with min and max")
	}
	return tags
}
