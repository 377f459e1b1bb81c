package description

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/openshift/assisted-service/models"

	"landfall/ignition"
)

func staticNetworkField() Field[InfraEnv] {
	return Field[InfraEnv]{Name: "StaticNetworkConfig",
		set: func(d *InfraEnv, value any) error {
			return setStaticNetwork(&d.API, value.([]*models.HostStaticNetworkConfig))
		},
		get: func(d *InfraEnv) (any, error) { return staticNetworkConfig(&d.API) }}
}

// setStaticNetwork sets the network descriptions of an infra-env's hosts. The API holds them as a
// JSON text. An empty list clears them.
func setStaticNetwork(env *models.InfraEnv, hosts []*models.HostStaticNetworkConfig) error {
	if len(hosts) == 0 {
		env.StaticNetworkConfig = ""
		return nil
	}
	text, err := json.Marshal(hosts)
	if err != nil {
		return err
	}
	env.StaticNetworkConfig = string(text)
	return nil
}

func staticNetworkConfig(env *models.InfraEnv) ([]*models.HostStaticNetworkConfig, error) {
	if env.StaticNetworkConfig == "" {
		return nil, nil
	}
	var hosts []*models.HostStaticNetworkConfig
	if err := json.Unmarshal([]byte(env.StaticNetworkConfig), &hosts); err != nil {
		return nil, err
	}
	return hosts, nil
}

// StaticNetwork returns the network descriptions of an infra-env's hosts.
func StaticNetwork(env *models.InfraEnv) ([]ignition.HostNetwork, error) {
	hosts, err := staticNetworkConfig(env)
	if err != nil || hosts == nil {
		return nil, err
	}
	return HostNetworks(hosts), nil
}

// HostNetworks converts the API's network descriptions.
func HostNetworks(hosts []*models.HostStaticNetworkConfig) []ignition.HostNetwork {
	networks := make([]ignition.HostNetwork, 0, len(hosts))
	for _, host := range hosts {
		if host == nil {
			host = new(models.HostStaticNetworkConfig)
		}
		network := ignition.HostNetwork{YAML: host.NetworkYaml}
		for _, nic := range host.MacInterfaceMap {
			if nic == nil {
				nic = new(models.MacInterfaceMapItems0)
			}
			network.Interfaces = append(network.Interfaces, ignition.NetworkInterface{MAC: nic.MacAddress,
				Name: nic.LogicalNicName})
		}
		networks = append(networks, network)
	}
	return networks
}

// CheckStaticNetwork rejects network descriptions that give a host an address of another owner, see
// [TakenAddresses]. Contradictions within a description are found when the image recipe is made.
func CheckStaticNetwork(env *models.InfraEnv, taken ignition.Claims) error {
	hosts, err := StaticNetwork(env)
	if err != nil || len(hosts) == 0 || len(taken) == 0 {
		return err
	}
	if err := ignition.CheckNetwork(hosts, env.OpenshiftVersion, taken); err != nil {
		return wrapInvalid(err)
	}
	return nil
}

// TakenAddresses returns the addresses that the hosts of an infra-env must not use: the VIPs of its
// cluster, and the addresses that other infra-envs of the cluster give to hosts.
func TakenAddresses(env *models.InfraEnv, cluster *models.Cluster, others []*models.InfraEnv) ignition.Claims {
	taken := make(ignition.Claims)
	for _, other := range others {
		hosts, err := StaticNetwork(other)
		if err != nil || *other.ID == *env.ID {
			continue // an older release wrote an invalid description
		}
		for _, a := range ignition.StaticAddresses(hosts) {
			taken[a.Address.Addr()] = ignition.Claim{Owner: fmt.Sprintf("given to host %d of infra-env %s", a.Host,
				*other.Name), MACs: a.MACs}
		}
	}
	for address, name := range virtualAddresses(cluster) {
		taken[address] = ignition.Claim{Owner: name}
	}
	return taken
}

// virtualAddresses returns a cluster's VIPs, each with a description.
func virtualAddresses(cluster *models.Cluster) map[netip.Addr]string {
	all := make(map[netip.Addr]string)
	add := func(ip, kind string) {
		if a, err := netip.ParseAddr(ip); err == nil {
			all[a] = fmt.Sprintf("the %s VIP of cluster %s", kind, cluster.Name)
		}
	}
	for _, vip := range cluster.IngressVips {
		add(string(vip.IP), "ingress")
	}
	for _, vip := range cluster.APIVips {
		add(string(vip.IP), "API")
	}
	return all
}

// CheckVIPsAgainstHosts rejects requested VIPs that a network description of the cluster's
// infra-envs assigns to a host.
func CheckVIPsAgainstHosts(cluster *models.Cluster, params *models.V2ClusterUpdateParams,
	envs []*models.InfraEnv) error {
	requested := virtualAddresses(&models.Cluster{Name: cluster.Name, APIVips: params.APIVips,
		IngressVips: params.IngressVips})
	for _, env := range envs {
		hosts, err := StaticNetwork(env)
		if err != nil {
			continue
		}
		for _, a := range ignition.StaticAddresses(hosts) {
			if name, clash := requested[a.Address.Addr()]; clash {
				return invalid("%s can't be %s: the static network of infra-env %s gives it to host %d (%s of %s).",
					a.Address.Addr(), name, *env.Name, a.Host, a.Field, a.Interface)
			}
		}
	}
	return nil
}
