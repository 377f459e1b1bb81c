package abi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

// ClusterParams returns the parameters of the cluster for the REST API, without the release.
func (v Values) ClusterParams() *models.ClusterCreateParams {
	params := &models.ClusterCreateParams{
		Name: pointer[string](v, Name), BaseDNSDomain: get[string](v, BaseDomain),
		CPUArchitecture: get[string](v, Architecture),
		PullSecret:      pointer[string](v, PullSecret), SSHPublicKey: get[string](v, SSHKey),
		NetworkType:           pointer[string](v, NetworkType),
		UserManagedNetworking: pointer[bool](v, UserNetworking), SchedulableMasters: pointer[bool](v, Schedulable),
		HTTPProxy: pointer[string](v, HTTPProxy), HTTPSProxy: pointer[string](v, HTTPSProxy),
		NoProxy:             pointer[string](v, NoProxy),
		AdditionalNtpSource: pointer[string](v, NTPSources), Tags: pointer[string](v, Tags),
		Hyperthreading: v.hyperthreading(),
	}
	if params.AdditionalNtpSource == nil {
		params.AdditionalNtpSource = pointer[string](v, EnvNTPSources)
	}
	if count, ok := v[ControlPlane].(int64); ok {
		params.ControlPlaneCount = &count
	}
	for _, ip := range get[[]string](v, APIVIPs) {
		params.APIVips = append(params.APIVips, &models.APIVip{IP: models.IP(ip)})
	}
	for _, ip := range get[[]string](v, IngressVIPs) {
		params.IngressVips = append(params.IngressVips, &models.IngressVip{IP: models.IP(ip)})
	}
	for _, n := range get[[]ClusterNetwork](v, ClusterNetworks) {
		params.ClusterNetworks = append(params.ClusterNetworks, &models.ClusterNetwork{Cidr: models.Subnet(n.CIDR),
			HostPrefix: n.HostPrefix})
	}
	for _, cidr := range get[[]string](v, ServiceNetworks) {
		params.ServiceNetworks = append(params.ServiceNetworks, &models.ServiceNetwork{Cidr: models.Subnet(cidr)})
	}
	// If it has no machine networks, a single-node cluster derives them.
	for _, cidr := range get[[]string](v, MachineNetworks) {
		params.MachineNetworks = append(params.MachineNetworks, &models.MachineNetwork{Cidr: models.Subnet(cidr)})
	}
	if kind := get[string](v, Platform); kind != "" {
		params.Platform = &models.Platform{Type: models.PlatformType(kind).Pointer()}
		if kind == string(models.PlatformTypeExternal) {
			params.Platform.External = &models.PlatformExternal{PlatformName: pointer[string](v, ExternalName),
				CloudControllerManager: pointer[string](v, ExternalManager)}
		}
	}
	if balancer := get[string](v, Balancer); balancer != "" {
		params.LoadBalancer = &models.LoadBalancer{Type: balancer}
	}
	if e, ok := v[Encryption].(DiskEncryption); ok {
		params.DiskEncryption = &models.DiskEncryption{TangServers: e.TangServers}
		if e.EnableOn != "" {
			params.DiskEncryption.EnableOn = &e.EnableOn
		}
		if e.Mode != "" {
			params.DiskEncryption.Mode = &e.Mode
		}
	}
	return params
}

// hyperthreading returns the machine pools with hyperthreading, or nil for the installer's default.
func (v Values) hyperthreading() *string {
	var enabled []string
	for _, pool := range []struct {
		field Field
		name  string
		there bool
	}{{MasterThreads, "masters", true}, {ArbiterThreads, "arbiters", get[int64](v, Arbiters) > 0},
		{WorkerThreads, "workers", true}} {
		if pool.there && get[string](v, pool.field) != "Disabled" {
			enabled = append(enabled, pool.name)
		}
	}
	disabled := func(f Field) bool { return get[string](v, f) == "Disabled" }
	switch {
	case !disabled(MasterThreads) && !disabled(WorkerThreads) && !disabled(ArbiterThreads):
		return nil
	case len(enabled) == 0:
		return conv.Pointer(models.ClusterHyperthreadingNone)
	}
	return conv.Pointer(strings.Join(enabled, ","))
}

// InfraEnvParams returns the parameters of the infra-env for the REST API.
func (v Values) InfraEnvParams(cluster strfmt.UUID) *models.InfraEnvCreateParams {
	or := func(f, otherwise Field) *string {
		if value := pointer[string](v, f); value != nil {
			return value
		}
		return pointer[string](v, otherwise)
	}
	params := &models.InfraEnvCreateParams{
		Name: conv.Pointer(get[string](v, Name) + "_infra-env"), ClusterID: &cluster,
		PullSecret:      pointer[string](v, PullSecret),
		CPUArchitecture: get[string](v, Architecture), SSHAuthorizedKey: or(EnvSSHKey, SSHKey),
		AdditionalNtpSources: or(EnvNTPSources, NTPSources), AdditionalTrustBundle: get[string](v, TrustBundle),
		IgnitionConfigOverride: get[string](v, IgnitionPatch), ImageType: models.ImageTypeFullIso,
		Proxy: &models.Proxy{HTTPProxy: or(EnvHTTPProxy, HTTPProxy), HTTPSProxy: or(EnvHTTPSProxy, HTTPSProxy),
			NoProxy: or(EnvNoProxy, NoProxy)},
	}
	if get[bool](v, MinimalISO) {
		params.ImageType = models.ImageTypeMinimalIso
	}
	for _, argument := range get[[]KernelArgument](v, KernelArguments) {
		params.KernelArguments = append(params.KernelArguments, &models.KernelArgument{Operation: argument.Operation,
			Value: argument.Value})
	}
	var networks []Field
	for f := range v {
		if strings.HasPrefix(string(f), networkPrefix) {
			networks = append(networks, f)
		}
	}
	slices.Sort(networks)
	for _, f := range networks {
		network := get[Network](v, f)
		config := &models.HostStaticNetworkConfig{NetworkYaml: network.YAML}
		for _, nic := range network.Interfaces {
			config.MacInterfaceMap = append(config.MacInterfaceMap,
				&models.MacInterfaceMapItems0{LogicalNicName: nic.Name, MacAddress: nic.MAC})
		}
		params.StaticNetworkConfig = append(params.StaticNetworkConfig, config)
	}
	return params
}

// ValuesOf returns the current values of a cluster and its infra-env, which may be nil. The caller
// adds the values that the API does not show: the pull secret and the mirror rules.
func ValuesOf(cluster *models.Cluster, env *models.InfraEnv) (Values, error) {
	v := Values{
		Name: cluster.Name, BaseDomain: cluster.BaseDNSDomain, ReleaseImage: cluster.OcpReleaseImage,
		Architecture: cluster.CPUArchitecture,
		ControlPlane: cluster.ControlPlaneCount, UserNetworking: conv.Value(cluster.UserManagedNetworking),
		NetworkType: conv.Value(cluster.NetworkType),
		Schedulable: conv.Value(cluster.SchedulableMasters), SSHKey: strings.TrimSpace(cluster.SSHPublicKey),
		NTPSources: cluster.AdditionalNtpSource,
		HTTPProxy:  cluster.HTTPProxy, HTTPSProxy: cluster.HTTPSProxy, NoProxy: cluster.NoProxy, Tags: cluster.Tags,
	}
	var api, ingress, machine, service []string
	for _, vip := range cluster.APIVips {
		api = append(api, string(vip.IP))
	}
	for _, vip := range cluster.IngressVips {
		ingress = append(ingress, string(vip.IP))
	}
	for _, n := range cluster.MachineNetworks {
		machine = append(machine, string(n.Cidr))
	}
	for _, n := range cluster.ServiceNetworks {
		service = append(service, string(n.Cidr))
	}
	var pods []ClusterNetwork
	for _, n := range cluster.ClusterNetworks {
		pods = append(pods, ClusterNetwork{string(n.Cidr), n.HostPrefix})
	}
	for f, list := range map[Field][]string{APIVIPs: api, IngressVIPs: ingress, MachineNetworks: machine,
		ServiceNetworks: service} {
		if len(list) > 0 {
			v[f] = list
		}
	}
	if len(pods) > 0 {
		v[ClusterNetworks] = pods
	}
	if platform := cluster.Platform; platform != nil && platform.Type != nil {
		v[Platform] = string(*platform.Type)
		if platform.External != nil {
			v[ExternalName], v[ExternalManager] = conv.Value(platform.External.PlatformName),
				conv.Value(platform.External.CloudControllerManager)
		}
	}
	if cluster.LoadBalancer != nil {
		v[Balancer] = cluster.LoadBalancer.Type
	}
	if e := cluster.DiskEncryption; e != nil {
		v[Encryption] = DiskEncryption{conv.Value(e.EnableOn), conv.Value(e.Mode), e.TangServers}
	}
	for f, pool := range map[Field]string{MasterThreads: "masters", WorkerThreads: "workers",
		ArbiterThreads: "arbiters"} {
		v[f] = "Disabled"
		if cluster.Hyperthreading == models.ClusterHyperthreadingAll || strings.Contains(cluster.Hyperthreading, pool) {
			v[f] = "Enabled"
		}
	}
	if err := v.setOverride(cluster.InstallConfigOverrides); err != nil {
		return nil, fmt.Errorf("read the install-config override of cluster %s: %w", cluster.Name, err)
	}
	for f, value := range v {
		if value == "" {
			delete(v, f)
		}
	}
	if env == nil {
		return v, nil
	}
	return v, v.addInfraEnv(env)
}

func (v Values) addInfraEnv(env *models.InfraEnv) error {
	texts := map[Field]string{
		EnvSSHKey: env.SSHAuthorizedKey, EnvNTPSources: env.AdditionalNtpSources,
		TrustBundle: env.AdditionalTrustBundle, IgnitionPatch: env.IgnitionConfigOverride,
	}
	if env.Proxy != nil {
		texts[EnvHTTPProxy], texts[EnvHTTPSProxy], texts[EnvNoProxy] = conv.Value(env.Proxy.HTTPProxy),
			conv.Value(env.Proxy.HTTPSProxy), conv.Value(env.Proxy.NoProxy)
	}
	for f, value := range texts {
		if value != "" {
			v[f] = value
		}
	}
	v[MinimalISO] = env.Type != nil && *env.Type == models.ImageTypeMinimalIso
	if arguments := conv.Value(env.KernelArguments); arguments != "" {
		var list []KernelArgument
		if err := json.Unmarshal([]byte(arguments), &list); err != nil {
			return fmt.Errorf("read the kernel arguments of infra-env %s: %w", env.ID, err)
		}
		v[KernelArguments] = list
	}
	if env.StaticNetworkConfig != "" {
		var hosts []*models.HostStaticNetworkConfig
		if err := json.Unmarshal([]byte(env.StaticNetworkConfig), &hosts); err != nil {
			return fmt.Errorf("read the static network of infra-env %s: %w", env.ID, err)
		}
		for _, host := range hosts {
			network := Network{YAML: host.NetworkYaml}
			for _, nic := range host.MacInterfaceMap {
				network.Interfaces = append(network.Interfaces, Interface{nic.LogicalNicName,
					strings.ToLower(nic.MacAddress)})
			}
			v[networkField(macsOf(network.Interfaces))] = network
		}
	}
	return nil
}

// SetHost sets the name of a host, and its role if the directory defines a role.
func (v Values) SetHost(h Host, name, is string) {
	if name != "" {
		v[hostField(h.MACs, hostname)] = name
	}
	if is != "" && h.Role != "" {
		v[hostField(h.MACs, role)] = is
	}
}
