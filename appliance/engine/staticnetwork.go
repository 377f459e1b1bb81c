package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/sentence"
	"landfall/ignition"
	"landfall/store"
)

// setStaticNetwork keeps the hosts' network descriptions as the API shows them: a JSON text.
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

// staticNetwork reads an infra-env's network descriptions.
func staticNetwork(env *models.InfraEnv) ([]ignition.HostNetwork, error) {
	if env.StaticNetworkConfig == "" {
		return nil, nil
	}
	var hosts []*models.HostStaticNetworkConfig
	if err := json.Unmarshal([]byte(env.StaticNetworkConfig), &hosts); err != nil {
		return nil, err
	}
	return describedNetworks(hosts), nil
}

func describedNetworks(hosts []*models.HostStaticNetworkConfig) []ignition.HostNetwork {
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

// PreviewStaticNetwork shows what the hosts of an infra-env would get by these descriptions.
// Nothing is kept.
func (e *Engine) PreviewStaticNetwork(infraEnvID string,
	hosts []*models.HostStaticNetworkConfig) (*ignition.NetworkPreview, error) {
	row, err := e.infraEnvRow(infraEnvID)
	if err != nil {
		return nil, err
	}
	taken, err := e.takenFrom(&row.API)
	if err != nil {
		return nil, err
	}
	return ignition.PreviewNetwork(describedNetworks(hosts), row.API.OpenshiftVersion, taken)
}

// checkStaticNetwork refuses descriptions that give a host what is another's: an address of the
// cluster, or what another infra-env of the cluster gives to a host.
func (e *Engine) checkStaticNetwork(env *models.InfraEnv) error {
	hosts, err := staticNetwork(env)
	if err != nil || len(hosts) == 0 {
		return err
	}
	taken, err := e.takenFrom(env)
	if err != nil || len(taken) == 0 {
		return err // what contradicts itself is found when the image's recipe is made
	}
	if err := ignition.CheckNetwork(hosts, env.OpenshiftVersion, taken); err != nil {
		return &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
	}
	return nil
}

// takenFrom is what the hosts of an infra-env must leave alone.
func (e *Engine) takenFrom(env *models.InfraEnv) (ignition.Taken, error) {
	if env.ClusterID == "" {
		return nil, nil
	}
	cluster, others, err := e.clusterWithInfraEnvs(env.ClusterID.String())
	if err != nil {
		return nil, err
	}
	taken := make(ignition.Taken)
	for _, other := range others {
		hosts, err := staticNetwork(other)
		if err != nil || *other.ID == *env.ID {
			continue // what can't be read was made by an older release
		}
		for _, a := range ignition.StaticAddresses(hosts) {
			taken[a.Address.Addr()] = ignition.Claim{Who: fmt.Sprintf("given to host %d of infra-env %s", a.Host,
				*other.Name), MACs: a.MACs}
		}
	}
	for address, what := range virtualAddresses(&cluster.API) {
		taken[address] = ignition.Claim{Who: what}
	}
	return taken, nil
}

// clusterWithInfraEnvs returns a cluster with the infra-envs made for it, or store.ErrNotFound.
func (e *Engine) clusterWithInfraEnvs(id string) (cluster *clusterRecord, envs []*models.InfraEnv, err error) {
	err = e.DB.View(func(tx *store.Tx) error {
		if cluster, err = clusterRows.Get(tx, id); err != nil {
			return err
		}
		return clusterEnvs.Keys(tx, id+"/", func(key string) error {
			row, err := infraEnvRows.Get(tx, strings.TrimPrefix(key, id+"/"))
			if err == nil {
				envs = append(envs, &row.API)
			}
			return err
		})
	})
	return cluster, envs, err
}

// virtualAddresses are a cluster's own addresses, with what each of them is.
func virtualAddresses(cluster *models.Cluster) map[netip.Addr]string {
	all := make(map[netip.Addr]string)
	note := func(ip, what string) {
		if a, err := netip.ParseAddr(ip); err == nil {
			all[a] = fmt.Sprintf("the %s VIP of cluster %s", what, cluster.Name)
		}
	}
	for _, vip := range cluster.IngressVips {
		note(string(vip.IP), "ingress")
	}
	for _, vip := range cluster.APIVips {
		note(string(vip.IP), "API")
	}
	return all
}

// checkVIPs refuses virtual addresses that a network description gives to a host.
func (e *Engine) checkVIPs(clusterID string, params *models.V2ClusterUpdateParams) error {
	if len(params.APIVips)+len(params.IngressVips) == 0 {
		return nil
	}
	cluster, envs, err := e.clusterWithInfraEnvs(clusterID)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("There is no cluster %s.", clusterID)
	}
	if err != nil {
		return err
	}
	wanted := virtualAddresses(&models.Cluster{Name: cluster.API.Name, APIVips: params.APIVips,
		IngressVips: params.IngressVips})
	for _, env := range envs {
		hosts, err := staticNetwork(env)
		if err != nil {
			continue
		}
		for _, a := range ignition.StaticAddresses(hosts) {
			if what, clash := wanted[a.Address.Addr()]; clash {
				return invalid("%s can't be %s: the static network of infra-env %s gives it to host %d (%s of %s).",
					a.Address.Addr(), what, *env.Name, a.Host, a.Field, a.Interface)
			}
		}
	}
	return nil
}
