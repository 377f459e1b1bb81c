package engine

import (
	"fmt"
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/support"
	"landfall/appliance/engine/validation"
	"landfall/appliance/sentence"
)

// What a cluster is installed on and with how many control-plane nodes, by the rules of the
// Assisted Installer (internal/provider/platform.go, internal/bminventory/inventory.go). A platform
// stands for who looks after the networking: baremetal and nutanix do it themselves, none and
// external leave it to the user, vsphere does either.

// oracleCloud is the external platform that has an integration of its own.
const oracleCloud = "oci"

func networkingNever(kind models.PlatformType) bool {
	return kind == models.PlatformTypeBaremetal || kind == models.PlatformTypeNutanix
}

func networkingAlways(kind models.PlatformType) bool {
	return kind == models.PlatformTypeNone || kind == models.PlatformTypeExternal
}

// controlPlane completes the two ways in which the number of control-plane nodes is said: the older
// one knows one node (None) and three (Full).
func controlPlane(count *int64, mode *string) (int64, string) {
	none := models.ClusterHighAvailabilityModeNone
	switch {
	case count == nil && conv.Value(mode) == none:
		return 1, none
	case count == nil:
		return 3, models.ClusterHighAvailabilityModeFull
	case mode != nil:
		return *count, *mode
	case *count == 1:
		return 1, none
	}
	return *count, models.ClusterHighAvailabilityModeFull
}

// checkControlPlane refuses a number of control-plane nodes that an OpenShift version can't be
// installed with.
func checkControlPlane(version string, count int64, mode string) error {
	if mode == models.ClusterHighAvailabilityModeNone {
		if count != 1 {
			return invalid("A cluster whose high_availability_mode is %q has one control-plane node, not %d.",
				mode, count)
		}
		return nil
	}
	least, most := int64(2), int64(5) // two with an arbiter or fencing
	switch {
	case version == "" || inventory.AtLeast(version, 4, 19):
	case inventory.AtLeast(version, 4, 18):
		least = 3
	default:
		least, most = 3, 3
	}
	switch {
	case count >= least && count <= most:
		return nil
	case least == most:
		return invalid("A highly available cluster of OpenShift %s has %d control-plane nodes, not %d; others come "+
			"with 4.18.", version, most, count)
	}
	return invalid("A highly available cluster of OpenShift %s has %d to %d control-plane nodes, not %d.", version,
		least, most, count)
}

// setPlatform sets the platform of a new cluster and who looks after its networking.
func setPlatform(cluster *models.Cluster, asked *models.Platform, userManaged *bool) error {
	if err := checkPlatform(asked, userManaged); err != nil {
		return err
	}
	single := cluster.ControlPlaneCount == 1
	mainframe := cluster.CPUArchitecture == models.ClusterCPUArchitectureS390x ||
		cluster.CPUArchitecture == models.ClusterCPUArchitecturePpc64le
	kind, users := models.PlatformTypeBaremetal, conv.Value(userManaged)
	switch {
	case asked != nil:
		kind = *asked.Type
	case users || single || mainframe:
		kind = models.PlatformTypeNone
	}
	if userManaged != nil && !users && (single || mainframe) {
		return invalid("A single node and a cluster on %s or %s leave their networking to the user; leave "+
			"user_managed_networking out.",
			models.ClusterCPUArchitectureS390x, models.ClusterCPUArchitecturePpc64le)
	}
	if mainframe && !networkingAlways(kind) {
		return invalid("Platform %q is not there for %s; use %q or %q.", kind, cluster.CPUArchitecture,
			models.PlatformTypeNone, models.PlatformTypeExternal)
	}
	cluster.Platform = &models.Platform{Type: &kind}
	cluster.UserManagedNetworking = conv.Pointer(users || networkingAlways(kind))
	return completePlatform(cluster, asked)
}

// updatePlatform alters the platform of a cluster and who looks after its networking. Each may be
// asked for alone: then the other follows between baremetal and none, and must fit otherwise.
func updatePlatform(cluster *models.Cluster, asked *models.Platform, userManaged *bool) error {
	if asked == nil && userManaged == nil {
		return nil
	}
	if err := checkPlatform(asked, userManaged); err != nil {
		return err
	}
	held, users := *cluster.Platform.Type, conv.Value(cluster.UserManagedNetworking)
	kind := held
	switch {
	case asked != nil:
		kind = *asked.Type
	case *userManaged && held == models.PlatformTypeBaremetal:
		kind = models.PlatformTypeNone
	case !*userManaged && networkingAlways(held):
		kind = models.PlatformTypeBaremetal
	case *userManaged && networkingNever(held):
		return invalid("Platform %q looks after its networking itself; leave user_managed_networking out.", held)
	}
	pair := []models.PlatformType{models.PlatformTypeBaremetal, models.PlatformTypeNone}
	switch {
	case userManaged != nil:
		users = *userManaged
	case slices.Contains(pair, held) && slices.Contains(pair, kind):
		users = networkingAlways(kind)
	case networkingNever(kind) && users:
		return invalid("Platform %q looks after its networking itself; set user_managed_networking to false with it.",
			kind)
	case networkingAlways(kind) && !users:
		return invalid("Platform %q leaves its networking to the user; set user_managed_networking to true with it.",
			kind)
	}
	if cluster.ControlPlaneCount == 1 && !users {
		return invalid("A single node leaves its networking to the user; leave user_managed_networking out and use "+
			"platform %q or %q.", models.PlatformTypeNone, models.PlatformTypeExternal)
	}
	before := cluster.Platform.External
	cluster.Platform, cluster.UserManagedNetworking = &models.Platform{Type: &kind}, conv.Pointer(users)
	if held == models.PlatformTypeExternal && kind == held {
		cluster.Platform.External = before
	}
	return completePlatform(cluster, asked)
}

// checkPlatform refuses a platform and a way of networking that can't go together on any cluster.
func checkPlatform(asked *models.Platform, userManaged *bool) error {
	if asked == nil {
		return nil
	}
	kind := *asked.Type
	switch {
	case userManaged != nil && *userManaged && networkingNever(kind):
		return invalid("Platform %q looks after its networking itself; leave user_managed_networking out or choose "+
			"platform %q.", kind, models.PlatformTypeNone)
	case userManaged != nil && !*userManaged && networkingAlways(kind):
		return invalid("Platform %q leaves its networking to the user; leave user_managed_networking out or choose "+
			"platform %q.", kind, models.PlatformTypeBaremetal)
	case kind != models.PlatformTypeExternal && asked.External != nil && (asked.External.PlatformName != nil ||
		asked.External.CloudControllerManager != nil):
		return invalid("The settings of an external platform go with platform %q only, not with %q.",
			models.PlatformTypeExternal, kind)
	}
	return nil
}

// completePlatform adds the settings of an external platform to a cluster and refuses what its
// platform is not there for.
func completePlatform(cluster *models.Cluster, asked *models.Platform) error {
	kind := *cluster.Platform.Type
	if cluster.ControlPlaneCount == 1 && !networkingAlways(kind) {
		return invalid("A single node can't be installed on platform %q; use %q or %q.", kind, models.PlatformTypeNone,
			models.PlatformTypeExternal)
	}
	if kind != models.PlatformTypeExternal {
		return nil
	}
	external := models.PlatformExternal{CloudControllerManager: conv.Pointer(
		models.PlatformExternalCloudControllerManagerEmpty)}
	for _, from := range []*models.Platform{cluster.Platform, asked} {
		if from == nil || from.External == nil {
			continue
		}
		if from.External.PlatformName != nil {
			external.PlatformName = from.External.PlatformName
		}
		if from.External.CloudControllerManager != nil {
			external.CloudControllerManager = from.External.CloudControllerManager
		}
	}
	if conv.Value(external.PlatformName) == "" {
		return invalid("Platform %q needs the name of the platform; give external.platform_name with it.", kind)
	}
	if *external.PlatformName == oracleCloud &&
		*external.CloudControllerManager != models.PlatformExternalCloudControllerManagerExternal {
		return invalid("Oracle Cloud needs its cloud controller manager; set external.cloud_controller_manager to %q.",
			models.PlatformExternalCloudControllerManagerExternal)
	}
	cluster.Platform.External = &external
	return nil
}

// checkFeatures refuses a description that asks for something that the cluster's OpenShift version,
// architecture or platform does not have, or for two things that can't be had together.
func checkFeatures(cluster *models.Cluster) error {
	if cluster.OpenshiftVersion == "" {
		return nil
	}
	if err := featureQuery(cluster).CheckUse(usedFeatures(cluster)); err != nil {
		return &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
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

// usedFeatures are the features that a cluster's description makes use of.
func usedFeatures(cluster *models.Cluster) []models.FeatureSupportLevelID {
	q := featureQuery(cluster)
	used := []models.FeatureSupportLevelID{support.PlatformFeature(q.Platform, q.External)}
	v4, v6 := network.Families(slices.Concat(network.MachineNetworks(cluster), network.ClusterNetworks(cluster),
		network.ServiceNetworks(cluster)))
	users := conv.Value(cluster.UserManagedNetworking)
	for _, feature := range []struct {
		id   models.FeatureSupportLevelID
		used bool
	}{
		{models.FeatureSupportLevelIDSNO, cluster.ControlPlaneCount == 1},
		{models.FeatureSupportLevelIDNONSTANDARDHACONTROLPLANE, cluster.ControlPlaneCount > 3},
		{models.FeatureSupportLevelIDCLUSTERMANAGEDNETWORKING, !users},
		{models.FeatureSupportLevelIDUSERMANAGEDNETWORKING, users},
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

// checkHostFeatures refuses hosts that a cluster can't have: arbiters, and those with fencing
// credentials. A cluster that is installed already is not asked.
func checkHostFeatures(h *hostRecord, cluster *models.Cluster) error {
	if cluster == nil || validation.AddingHosts(cluster) {
		return nil
	}
	for _, feature := range []struct {
		id   models.FeatureSupportLevelID
		used bool
		what string
	}{
		{models.FeatureSupportLevelIDTNA, h.API.Role == models.HostRoleArbiter,
			"Host %s can't be an arbiter of cluster %s: %s"},
		{support.TwoNodesWithFencing, h.Fencing != nil, "Host %s can't have fencing credentials in cluster %s: %s"},
	} {
		if !feature.used {
			continue
		}
		if err := featureQuery(cluster).CheckUse([]models.FeatureSupportLevelID{feature.id}); err != nil {
			return &Error{Kind: Invalid, Reason: fmt.Sprintf(feature.what, h.API.ID, cluster.Name, sentence.Ending(err)),
				Err: err}
		}
	}
	return nil
}

// NetworkingOf tells whether the user looks after the networking of a new cluster of so many
// control-plane nodes, given what is asked for (nil: nothing). Contradictions are refused with kind
// Invalid.
func NetworkingOf(asked *models.Platform, userManaged *bool, controlPlanes int64) (users bool, err error) {
	cluster := &models.Cluster{ControlPlaneCount: controlPlanes}
	err = setPlatform(cluster, asked, userManaged)
	return conv.Value(cluster.UserManagedNetworking), err
}
