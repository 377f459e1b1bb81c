package clusters

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"

	"landfall/appliance/engine/description"
)

// A ClusterDeployment and its AgentClusterInstall describe one cluster of the engine. Each of their
// fields is an entry of the table in clusterFields. An entry has functions for the desired value,
// for the actual value, and for writing a change made over REST or in the browser back into the
// specs. Fields of the cluster that have no field in the specs are not changed.

// clusterPair is a ClusterDeployment with its AgentClusterInstall.
type clusterPair struct {
	cd  *hivev1.ClusterDeployment
	aci *hiveext.AgentClusterInstall
	ntp []string // spec.ntpSources of the AgentClusterInstall; its Go type lacks the field
}

// desiredFields holds the values that specs specify for a cluster. The engine chooses the values of
// nil fields.
type desiredFields = models.V2ClusterUpdateParams

// clusterField is a field of a cluster that specs can specify.
type clusterField struct {
	name    string
	desired func(*desiredFields) any  // nil if the specs do not specify it
	actual  func(*models.Cluster) any // has the same type as desired
	clear   func(*desiredFields)
	write   func(*clusterPair, *models.Cluster) // writes the actual value into the specs
}

// differs reports whether the specs specify a value that differs from the cluster's.
func (f clusterField) differs(w *desiredFields, cluster *models.Cluster) bool {
	desired := f.desired(w)
	return desired != nil && !reflect.DeepEqual(desired, f.actual(cluster))
}

func pointed[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// textField returns a field that is a string in the specs and in the engine.
func textField(name string, desired func(*desiredFields) **string, actual func(*models.Cluster) string,
	write func(*clusterPair, string)) clusterField {
	return clusterField{name,
		func(w *desiredFields) any { return pointed(*desired(w)) },
		func(c *models.Cluster) any { return actual(c) },
		func(w *desiredFields) { *desired(w) = nil },
		func(p *clusterPair, c *models.Cluster) { write(p, actual(c)) },
	}
}

// clusterFields returns all fields except those that need other objects: the pull secret and the
// certificate of the ignition endpoint.
func clusterFields() []clusterField {
	return slices.Concat(identityFields(), networkFields(), hostFields())
}

func identityFields() []clusterField {
	return []clusterField{
		textField("spec.clusterName", func(w *desiredFields) **string { return &w.Name },
			func(c *models.Cluster) string { return c.Name },
			func(p *clusterPair, v string) { p.cd.Spec.ClusterName = v }),
		textField("spec.baseDomain", func(w *desiredFields) **string { return &w.BaseDNSDomain },
			func(c *models.Cluster) string { return c.BaseDNSDomain },
			func(p *clusterPair, v string) { p.cd.Spec.BaseDomain = v }),
		textField("spec.sshPublicKey", func(w *desiredFields) **string { return &w.SSHPublicKey },
			func(c *models.Cluster) string { return c.SSHPublicKey },
			func(p *clusterPair, v string) { p.aci.Spec.SSHPublicKey = v }),
		textField("the label "+hiveext.ClusterConsumerLabel, func(w *desiredFields) **string { return &w.Tags },
			func(c *models.Cluster) string { return c.Tags },
			func(p *clusterPair, v string) {
				if p.aci.Labels == nil {
					p.aci.Labels = map[string]string{}
				}
				p.aci.Labels[hiveext.ClusterConsumerLabel] = v
			}),
		textField("spec.proxy.httpProxy", func(w *desiredFields) **string { return &w.HTTPProxy },
			func(c *models.Cluster) string { return c.HTTPProxy },
			func(p *clusterPair, v string) { p.proxy().HTTPProxy = v }),
		textField("spec.proxy.httpsProxy", func(w *desiredFields) **string { return &w.HTTPSProxy },
			func(c *models.Cluster) string { return c.HTTPSProxy },
			func(p *clusterPair, v string) { p.proxy().HTTPSProxy = v }),
		textField("spec.proxy.noProxy", func(w *desiredFields) **string { return &w.NoProxy },
			func(c *models.Cluster) string { return c.NoProxy },
			func(p *clusterPair, v string) { p.proxy().NoProxy = v }),
		textField("spec.ntpSources", func(w *desiredFields) **string { return &w.AdditionalNtpSource },
			func(c *models.Cluster) string { return c.AdditionalNtpSource },
			func(p *clusterPair, v string) { p.ntp = commaSeparated(v) }),
	}
}

func (p *clusterPair) proxy() *hiveext.Proxy {
	if p.aci.Spec.Proxy == nil {
		p.aci.Spec.Proxy = &hiveext.Proxy{}
	}
	return p.aci.Spec.Proxy
}

func networkFields() []clusterField {
	return []clusterField{
		{"spec.networking.clusterNetwork",
			func(w *desiredFields) any { return desiredList(clusterNetworkTexts(w.ClusterNetworks)) },
			func(c *models.Cluster) any { return clusterNetworkTexts(c.ClusterNetworks) },
			func(w *desiredFields) { w.ClusterNetworks = nil },
			func(p *clusterPair, c *models.Cluster) {
				p.aci.Spec.Networking.ClusterNetwork = nil
				for _, n := range c.ClusterNetworks {
					p.aci.Spec.Networking.ClusterNetwork = append(p.aci.Spec.Networking.ClusterNetwork,
						hiveext.ClusterNetworkEntry{CIDR: string(n.Cidr), HostPrefix: int32(n.HostPrefix)})
				}
			}},
		{"spec.networking.serviceNetwork",
			func(w *desiredFields) any { return desiredList(serviceNetworkTexts(w.ServiceNetworks)) },
			func(c *models.Cluster) any { return serviceNetworkTexts(c.ServiceNetworks) },
			func(w *desiredFields) { w.ServiceNetworks = nil },
			func(p *clusterPair, c *models.Cluster) {
				p.aci.Spec.Networking.ServiceNetwork = serviceNetworkTexts(c.ServiceNetworks)
			}},
		{"spec.networking.machineNetwork",
			func(w *desiredFields) any { return desiredList(machineNetworkTexts(w.MachineNetworks)) },
			func(c *models.Cluster) any { return machineNetworkTexts(c.MachineNetworks) },
			func(w *desiredFields) { w.MachineNetworks = nil },
			func(p *clusterPair, c *models.Cluster) {
				p.aci.Spec.Networking.MachineNetwork = machineNetworkEntries(c)
			}},
		textField("spec.networking.networkType", func(w *desiredFields) **string { return &w.NetworkType },
			func(c *models.Cluster) string { return conv.Value(c.NetworkType) },
			func(p *clusterPair, v string) { p.aci.Spec.Networking.NetworkType = v }),
		{"spec.networking.userManagedNetworking",
			func(w *desiredFields) any { return pointed(w.UserManagedNetworking) },
			func(c *models.Cluster) any { return conv.Value(c.UserManagedNetworking) },
			func(w *desiredFields) { w.UserManagedNetworking = nil },
			func(p *clusterPair, c *models.Cluster) {
				p.aci.Spec.Networking.UserManagedNetworking = conv.Pointer(conv.Value(c.UserManagedNetworking))
			}},
		{"spec.apiVIPs",
			func(w *desiredFields) any { return desiredList(apiVIPTexts(w.APIVips)) },
			func(c *models.Cluster) any { return apiVIPTexts(c.APIVips) },
			func(w *desiredFields) { w.APIVips = nil },
			func(p *clusterPair, c *models.Cluster) {
				p.aci.Spec.APIVIPs, p.aci.Spec.APIVIP = apiVIPTexts(c.APIVips), firstOr(apiVIPTexts(c.APIVips),
					p.aci.Spec.APIVIP)
			}},
		{"spec.ingressVIPs",
			func(w *desiredFields) any { return desiredList(ingressVIPTexts(w.IngressVips)) },
			func(c *models.Cluster) any { return ingressVIPTexts(c.IngressVips) },
			func(w *desiredFields) { w.IngressVips = nil },
			func(p *clusterPair, c *models.Cluster) {
				p.aci.Spec.IngressVIPs, p.aci.Spec.IngressVIP = ingressVIPTexts(c.IngressVips),
					firstOr(ingressVIPTexts(c.IngressVips), p.aci.Spec.IngressVIP)
			}},
		{"spec.loadBalancer.type",
			func(w *desiredFields) any {
				if w.LoadBalancer == nil {
					return nil
				}
				return w.LoadBalancer.Type
			},
			func(c *models.Cluster) any {
				if c.LoadBalancer == nil {
					return models.LoadBalancerTypeClusterManaged
				}
				return c.LoadBalancer.Type
			},
			func(w *desiredFields) { w.LoadBalancer = nil },
			func(p *clusterPair, c *models.Cluster) { p.aci.Spec.LoadBalancer = loadBalancerSpec(c) }},
	}
}

// firstOr returns the new value of a deprecated field with a single address, after its list has
// changed: the first address of the list, or "" if the field was not used.
func firstOr(list []string, single string) string {
	if single == "" || len(list) == 0 {
		return ""
	}
	return list[0]
}

func hostFields() []clusterField {
	return []clusterField{
		textField("spec.controlPlane.hyperthreading", func(w *desiredFields) **string { return &w.Hyperthreading },
			func(c *models.Cluster) string { return cmp.Or(c.Hyperthreading, models.ClusterHyperthreadingAll) },
			writeHyperthreading),
		{"spec.platformType",
			func(w *desiredFields) any { return platformText(w.Platform) },
			func(c *models.Cluster) any { return platformText(c.Platform) },
			func(w *desiredFields) { w.Platform = nil },
			func(p *clusterPair, c *models.Cluster) { writePlatform(p.aci, c) }},
		{"spec.diskEncryption",
			func(w *desiredFields) any { return diskEncryptionText(w.DiskEncryption) },
			func(c *models.Cluster) any { return diskEncryptionText(orNoEncryption(c.DiskEncryption)) },
			func(w *desiredFields) { w.DiskEncryption = nil },
			func(p *clusterPair, c *models.Cluster) {
				held := orNoEncryption(c.DiskEncryption)
				p.aci.Spec.DiskEncryption = &hiveext.DiskEncryption{EnableOn: held.EnableOn, Mode: held.Mode,
					TangServers: held.TangServers}
			}},
		{"spec.mastersSchedulable",
			func(w *desiredFields) any { return pointed(w.SchedulableMasters) },
			func(c *models.Cluster) any { return conv.Value(c.SchedulableMasters) },
			func(w *desiredFields) { w.SchedulableMasters = nil },
			func(p *clusterPair, c *models.Cluster) {
				p.aci.Spec.MastersSchedulable = conv.Value(c.SchedulableMasters)
			}},
		{"spec.provisionRequirements.controlPlaneAgents",
			func(w *desiredFields) any { return pointed(w.ControlPlaneCount) },
			func(c *models.Cluster) any { return c.ControlPlaneCount },
			func(w *desiredFields) { w.ControlPlaneCount = nil },
			func(p *clusterPair, c *models.Cluster) {
				p.aci.Spec.ProvisionRequirements.ControlPlaneAgents = int(c.ControlPlaneCount)
			}},
	}
}

// desiredCluster returns the values that the specs specify. The error is an input error about specs
// that contradict each other.
func desiredCluster(p clusterPair, held *models.Cluster) (*desiredFields, error) {
	spec := p.aci.Spec
	w := &desiredFields{
		Name: conv.Pointer(p.cd.Spec.ClusterName), BaseDNSDomain: conv.Pointer(p.cd.Spec.BaseDomain),
		SSHPublicKey:          conv.Pointer(strings.TrimSpace(spec.SSHPublicKey)),
		Hyperthreading:        conv.Pointer(hyperthreading(p.aci)),
		SchedulableMasters:    conv.Pointer(spec.MastersSchedulable),
		ControlPlaneCount:     conv.Pointer[int64](int64(spec.ProvisionRequirements.ControlPlaneAgents)),
		UserManagedNetworking: conv.Pointer(userManaged(p.aci)),
	}
	proxy := spec.Proxy
	if proxy == nil {
		proxy = &hiveext.Proxy{}
	}
	w.HTTPProxy, w.HTTPSProxy, w.NoProxy = &proxy.HTTPProxy, &proxy.HTTPSProxy, &proxy.NoProxy
	if tags, ok := p.aci.Labels[hiveext.ClusterConsumerLabel]; ok {
		w.Tags = &tags
	}
	if len(p.ntp) > 0 {
		w.AdditionalNtpSource = conv.Pointer(strings.Join(p.ntp, ","))
	}
	if e := spec.DiskEncryption; e != nil {
		w.DiskEncryption = orNoEncryption(&models.DiskEncryption{EnableOn: e.EnableOn, Mode: e.Mode,
			TangServers: e.TangServers})
		// The engine would complete a spec without servers with those that it holds.
		if err := description.CheckDiskEncryption(w.DiskEncryption); err != nil {
			return nil, err
		}
	}
	if spec.LoadBalancer != nil {
		w.LoadBalancer = &models.LoadBalancer{Type: models.LoadBalancerTypeClusterManaged}
		if spec.LoadBalancer.Type == hiveext.LoadBalancerTypeUserManaged {
			w.LoadBalancer.Type = models.LoadBalancerTypeUserManaged
		}
	}
	if err := setDesiredNetworks(w, p, held); err != nil {
		return nil, err
	}
	var err error
	w.Platform, err = platformOf(spec)
	return w, err
}

func setDesiredNetworks(w *desiredFields, p clusterPair, held *models.Cluster) error {
	spec := p.aci.Spec
	for _, n := range spec.Networking.ClusterNetwork {
		w.ClusterNetworks = append(w.ClusterNetworks, &models.ClusterNetwork{Cidr: subnet(n.CIDR),
			HostPrefix: hostPrefix(n)})
	}
	for _, cidr := range spec.Networking.ServiceNetwork {
		w.ServiceNetworks = append(w.ServiceNetworks, &models.ServiceNetwork{Cidr: subnet(cidr)})
	}
	for _, n := range spec.Networking.MachineNetwork {
		w.MachineNetworks = append(w.MachineNetworks, &models.MachineNetwork{Cidr: subnet(n.CIDR)})
	}
	apiVIPs, err := addresses("apiVIP", spec.APIVIP, spec.APIVIPs)
	if err != nil {
		return err
	}
	ingressVIPs, err := addresses("ingressVIP", spec.IngressVIP, spec.IngressVIPs)
	if err != nil {
		return err
	}
	for _, ip := range apiVIPs {
		w.APIVips = append(w.APIVips, &models.APIVip{IP: models.IP(ip)})
	}
	for _, ip := range ingressVIPs {
		w.IngressVips = append(w.IngressVips, &models.IngressVip{IP: models.IP(ip)})
	}
	switch {
	case spec.Networking.NetworkType != "":
		w.NetworkType = conv.Pointer(spec.Networking.NetworkType)
	case !p.cd.Spec.Installed:
		w.NetworkType = conv.Pointer(defaultNetworkType(w, held))
	}
	return nil
}

// addresses merges a deprecated single address with the list that replaces it.
func addresses(field, single string, list []string) ([]string, error) {
	switch {
	case single == "":
		return list, nil
	case len(list) == 0:
		return []string{single}, nil
	case single != list[0]:
		return nil, inputError("%s %s is not the first of %ss (%s); omit the deprecated %s", field, single,
			field, strings.Join(list, ", "), field)
	}
	return list, nil
}

// defaultNetworkType returns the network type if the spec does not name one: OVNKubernetes, except
// for older releases on IPv4 with more than one node.
func defaultNetworkType(w *desiredFields, held *models.Cluster) string {
	texts := slices.Concat(clusterNetworkTexts(w.ClusterNetworks), serviceNetworkTexts(w.ServiceNetworks),
		machineNetworkTexts(w.MachineNetworks))
	if held != nil {
		texts = slices.Concat(texts, clusterNetworkTexts(held.ClusterNetworks),
			serviceNetworkTexts(held.ServiceNetworks), machineNetworkTexts(held.MachineNetworks))
	}
	hasIPv6 := slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, ":") })
	if hasIPv6 || *w.ControlPlaneCount == 1 || held == nil || !olderThan412(held.OpenshiftVersion) {
		return models.ClusterNetworkTypeOVNKubernetes
	}
	return models.ClusterNetworkTypeOpenShiftSDN
}

func olderThan412(version string) bool {
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || n < 2 {
		return false
	}
	return major < 4 || major == 4 && minor < 12
}

// subnet returns a CIDR without its host bits. It returns an invalid CIDR unchanged; the engine
// rejects it.
func subnet(cidr string) models.Subnet {
	prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
	if err != nil {
		return models.Subnet(cidr)
	}
	return models.Subnet(prefix.Masked().String())
}

// hostPrefix returns the host prefix of a cluster network, or the default prefix.
func hostPrefix(n hiveext.ClusterNetworkEntry) int64 {
	switch {
	case n.HostPrefix != 0:
		return int64(n.HostPrefix)
	case strings.Contains(n.CIDR, ":"):
		return 64
	}
	return 23
}

// singleNode reports whether the specs specify a single node.
func singleNode(aci *hiveext.AgentClusterInstall) bool {
	need := aci.Spec.ProvisionRequirements
	return need.ControlPlaneAgents == 1 && need.WorkerAgents == 0 && need.ArbiterAgents == 0
}

// userManaged reports whether the user manages the networking, as always for a single node and for
// the platforms None and External.
func userManaged(aci *hiveext.AgentClusterInstall) bool {
	if singleNode(aci) {
		return true
	}
	if asked := aci.Spec.Networking.UserManagedNetworking; asked != nil {
		return *asked
	}
	return aci.Spec.PlatformType == hiveext.NonePlatformType || aci.Spec.PlatformType == hiveext.ExternalPlatformType
}

// hyperthreading returns the engine's value for the roles with hyperthreading. If a spec lists any
// machine pool, hyperthreading is disabled for the roles that it does not list.
func hyperthreading(aci *hiveext.AgentClusterInstall) string {
	on := map[string]bool{}
	listed := false
	note := func(pool *hiveext.AgentMachinePool, role string) {
		if pool != nil {
			listed = true
			on[role] = pool.Hyperthreading != hiveext.HyperthreadingDisabled
		}
	}
	note(aci.Spec.ControlPlane, "masters")
	note(aci.Spec.Arbiter, "arbiters")
	for i, pool := range aci.Spec.Compute {
		if pool.Name == hiveext.WorkerAgentMachinePool {
			note(&aci.Spec.Compute[i], "workers")
		}
	}
	var roles []string
	for _, role := range []string{"masters", "arbiters", "workers"} {
		if on[role] {
			roles = append(roles, role)
		}
	}
	switch {
	case !listed:
		return models.ClusterHyperthreadingAll
	case len(roles) == 0:
		return models.ClusterHyperthreadingNone
	}
	return strings.Join(roles, ",")
}

func writeHyperthreading(p *clusterPair, held string) {
	if held == models.ClusterHyperthreadingAll {
		p.aci.Spec.ControlPlane, p.aci.Spec.Arbiter, p.aci.Spec.Compute = nil, nil, nil
		return
	}
	mode := func(role string) hiveext.HyperthreadingMode {
		if slices.Contains(commaSeparated(held), role) {
			return hiveext.HyperthreadingEnabled
		}
		return hiveext.HyperthreadingDisabled
	}
	p.aci.Spec.ControlPlane = &hiveext.AgentMachinePool{Name: hiveext.MasterAgentMachinePool,
		Hyperthreading: mode("masters")}
	p.aci.Spec.Compute = []hiveext.AgentMachinePool{{Name: hiveext.WorkerAgentMachinePool,
		Hyperthreading: mode("workers")}}
	if p.aci.Spec.Arbiter != nil || mode("arbiters") != mode("workers") {
		p.aci.Spec.Arbiter = &hiveext.AgentMachinePool{Name: hiveext.ArbiterAgentMachinePool,
			Hyperthreading: mode("arbiters")}
	}
}

// platformNames maps the platform names of specs to the engine's platform names.
var platformNames = map[hiveext.PlatformType]models.PlatformType{
	hiveext.BareMetalPlatformType: models.PlatformTypeBaremetal, hiveext.NonePlatformType: models.PlatformTypeNone,
	hiveext.VSpherePlatformType: models.PlatformTypeVsphere,
	hiveext.NutanixPlatformType: models.PlatformTypeNutanix, hiveext.ExternalPlatformType: models.PlatformTypeExternal,
}

// platformName returns the name of a platform in specs; "" if specs have no name for it.
func platformName(platform *models.Platform) hiveext.PlatformType {
	if platform != nil && platform.Type != nil {
		for name, kind := range platformNames {
			if kind == *platform.Type {
				return name
			}
		}
	}
	return ""
}

// platformOf returns the platform that a spec specifies; nil leaves it to the engine.
func platformOf(spec hiveext.AgentClusterInstallSpec) (*models.Platform, error) {
	if spec.PlatformType == "" {
		return nil, nil
	}
	kind, ok := platformNames[spec.PlatformType]
	if !ok {
		return nil, inputError("spec.platformType %q must be one of BareMetal, None, VSphere, Nutanix and External",
			spec.PlatformType)
	}
	platform := &models.Platform{Type: &kind}
	if kind != models.PlatformTypeExternal {
		return platform, nil
	}
	if spec.ExternalPlatformSpec == nil {
		return nil, inputError("spec.external must be given when spec.platformType is External: it names the platform")
	}
	name, manager := cmp.Or(spec.ExternalPlatformSpec.PlatformName, "Unknown"),
		string(spec.ExternalPlatformSpec.CloudControllerManager)
	platform.External = &models.PlatformExternal{PlatformName: &name, CloudControllerManager: &manager}
	return platform, nil
}

func writePlatform(aci *hiveext.AgentClusterInstall, c *models.Cluster) {
	aci.Spec.PlatformType, aci.Spec.ExternalPlatformSpec = platformName(c.Platform), nil
	if external := c.Platform.External; external != nil {
		aci.Spec.ExternalPlatformSpec = &hiveext.ExternalPlatformSpec{
			PlatformName:           conv.Value(external.PlatformName),
			CloudControllerManager: hiveext.CloudControllerManager(conv.Value(external.CloudControllerManager)),
		}
	}
}

func platformText(p *models.Platform) any {
	if p == nil || p.Type == nil {
		return nil
	}
	text := string(*p.Type)
	if p.External != nil && *p.Type == models.PlatformTypeExternal {
		text += " " + conv.Value(p.External.PlatformName) + " " + conv.Value(p.External.CloudControllerManager)
	}
	return text
}

func orNoEncryption(held *models.DiskEncryption) *models.DiskEncryption {
	e := models.DiskEncryption{}
	if held != nil {
		e = *held
	}
	e.EnableOn, e.Mode = conv.Pointer(cmp.Or(conv.Value(e.EnableOn), models.DiskEncryptionEnableOnNone)),
		conv.Pointer(cmp.Or(conv.Value(e.Mode), models.DiskEncryptionModeTpmv2))
	return &e
}

func diskEncryptionText(e *models.DiskEncryption) any {
	if e == nil {
		return nil
	}
	if *e.Mode != models.DiskEncryptionModeTang {
		return *e.EnableOn + " " + *e.Mode // an update can't clear the servers, which have no effect then
	}
	return *e.EnableOn + " " + *e.Mode + " " + e.TangServers
}

func loadBalancerSpec(c *models.Cluster) *hiveext.LoadBalancer {
	if c.LoadBalancer != nil && c.LoadBalancer.Type == models.LoadBalancerTypeUserManaged {
		return &hiveext.LoadBalancer{Type: hiveext.LoadBalancerTypeUserManaged}
	}
	return &hiveext.LoadBalancer{Type: hiveext.LoadBalancerTypeClusterManaged}
}

// desiredList returns the list, or nil if it is empty.
func desiredList(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

func clusterNetworkTexts(networks []*models.ClusterNetwork) []string {
	var texts []string
	for _, n := range networks {
		texts = append(texts, fmt.Sprintf("%s %d", n.Cidr, n.HostPrefix))
	}
	return texts
}

func serviceNetworkTexts(networks []*models.ServiceNetwork) []string {
	var texts []string
	for _, n := range networks {
		texts = append(texts, string(n.Cidr))
	}
	return texts
}

func machineNetworkTexts(networks []*models.MachineNetwork) []string {
	var texts []string
	for _, n := range networks {
		texts = append(texts, string(n.Cidr))
	}
	return texts
}

func machineNetworkEntries(c *models.Cluster) []hiveext.MachineNetworkEntry {
	var entries []hiveext.MachineNetworkEntry
	for _, n := range c.MachineNetworks {
		entries = append(entries, hiveext.MachineNetworkEntry{CIDR: string(n.Cidr)})
	}
	return entries
}

func apiVIPTexts(vips []*models.APIVip) []string {
	var texts []string
	for _, vip := range vips {
		texts = append(texts, string(vip.IP))
	}
	return texts
}

func ingressVIPTexts(vips []*models.IngressVip) []string {
	var texts []string
	for _, vip := range vips {
		texts = append(texts, string(vip.IP))
	}
	return texts
}

func commaSeparated(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
