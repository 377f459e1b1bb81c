package installer

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// problems contains errors in an install-config, in the format of Kubernetes' field errors.
type problems []string

func (p problems) Error() string {
	if len(p) == 1 {
		return p[0]
	}
	return "[" + strings.Join(p, ", ") + "]"
}

func (p *problems) invalid(field string, value any, why string) {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte("?")
	}
	*p = append(*p, fmt.Sprintf("%s: Invalid value: %s: %s", field, text, why))
}

func (p *problems) required(field, why string) {
	*p = append(*p, fmt.Sprintf("%s: Required value: %s", field, why))
}

func (p *problems) duplicate(field, value string) {
	*p = append(*p, fmt.Sprintf("%s: Duplicate value: %q", field, value))
}

var (
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	dnsDomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

func (c *installConfig) validate(version release) problems {
	var p problems
	if !dnsLabel.MatchString(c.Metadata.Name) {
		p.invalid("metadata.name", c.Metadata.Name,
			"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "+
				"and end with an alphanumeric character")
	}
	if !dnsDomain.MatchString(c.BaseDomain) || len(c.BaseDomain) > 253 {
		p.invalid("baseDomain", c.BaseDomain,
			"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'")
	}
	c.checkSecrets(&p)
	networks := c.checkNetworks(&p)
	c.checkPools(&p)
	c.checkControlPlane(&p, version)
	c.checkPlatform(&p, networks)
	c.checkMirrors(&p)
	c.checkTrust(&p)
	c.checkProxy(&p)
	c.checkCapabilities(&p)
	return p
}

// validateTarget checks the requirements of one of the two ignition commands.
func (c *installConfig) validateTarget(singleNode bool) error {
	var p problems
	switch {
	case !singleNode:
		return nil
	case c.BootstrapInPlace == nil || c.BootstrapInPlace.InstallationDisk == "":
		p.required("bootstrapInPlace.installationDisk",
			"installationDisk must be set the target disk drive for the installation")
	case c.ControlPlane.count() != 1:
		p.invalid("controlPlane.replicas", c.ControlPlane.count(),
			"bootstrapInPlace requires a single control plane replica")
	case c.computeCount() != 0:
		p.invalid("compute[0].replicas", c.computeCount(), "bootstrapInPlace requires zero compute replicas")
	}
	if len(p) > 0 {
		return p
	}
	return nil
}

func (c *installConfig) checkSecrets(p *problems) {
	var secret struct {
		Auths map[string]struct {
			Auth      string `json:"auth"`
			CredsHelp string `json:"credHelper"`
		} `json:"auths"`
	}
	switch err := json.Unmarshal([]byte(c.PullSecret), &secret); {
	case c.PullSecret == "":
		p.required("pullSecret", "must have a pull secret")
	case err != nil:
		p.invalid("pullSecret", "<hidden>", err.Error())
	case len(secret.Auths) == 0:
		p.invalid("pullSecret", "<hidden>", "auths required")
	}
	for registry, entry := range secret.Auths {
		if entry.Auth == "" && entry.CredsHelp == "" {
			p.invalid("pullSecret", "<hidden>", fmt.Sprintf("%q requires either auth or credsStore", registry))
		}
	}
	for line := range strings.Lines(c.SSHKey) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 2 || !isBase64(fields[1]) {
			p.invalid("sshKey", c.SSHKey, "ssh: no key found")
			break
		}
	}
}

func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}

// namedPrefix is a network of the install-config with its field.
type namedPrefix struct {
	field  string
	prefix netip.Prefix
}

// checkNetworks checks the networks and returns the valid machine networks.
func (c *installConfig) checkNetworks(p *problems) []netip.Prefix {
	n := c.Networking
	if n.NetworkType == "OpenShiftSDN" {
		p.invalid("networking.networkType", n.NetworkType,
			"networkType OpenShiftSDN is not supported, please use OVNKubernetes")
	}
	var all []namedPrefix
	families := map[string][2]int{}
	add := func(kind, field, text string) (netip.Prefix, bool) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			p.invalid(field, text, "invalid CIDR address: "+text)
			return prefix, false
		}
		if prefix.Masked() != prefix {
			p.invalid(field, text, fmt.Sprintf("invalid network address. got %s, expecting %s", prefix,
				prefix.Masked()))
			return prefix, false
		}
		all = append(all, namedPrefix{field, prefix})
		count := families[kind]
		count[familyOf(prefix.Addr())]++
		families[kind] = count
		return prefix, true
	}
	var machines []netip.Prefix
	for i, m := range n.MachineNetwork {
		if prefix, ok := add("machine", fmt.Sprintf("networking.machineNetwork[%d]", i), m.CIDR); ok {
			machines = append(machines, prefix)
		}
	}
	for i, s := range n.ServiceNetwork {
		add("service", fmt.Sprintf("networking.serviceNetwork[%d]", i), s)
	}
	for i, cn := range n.ClusterNetwork {
		field := fmt.Sprintf("networking.clusterNetwork[%d]", i)
		if prefix, ok := add("cluster", field+".cidr", cn.CIDR); ok {
			checkHostPrefix(p, field+".hostPrefix", prefix, cn.HostPrefix)
		}
	}
	checkOverlaps(p, all)
	if len(n.ServiceNetwork) == 0 {
		p.required("networking.serviceNetwork", "a service network is required")
	}
	if len(n.ClusterNetwork) == 0 {
		p.required("networking.clusterNetwork", "cluster network required")
	}
	checkFamilies(p, families)
	return machines
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

func checkHostPrefix(p *problems, field string, prefix netip.Prefix, host int) {
	switch {
	case prefix.Addr().Is6() && host != 64:
		p.invalid(field, host, "cluster network host subnetwork prefix must be 64 for IPv6 networks")
	case host < prefix.Bits():
		p.invalid(field, host, "cluster network host subnetwork prefix must not be larger size than CIDR "+
			prefix.String())
	case prefix.Addr().Is4() && host > 32:
		p.invalid(field, host, "cluster network host subnetwork prefix must be at most 32")
	}
}

func checkOverlaps(p *problems, all []namedPrefix) {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.prefix.Overlaps(b.prefix) {
				p.invalid(a.field, a.prefix.String(), fmt.Sprintf("must not overlap with %s %s", b.field, b.prefix))
			}
		}
	}
}

// checkFamilies checks that the lists agree on IPv4, IPv6 or both.
func checkFamilies(p *problems, families map[string][2]int) {
	dual := false
	for _, count := range families {
		dual = dual || count[0] > 0 && count[1] > 0
	}
	for _, kind := range []string{"machine", "service", "cluster"} {
		count := families[kind]
		if count[0]+count[1] == 0 {
			continue
		}
		if dual && (count[0] == 0 || count[1] == 0) {
			p.invalid("networking", kind+"Network", "dual-stack IPv4/IPv6 requires a "+kind+
				" network of each address family")
		}
		if kind == "service" && (count[0] > 1 || count[1] > 1) {
			p.invalid("networking.serviceNetwork", count[0]+count[1],
				"only one service network can be specified for each address family")
		}
	}
}

func (c *installConfig) checkPools(p *problems) {
	switch {
	case c.ControlPlane == nil:
		p.required("controlPlane", "controlPlane is required")
	case c.ControlPlane.Name != "master":
		p.invalid("controlPlane.name", c.ControlPlane.Name, `supported values: "master"`)
	case c.ControlPlane.count() < 1:
		p.invalid("controlPlane.replicas", c.ControlPlane.count(), "number of control plane replicas must be positive")
	}
	for i := range c.Compute {
		pool := &c.Compute[i]
		if pool.Name != "worker" {
			p.invalid(fmt.Sprintf("compute[%d].name", i), pool.Name, `supported values: "worker"`)
		}
		if pool.count() < 0 {
			p.invalid(fmt.Sprintf("compute[%d].replicas", i), pool.count(),
				"number of compute replicas must not be negative")
		}
	}
}

func (c *installConfig) checkPlatform(p *problems, machines []netip.Prefix) {
	chosen := 0
	for _, is := range []bool{c.Platform.BareMetal != nil, c.Platform.None != nil, c.Platform.External != nil,
		c.Platform.VSphere != nil, c.Platform.Nutanix != nil} {
		if is {
			chosen++
		}
	}
	if chosen != 1 {
		p.invalid("platform", chosen, "must specify one of the platforms (baremetal, external, none, nutanix, vsphere)")
		return
	}
	switch {
	case c.Platform.External != nil:
		c.Platform.External.check(p)
	case c.Platform.VSphere != nil:
		c.Platform.VSphere.check(p)
	case c.Platform.Nutanix != nil:
		c.Platform.Nutanix.check(p)
	}
	b := c.Platform.BareMetal
	if b == nil {
		return
	}
	if len(machines) == 0 {
		p.required("networking.machineNetwork", "at least one machine network is required")
	}
	if !slices.Contains([]string{"", "Managed", "Unmanaged", "Disabled"}, b.ProvisioningNetwork) {
		p.invalid("platform.baremetal.provisioningNetwork", b.ProvisioningNetwork,
			`supported values: "Disabled", "Managed", "Unmanaged"`)
	}
	b.checkVIPs(p, machines)
	b.checkHosts(p, c)
}

func (b *configBareMetal) checkVIPs(p *problems, machines []netip.Prefix) {
	for _, list := range []struct {
		field, what string
		vips        []string
	}{{"platform.baremetal.apiVIPs", "API", b.apiVIPs()}, {"platform.baremetal.ingressVIPs", "Ingress",
		b.ingressVIPs()}} {
		if len(list.vips) == 0 {
			p.required(list.field, "must specify at least one VIP for the "+list.what)
		}
		for _, text := range list.vips {
			vip, err := netip.ParseAddr(text)
			if err != nil {
				p.invalid(list.field, text, fmt.Sprintf("%q is not a valid IP", text))
				continue
			}
			if !b.userManaged() && !slices.ContainsFunc(machines,
				func(m netip.Prefix) bool { return m.Contains(vip) }) {
				p.invalid(list.field, text, "IP expected to be in one of the machine networks: "+joinPrefixes(machines))
			}
		}
	}
	for _, vip := range b.apiVIPs() {
		if slices.Contains(b.ingressVIPs(), vip) && !b.userManaged() {
			p.invalid("platform.baremetal.apiVIPs", vip, "VIP for API must not be one of the Ingress VIPs")
		}
	}
}

func joinPrefixes(all []netip.Prefix) string {
	texts := make([]string, len(all))
	for i, prefix := range all {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ",")
}

func (b *configBareMetal) checkHosts(p *problems, c *installConfig) {
	names, macs := map[string]bool{}, map[string]bool{}
	masters, workers := 0, 0
	for i, h := range b.Hosts {
		field := fmt.Sprintf("platform.baremetal.hosts[%d]", i)
		if h.Name == "" {
			p.required(field+".name", "missing Name")
		} else if names[h.Name] {
			p.duplicate(field+".name", h.Name)
		}
		names[h.Name] = true
		mac, err := net.ParseMAC(h.BootMACAddress)
		switch {
		case h.BootMACAddress == "":
			p.required(field+".bootMACAddress", "missing BootMACAddress")
		case err != nil:
			p.invalid(field+".bootMACAddress", h.BootMACAddress, err.Error())
		case macs[mac.String()]:
			p.duplicate(field+".bootMACAddress", h.BootMACAddress)
		}
		macs[mac.String()] = true
		if !slices.Contains([]string{"", "UEFI", "UEFISecureBoot", "legacy"}, h.BootMode) {
			p.invalid(field+".bootMode", h.BootMode, `supported values: "UEFI", "UEFISecureBoot", "legacy"`)
		}
		switch h.Role {
		case "master":
			masters++
		case "worker":
			workers++
		}
	}
	unassigned := len(b.Hosts) - masters - workers
	if want := c.ControlPlane.count(); masters+unassigned < want {
		p.required("platform.baremetal.hosts",
			fmt.Sprintf("not enough hosts found (%d) to support all the configured ControlPlane replicas (%d)",
				masters+unassigned, want))
	} else if rest := unassigned - max(0, want-masters); workers+rest < c.computeCount() {
		p.required("platform.baremetal.hosts",
			fmt.Sprintf("not enough hosts found (%d) to support all the configured Compute replicas (%d)", workers+rest,
				c.computeCount()))
	}
}

func (c *installConfig) checkMirrors(p *problems) {
	if len(c.ImageContentSources) > 0 && len(c.ImageDigestSources) > 0 {
		p.invalid("imageContentSources", len(c.ImageContentSources),
			"cannot set imageContentSources and imageDigestSources at the same time")
	}
	for i, m := range c.mirrors() {
		field := fmt.Sprintf("imageDigestSources[%d]", i)
		if len(c.ImageContentSources) > 0 {
			field = fmt.Sprintf("imageContentSources[%d]", i)
		}
		checkRepository(p, field+".source", m.Source)
		for j, text := range m.Mirrors {
			checkRepository(p, fmt.Sprintf("%s.mirrors[%d]", field, j), text)
		}
		if !slices.Contains([]string{"", "AllowContactingSource", "NeverContactSource"}, m.SourcePolicy) {
			p.invalid(field+".sourcePolicy", m.SourcePolicy,
				`supported values: "AllowContactingSource", "NeverContactSource"`)
		}
	}
}

var repositoryName = regexp.MustCompile(`^[A-Za-z0-9.\-]+(\[[0-9a-f:]+\])?(:[0-9]+)?(/[a-z0-9._\-]+)*$`)

func checkRepository(p *problems, field, text string) {
	switch {
	case text == "":
		p.required(field, "source must be specified")
	case strings.Contains(text, "@"):
		p.invalid(field, text, "must be repository--not reference")
	case !repositoryName.MatchString(text):
		p.invalid(field, text, "the repository provided is invalid")
	}
}

// checkTrust reads the bundle like the real program: its loop ends only when no text is left. So
// any text after the last block is an error, even a blank line.
func (c *installConfig) checkTrust(p *problems) {
	if !slices.Contains([]string{"", "Proxyonly", "Always"}, c.AdditionalTrustBundlePolicy) {
		p.invalid("additionalTrustBundlePolicy", c.AdditionalTrustBundlePolicy,
			`supported values "Proxyonly", "Always"`)
	}
	for rest := []byte(c.AdditionalTrustBundle); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			p.invalid("additionalTrustBundle", c.AdditionalTrustBundle, "unable to parse certificate")
			return
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			p.invalid("additionalTrustBundle", c.AdditionalTrustBundle, err.Error())
			return
		}
	}
}

func (c *installConfig) checkProxy(p *problems) {
	if c.Proxy == nil {
		return
	}
	if c.Proxy.HTTPProxy == "" && c.Proxy.HTTPSProxy == "" {
		p.required("proxy", "must include httpProxy or httpsProxy")
	}
	for field, text := range map[string]string{"proxy.httpProxy": c.Proxy.HTTPProxy,
		"proxy.httpsProxy": c.Proxy.HTTPSProxy} {
		if text == "" {
			continue
		}
		if u, err := url.Parse(text); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			p.invalid(field, text, "must be a URL with scheme http or https")
		}
	}
}
