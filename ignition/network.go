package ignition

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_1/types"
	"go.yaml.in/yaml/v3"
)

// HostNetwork is the network of one machine, as the API's static_network_config has it.
type HostNetwork struct {
	// YAML is an nmstate state (interfaces, routes, dns-resolver, …) that may call network cards by logical names.
	YAML string
	// Interfaces says which card each logical name means. One of them present makes a machine this one.
	Interfaces []NetworkInterface
}

// NetworkInterface names a network card by its MAC address.
type NetworkInterface struct {
	MAC  string
	Name string
}

const (
	staticNetworkUnit = "static-network.service"
	staticNetworkDir  = "/etc/assisted/network"
)

var (
	//go:embed live/static-network.service
	staticNetworkService string
	//go:embed live/static-network
	staticNetworkScript string
)

// staticNetworkFiles writes, for each machine, its nmstate policy and the table of its MAC addresses, beside the script
// that picks the right one on the host. Live systems from 4.18 on have the nmstate service that applies policies.
func staticNetworkFiles(hosts []HostNetwork, openshiftVersion string) ([]types.File, error) {
	if older(openshiftVersion, 4, 18) {
		return nil, fmt.Errorf("OpenShift %s needs NetworkManager keyfiles, which are not supported yet; "+
			"use DHCP or OpenShift 4.18 or newer", openshiftVersion)
	}
	files := []types.File{newFile("/usr/local/bin/static-network", 0o755, []byte(staticNetworkScript))}
	owner := map[string]int{}
	for i, host := range hosts {
		cards, err := host.cards()
		if err != nil {
			return nil, fmt.Errorf("host %d: %w", i, err)
		}
		for _, c := range cards {
			if first, taken := owner[c.MAC]; taken {
				return nil, fmt.Errorf("host %d: the MAC address %s belongs to host %d already", i, c.MAC, first)
			}
			owner[c.MAC] = i
		}
		policy, err := nmPolicy(host.YAML, cards)
		if err != nil {
			return nil, fmt.Errorf("host %d: %w", i, err)
		}
		dir := fmt.Sprintf("%s/host%d/", staticNetworkDir, i)
		files = append(files, newFile(dir+"mac_interface.ini", 0o600, macTable(cards)),
			newFile(fmt.Sprintf("%symlFile%d.yml", dir, i), 0o600, policy))
	}
	return files, nil
}

// cards returns the interfaces with their MAC addresses in upper case, checked.
func (h HostNetwork) cards() ([]NetworkInterface, error) {
	if len(h.Interfaces) == 0 {
		return nil, errors.New("no network card is named by its MAC address, so no machine can be told to be this one")
	}
	cards := make([]NetworkInterface, 0, len(h.Interfaces))
	for _, in := range h.Interfaces {
		mac, err := net.ParseMAC(in.MAC)
		if err != nil || len(mac) != 6 {
			return nil, fmt.Errorf("the MAC address %q of %q must look like 52:54:00:12:34:56", in.MAC, in.Name)
		}
		card := NetworkInterface{MAC: strings.ToUpper(mac.String()), Name: in.Name}
		if in.Name == "" || strings.ContainsAny(in.Name, " \t\r\n=/") {
			return nil, fmt.Errorf("the logical name %q of %s must be a name of an interface in the YAML", in.Name, card.MAC)
		}
		for _, other := range cards {
			switch {
			case other.MAC == card.MAC:
				return nil, fmt.Errorf("the MAC address %s is given twice, for %q and %q", card.MAC, other.Name, card.Name)
			case other.Name == card.Name:
				return nil, fmt.Errorf("the logical name %q is given twice, for %s and %s", card.Name, other.MAC, card.MAC)
			}
		}
		cards = append(cards, card)
	}
	return cards, nil
}

// macTable is the mac_interface.ini that the script on the host reads: MAC=name lines, sorted.
func macTable(cards []NetworkInterface) []byte {
	var lines []string
	for _, c := range cards {
		lines = append(lines, c.MAC+"="+c.Name+"\n")
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}

// nmPolicy turns a state with logical names into an nmstate policy: each card is captured by its MAC address, and the
// state names what was captured. Format: https://nmstate.io/features/nmpolicy.html
func nmPolicy(state string, cards []NetworkInterface) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(state), &doc); err != nil {
		return nil, fmt.Errorf("the network YAML can't be read: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the network YAML must be a mapping with a list of interfaces")
	}
	desired := doc.Content[0]
	interfaces := field(desired, "interfaces")
	if interfaces == nil || interfaces.Kind != yaml.SequenceNode || len(interfaces.Content) == 0 {
		return nil, errors.New("the network YAML has no list of interfaces")
	}
	for _, in := range interfaces.Content {
		if in.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("the network YAML, line %d: an interface must be a mapping", in.Line)
		}
		setDefault(field(in, "ipv4"), "dhcp")
		setDefault(field(in, "ipv6"), "dhcp", "autoconf")
	}
	captures := map[string]string{}
	capture := &yaml.Node{Kind: yaml.MappingNode}
	for i, c := range cards {
		id := fmt.Sprintf("iface%d", i)
		captures[c.Name] = fmt.Sprintf("{{ capture.%s.interfaces.0.name }}", id)
		appendField(capture, id, &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprintf("interfaces.mac-address == %q", c.MAC)})
	}
	used := map[string]bool{}
	rename(desired, "", captures, used)
	for _, c := range cards {
		if !used[c.Name] {
			return nil, fmt.Errorf("the network YAML has no interface %q, which %s is named", c.Name, c.MAC)
		}
	}
	policy := &yaml.Node{Kind: yaml.MappingNode}
	appendField(policy, "capture", capture)
	appendField(policy, "desiredState", desired)
	out, err := yaml.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("write the network policy: %w", err)
	}
	return out, nil
}

// rename replaces logical names by what was captured, in the fields of an nmstate state that hold interface names.
func rename(n *yaml.Node, key string, captures map[string]string, used map[string]bool) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			rename(n.Content[i+1], n.Content[i].Value, captures, used)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			rename(item, key, captures, used)
		}
	case yaml.ScalarNode:
		switch key {
		case "name", "base-iface", "next-hop-interface", "port", "ports", "slaves", "controller", "iif", "copy-mac-from":
			if to, ok := captures[n.Value]; ok {
				used[n.Value] = true
				n.Value, n.Tag, n.Style = to, "!!str", yaml.DoubleQuotedStyle
			}
		}
	}
}

func field(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// setDefault adds name: false to an address family that leaves it out: nmstate would keep what the live system has.
func setDefault(family *yaml.Node, names ...string) {
	if family == nil || family.Kind != yaml.MappingNode {
		return
	}
	for _, name := range names {
		if field(family, name) == nil {
			appendField(family, name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false"})
		}
	}
}

func appendField(n *yaml.Node, name string, value *yaml.Node) {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
}

// older tells whether an OpenShift version such as "4.17" or "4.17.3-rc.1" lies before major.minor; an empty or odd one
// counts as current.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	maj, err1 := strconv.Atoi(parts[0])
	mnr, err2 := strconv.Atoi(strings.SplitN(parts[1], "-", 2)[0])
	if err1 != nil || err2 != nil {
		return false
	}
	return maj < major || (maj == major && mnr < minor)
}
