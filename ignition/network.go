package ignition

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coreos/ignition/v2/config/v3_1/types"
	"go.yaml.in/yaml/v3"
)

// HostNetwork is the network description of a machine: an element of static_network_config in the
// API.
type HostNetwork struct {
	// YAML is an nmstate state (interfaces, routes, dns-resolver, …). It may contain logical names
	// of NICs.
	YAML string
	// Interfaces maps logical names to NICs. The description applies to the machine that has one of
	// the NICs.
	Interfaces []NetworkInterface
}

// NetworkInterface maps the MAC address of a NIC to a logical name.
type NetworkInterface struct {
	MAC  string
	Name string
}

const (
	staticNetworkUnit = "static-network.service"
	staticNetworkPath = "/usr/local/bin/static-network"
	staticNetworkDir  = "/etc/assisted/network"
	systemConnections = "/etc/NetworkManager/system-connections/"
	// coreos-copy-firstboot-network.service of CoreOS copies files from this directory.
	firstbootNetwork    = "etc/coreos-firstboot-network/"
	initrdUnits         = "etc/systemd/system/"
	livePXERootfsDropIn = initrdUnits + "coreos-livepxe-rootfs.service.d/10-proxy.conf"
)

// The script that finds the settings of its machine, and the units that start it. It runs before
// NetworkManager for keyfiles, after NetworkManager for nmstate policies, and in the initial RAM
// file system.
var (
	//go:embed live/static-network
	staticNetworkScript string
	//go:embed live/static-network.service
	nmstateService string
	//go:embed live/static-network-keyfiles.service
	keyfilesService string
	//go:embed live/static-network-initrd.service
	initrdService string
)

// form is the form of the settings of a machine in the live system.
type form int

const (
	byMAC     form = iota + 1 // keyfiles in NetworkManager's directory that have no effect on other machines
	byScript                  // keyfiles in one directory per machine, from which a script copies
	byNmstate                 // nmstate policies in one directory per machine, for fields that keyfiles do not support
)

// networkPlan contains the settings of all machines of an infra-env, in the simplest form that
// supports all of them.
type networkPlan struct {
	form   form
	beyond *NetworkFault // reason why the form is not keyfiles
	hosts  []plannedHost
}

type plannedHost struct {
	HostNetwork
	nics  []NetworkInterface
	state *hostState
	// files are keyfiles without a prefix. beyond is the first field that keyfiles do not support.
	// If beyond is not nil, files is empty.
	files  []File
	beyond *NetworkFault
}

// planNetwork checks the descriptions and selects the form of the settings. Its error is the
// *[NetworkFault] of the first invalid host.
func planNetwork(hosts []HostNetwork, openshiftVersion string) (*networkPlan, error) {
	plan, faults := surveyNetwork(hosts, openshiftVersion, nil)
	for _, fault := range faults {
		if fault != nil {
			return nil, fault
		}
	}
	return plan, nil
}

// surveyNetwork checks the descriptions like planNetwork, but continues after a fault. It returns
// one fault or nil per host. Live systems of 4.18 and newer have the nmstate service that applies
// policies. Older live systems support only keyfiles.
func surveyNetwork(hosts []HostNetwork, openshiftVersion string, taken Claims) (*networkPlan, []*NetworkFault) {
	plan := &networkPlan{form: byMAC, hosts: make([]plannedHost, len(hosts))}
	faults := make([]*NetworkFault, len(hosts))
	eachHost(len(hosts), func(i int) { plan.hosts[i], faults[i] = planHost(hosts[i]) })
	owners := newOwners(taken)
	for i := range plan.hosts {
		host := &plan.hosts[i]
		beyond := host.beyond
		if faults[i] == nil {
			faults[i] = owners.take(i, host)
		}
		if faults[i] == nil && beyond != nil && older(openshiftVersion, 4, 18) {
			fault := *beyond
			fault.Problem += ", the only format that OpenShift " + openshiftVersion +
				" supports; leave out the field, or use 4.18 or newer"
			faults[i] = &fault
		}
		switch {
		case faults[i] != nil:
			faults[i].Host = i
		case beyond != nil && plan.form != byNmstate:
			beyond.Host = i
			plan.form, plan.beyond = byNmstate, beyond
		case beyond == nil && plan.form == byMAC && !host.state.byMAC():
			plan.form = byScript
		}
	}
	return plan, faults
}

// eachHost calls do for each host, in parallel on all cores, and returns when all calls have
// returned.
func eachHost(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}

// placeholderNIC is an interface in an unfinished description of the Assisted Installer's UI. The
// UI stores what its form has so far. Missing addresses are 0.0.0.0 or 0::0, of the interface
// DUMMY4 or DUMMY6 (openshift-assisted/assisted-installer-ui, staticIp/data/dummyData.ts).
var placeholderNIC = regexp.MustCompile(`(?m)^[ -]*name: DUMMY[46](\.\d+)?$`)

// isUnfinished reports whether the UI has not finished the description. Such a description is
// accepted, and has no effect on any machine.
func (h HostNetwork) isUnfinished() bool { return placeholderNIC.MatchString(h.YAML) }

// planHost reads the description of a host.
func planHost(host HostNetwork) (planned plannedHost, fault *NetworkFault) {
	planned.HostNetwork = host
	if host.isUnfinished() {
		planned.state = &hostState{}
		return planned, nil
	}
	if planned.nics, fault = host.nics(); fault != nil {
		return planned, fault
	}
	if planned.state, fault = parseState(host.YAML, planned.nics); fault != nil {
		return planned, fault
	}
	planned.files, planned.beyond = planned.state.keyfiles("", planned.nics)
	return planned, nil
}

// hostFiles returns the directories of all hosts, from which the script copies.
func (p *networkPlan) hostFiles(policies bool) ([]File, error) {
	perHost := make([][]File, len(p.hosts))
	failed := make([]error, len(p.hosts))
	eachHost(len(p.hosts), func(i int) {
		if !p.hosts[i].isUnfinished() {
			perHost[i], failed[i] = p.hosts[i].directory(i, policies)
		}
	})
	return slices.Concat(perHost...), errors.Join(failed...)
}

func (h *plannedHost) directory(i int, policies bool) ([]File, error) {
	dir := fmt.Sprintf("%s/host%d/", staticNetworkDir, i)
	files := []File{{Path: dir + "mac_interface.ini", Mode: 0o600, Data: macTable(h.nics)}}
	if policies {
		policy, err := nmPolicy(h.state.document, h.nics)
		if err != nil {
			return nil, fmt.Errorf("host %d: %w", i, err)
		}
		return append(files, File{Path: fmt.Sprintf("%symlFile%d.yml", dir, i), Mode: 0o600, Data: policy}), nil
	}
	for _, f := range h.files {
		f.Path = dir + f.Path
		files = append(files, f)
	}
	return files, nil
}

// connections returns the keyfiles of all machines, with unique names.
func (p *networkPlan) connections(dir string) ([]File, error) {
	var files []File
	for i, host := range p.hosts {
		connections, fault := host.state.keyfiles(fmt.Sprintf("host%d-", i), host.nics)
		if fault != nil {
			return nil, fault
		}
		for _, f := range connections {
			f.Path = dir + f.Path
			files = append(files, f)
		}
	}
	return files, nil
}

// staticNetwork adds the settings of machines without DHCP to the config of the live system.
func staticNetwork(config *types.Config, hosts []HostNetwork, openshiftVersion string) error {
	plan, err := planNetwork(hosts, openshiftVersion)
	if err != nil {
		return err
	}
	files := []File{{Path: staticNetworkPath, Mode: 0o755, Data: []byte(staticNetworkScript)}}
	var more []File
	switch plan.form {
	case byMAC:
		files = nil
		more, err = plan.connections(systemConnections)
	case byScript:
		config.Systemd.Units = append(config.Systemd.Units, enabledUnit(staticNetworkUnit, keyfilesService))
		more, err = plan.hostFiles(false)
	case byNmstate:
		config.Systemd.Units = append(config.Systemd.Units, enabledUnit(staticNetworkUnit, nmstateService))
		more, err = plan.hostFiles(true)
	}
	for _, f := range append(files, more...) {
		config.Storage.Files = append(config.Storage.Files, newFile(f.Path, f.Mode, f.Data))
	}
	return err
}

// InitrdNetworkError reports that the static network of a machine cannot be configured in the
// initial RAM file system, which supports only keyfiles. Minimal images need the network there to
// download the rest of the system.
type InitrdNetworkError struct {
	Fault *NetworkFault // field and host that keyfiles do not support
}

func (e *InitrdNetworkError) Error() string {
	return "static network: " + e.Fault.Error() +
		", the only format that a minimal image supports; use the image type full-iso, or leave out the field"
}

// InitrdFiles returns the files that minimal images and network boot add to the initial RAM file
// system: the static network, and the proxy for downloading the rest of the live system. Paths are
// relative to the root. With an *InitrdNetworkError, InitrdFiles returns the other files.
func InitrdFiles(c DiscoveryConfig) ([]File, error) {
	var files []File
	if env := c.Proxy.bypass(c.ServiceURL).environment(); len(env) > 0 {
		var unit strings.Builder
		unit.WriteString("[Service]\n")
		for _, v := range env {
			fmt.Fprintf(&unit, "Environment=%s\n", unitAssignment(v))
		}
		files = append(files, File{Path: livePXERootfsDropIn, Mode: 0o644, Data: []byte(unit.String())})
	}
	if len(c.StaticNetwork) == 0 {
		return files, nil
	}
	plan, err := planNetwork(c.StaticNetwork, c.OpenshiftVersion)
	if err != nil {
		return nil, fmt.Errorf("static network: %w", err)
	}
	var network []File
	switch plan.form {
	case byNmstate:
		return files, &InitrdNetworkError{Fault: plan.beyond}
	case byMAC:
		network, err = plan.connections(firstbootNetwork)
	case byScript:
		network, err = plan.hostFiles(false)
		network = append(network,
			File{Path: staticNetworkPath, Mode: 0o755, Data: []byte(staticNetworkScript)},
			File{Path: initrdUnits + staticNetworkUnit, Mode: 0o644, Data: []byte(initrdService)},
			// The drop-in has the same effect as a link in initrd.target.wants.
			File{Path: initrdUnits + "initrd.target.d/static-network.conf", Mode: 0o644,
				Data: []byte("[Unit]\nWants=" + staticNetworkUnit + "\n")},
		)
	}
	for i := range network {
		network[i].Path = strings.TrimPrefix(network[i].Path, "/")
	}
	return append(files, network...), err
}

// NetworkFiles returns the static network of machines in the layout of the Assisted Installer: one
// directory per machine under etc/assisted/network. The directory contains the machine's MAC
// addresses, and its nmstate policy (OpenShift 4.18 and newer) or its keyfiles.
func NetworkFiles(hosts []HostNetwork, openshiftVersion string) ([]File, error) {
	plan, err := planNetwork(hosts, openshiftVersion)
	if err != nil {
		return nil, fmt.Errorf("static network: %w", err)
	}
	files, err := plan.hostFiles(!older(openshiftVersion, 4, 18))
	for i := range files {
		files[i].Path = strings.TrimPrefix(files[i].Path, "/")
	}
	return files, err
}

// nics returns the checked interfaces, with MAC addresses in upper case.
func (h HostNetwork) nics() ([]NetworkInterface, *NetworkFault) {
	refuse := func(format string, args ...any) ([]NetworkInterface, *NetworkFault) {
		return nil, &NetworkFault{Problem: fmt.Sprintf(format, args...)}
	}
	if len(h.Interfaces) == 0 {
		return refuse("no NIC has a MAC address, so the machine cannot be identified")
	}
	if len(h.Interfaces) > nicLimit {
		return refuse("%d NICs have a logical name; the maximum per host is %d", len(h.Interfaces), nicLimit)
	}
	nics := make([]NetworkInterface, 0, len(h.Interfaces))
	for _, in := range h.Interfaces {
		mac, err := net.ParseMAC(in.MAC)
		if err != nil || len(mac) != 6 {
			return refuse("the MAC address %q of %q must look like 52:54:00:12:34:56", in.MAC, in.Name)
		}
		nic := NetworkInterface{MAC: strings.ToUpper(mac.String()), Name: in.Name}
		if in.Name == "" || strings.ContainsAny(in.Name, " \t\r\n=/") {
			return refuse("the logical name %q of %s must be a name of an interface in the YAML", in.Name, nic.MAC)
		}
		for _, other := range nics {
			switch {
			case other.MAC == nic.MAC:
				return refuse("the MAC address %s is given twice, for %q and %q", nic.MAC, other.Name, nic.Name)
			case other.Name == nic.Name:
				return refuse("the logical name %q is given twice, for %s and %s", nic.Name, other.MAC, nic.MAC)
			}
		}
		nics = append(nics, nic)
	}
	return nics, nil
}

// macTable returns mac_interface.ini for the script on the host: sorted lines of the form MAC=name.
func macTable(nics []NetworkInterface) []byte {
	var lines []string
	for _, c := range nics {
		lines = append(lines, c.MAC+"="+c.Name+"\n")
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}

// nmPolicy returns a state with logical names as an nmstate policy: each NIC is captured by its MAC
// address, and the state refers to the capture. nmPolicy modifies the given state. Format:
// https://nmstate.io/features/nmpolicy.html
func nmPolicy(desired *yaml.Node, nics []NetworkInterface) ([]byte, error) {
	for _, in := range field(desired, "interfaces").Content {
		setDefault(field(in, "ipv4"), "dhcp")
		setDefault(field(in, "ipv6"), "dhcp", "autoconf")
	}
	captures := map[string]string{}
	capture := &yaml.Node{Kind: yaml.MappingNode}
	for i, c := range nics {
		id := fmt.Sprintf("iface%d", i)
		captures[c.Name] = fmt.Sprintf("{{ capture.%s.interfaces.0.name }}", id)
		appendField(capture, id, &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprintf("interfaces.mac-address == %q",
			c.MAC)})
	}
	rename(desired, "", captures)
	policy := &yaml.Node{Kind: yaml.MappingNode}
	appendField(policy, "capture", capture)
	appendField(policy, "desiredState", desired)
	out, err := yaml.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("write the network policy: %w", err)
	}
	return out, nil
}

// rename replaces logical names by captures in all fields of an nmstate state that contain
// interface names.
func rename(n *yaml.Node, key string, captures map[string]string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			rename(n.Content[i+1], n.Content[i].Value, captures)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			rename(item, key, captures)
		}
	case yaml.ScalarNode:
		switch key {
		case "name", "base-iface", "next-hop-interface", "port", "ports", "slaves", "controller", "iif",
			"copy-mac-from", "primary":
			if to, ok := captures[n.Value]; ok {
				n.Value, n.Tag, n.Style = to, "!!str", yaml.DoubleQuotedStyle
			}
		}
	}
}

// setDefault adds name: false to an address family without that field. Otherwise nmstate would keep
// the setting of the live system.
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

// older reports whether an OpenShift version such as "4.17" or "4.17.3-rc.1" is older than
// major.minor. An empty or unknown version is treated as current.
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
