package description

import (
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/network"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/support"
	"landfall/appliance/engine/validation"
)

// CheckFeatures rejects a feature that the cluster's OpenShift version, architecture or platform
// does not support. It also rejects two features that exclude each other.
func CheckFeatures(cluster *models.Cluster) error {
	if cluster.OpenshiftVersion == "" {
		return nil
	}
	if err := featureQuery(cluster).CheckUse(usedFeatures(cluster)); err != nil {
		return wrapInvalid(err)
	}
	return nil
}

func featureQuery(cluster *models.Cluster) support.Query {
	q := support.Query{Version: cluster.OpenshiftVersion, Architecture: cluster.CPUArchitecture,
		Platform: *cluster.Platform.Type}
	if cluster.Platform.External != nil {
		q.External = conv.Value(cluster.Platform.External.PlatformName)
	}
	return q
}

// usedFeatures returns the features that a cluster's description uses.
func usedFeatures(cluster *models.Cluster) []models.FeatureSupportLevelID {
	q := featureQuery(cluster)
	used := []models.FeatureSupportLevelID{support.PlatformFeature(q.Platform, q.External)}
	v4, v6 := families(cluster)
	userManages := conv.Value(cluster.UserManagedNetworking)
	for _, feature := range []struct {
		id   models.FeatureSupportLevelID
		used bool
	}{
		{models.FeatureSupportLevelIDSNO, cluster.ControlPlaneCount == 1},
		{models.FeatureSupportLevelIDNONSTANDARDHACONTROLPLANE, cluster.ControlPlaneCount > 3},
		{models.FeatureSupportLevelIDCLUSTERMANAGEDNETWORKING, !userManages},
		{models.FeatureSupportLevelIDUSERMANAGEDNETWORKING, userManages},
		{models.FeatureSupportLevelIDVIPAUTOALLOC, conv.Value(cluster.VipDhcpAllocation)},
		{models.FeatureSupportLevelIDDUALSTACK, v4 && v6},
		{models.FeatureSupportLevelIDDUALSTACKVIPS, len(cluster.APIVips) > 1},
		{models.FeatureSupportLevelIDUSERMANAGEDLOADBALANCER, cluster.LoadBalancer != nil &&
			cluster.LoadBalancer.Type == models.LoadBalancerTypeUserManaged},
		{models.FeatureSupportLevelIDSDNNETWORKTYPE,
			conv.Value(cluster.NetworkType) == models.ClusterNetworkTypeOpenShiftSDN},
	} {
		if feature.used {
			used = append(used, feature.id)
		}
	}
	for _, name := range operator.Selected(cluster, true) {
		if o, ok := operator.ByName(name); ok {
			used = append(used, o.Feature)
		}
	}
	return used
}

// families reports whether a cluster has IPv4 networks and whether it has IPv6 networks.
func families(cluster *models.Cluster) (v4, v6 bool) {
	return network.Families(slices.Concat(network.MachineNetworks(cluster), network.ClusterNetworks(cluster),
		network.ServiceNetworks(cluster)))
}

// CheckHostFeatures rejects an arbiter, or a host with fencing credentials, if the host's cluster
// does not support it. An installed cluster accepts every host. The cluster may be nil.
func CheckHostFeatures(host *models.Host, fencing bool, cluster *models.Cluster) error {
	if cluster == nil || validation.AddingHosts(cluster) {
		return nil
	}
	for _, feature := range []struct {
		id      models.FeatureSupportLevelID
		used    bool
		problem string
	}{
		{models.FeatureSupportLevelIDTNA, host.Role == models.HostRoleArbiter,
			"Host %s can't be an arbiter of cluster %s"},
		{support.TwoNodesWithFencing, fencing, "Host %s can't have fencing credentials in cluster %s"},
	} {
		if !feature.used {
			continue
		}
		if err := featureQuery(cluster).CheckUse([]models.FeatureSupportLevelID{feature.id}); err != nil {
			return wrapInvalidf(err, feature.problem, host.ID, cluster.Name)
		}
	}
	return nil
}
