package description

import (
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// The platform determines the networking of a cluster. baremetal and nutanix have cluster-managed
// networking, none and external have user-managed networking, and vsphere supports both.

// oracleCloud is the external platform that has its own integration.
const oracleCloud = "oci"

// clusterManagedOnly reports whether a platform supports only cluster-managed networking.
func clusterManagedOnly(kind models.PlatformType) bool {
	return kind == models.PlatformTypeBaremetal || kind == models.PlatformTypeNutanix
}

// userManagedOnly reports whether a platform supports only user-managed networking.
func userManagedOnly(kind models.PlatformType) bool {
	return kind == models.PlatformTypeNone || kind == models.PlatformTypeExternal
}

// controlPlane returns the number of control-plane nodes and the high-availability mode of a
// request. The mode is the older form: None means one node and Full means three.
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

// checkControlPlane rejects a number of control-plane nodes that an OpenShift version does not
// support.
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
		return invalid("A highly available cluster of OpenShift %s has %d control-plane nodes, not %d; OpenShift 4.18 "+
			"and later support other numbers.", version, most, count)
	}
	return invalid("A highly available cluster of OpenShift %s has %d to %d control-plane nodes, not %d.", version,
		least, most, count)
}

// setPlatform sets the platform of a new cluster and its user_managed_networking. cpu is the
// requested architecture: that of a cluster with a release for several architectures is multi.
func setPlatform(cluster *models.Cluster, cpu string, requested *models.Platform, userManaged *bool) error {
	if err := checkPlatform(requested, userManaged); err != nil {
		return err
	}
	single := cluster.ControlPlaneCount == 1
	mainframe := cpu == z || cpu == power
	kind, userManages := models.PlatformTypeBaremetal, conv.Value(userManaged)
	switch {
	case requested != nil:
		kind = *requested.Type
	case userManages || single || mainframe:
		kind = models.PlatformTypeNone
	}
	if userManaged != nil && !userManages && (single || mainframe) {
		return invalid("A single node and a cluster on %s or %s have user-managed networking; leave "+
			"user_managed_networking out.", z, power)
	}
	if mainframe && !userManagedOnly(kind) {
		return invalid("Platform %q is not available for %s; use %q or %q.", kind, cpu,
			models.PlatformTypeNone, models.PlatformTypeExternal)
	}
	cluster.Platform = &models.Platform{Type: &kind}
	cluster.UserManagedNetworking = conv.Pointer(userManages || userManagedOnly(kind))
	return completePlatform(cluster, requested)
}

// updatePlatform changes the platform of a cluster and its user_managed_networking. A request may
// have only one of the two values. If the platform changes between baremetal and none, the other
// value changes as well. For other platforms, both values must be consistent.
func updatePlatform(cluster *models.Cluster, requested *models.Platform, userManaged *bool) error {
	if requested == nil && userManaged == nil {
		return nil
	}
	if err := checkPlatform(requested, userManaged); err != nil {
		return err
	}
	current, userManages := *cluster.Platform.Type, conv.Value(cluster.UserManagedNetworking)
	kind := current
	switch {
	case requested != nil:
		kind = *requested.Type
	case *userManaged && current == models.PlatformTypeBaremetal:
		kind = models.PlatformTypeNone
	case !*userManaged && userManagedOnly(current):
		kind = models.PlatformTypeBaremetal
	case *userManaged && clusterManagedOnly(current):
		return invalid("Platform %q has cluster-managed networking; leave user_managed_networking out.", current)
	}
	pair := []models.PlatformType{models.PlatformTypeBaremetal, models.PlatformTypeNone}
	switch {
	case userManaged != nil:
		userManages = *userManaged
	case slices.Contains(pair, current) && slices.Contains(pair, kind):
		userManages = userManagedOnly(kind)
	case clusterManagedOnly(kind) && userManages:
		return invalid("Platform %q has cluster-managed networking; set user_managed_networking to false with it.",
			kind)
	case userManagedOnly(kind) && !userManages:
		return invalid("Platform %q has user-managed networking; set user_managed_networking to true with it.",
			kind)
	}
	if cluster.ControlPlaneCount == 1 && !userManages {
		return invalid("A single node has user-managed networking; leave user_managed_networking out and use "+
			"platform %q or %q.", models.PlatformTypeNone, models.PlatformTypeExternal)
	}
	external := cluster.Platform.External
	cluster.Platform, cluster.UserManagedNetworking = &models.Platform{Type: &kind}, conv.Pointer(userManages)
	if current == models.PlatformTypeExternal && kind == current {
		cluster.Platform.External = external
	}
	return completePlatform(cluster, requested)
}

// checkPlatform rejects inconsistent combinations of a platform and user_managed_networking.
func checkPlatform(requested *models.Platform, userManaged *bool) error {
	if requested == nil {
		return nil
	}
	kind := *requested.Type
	switch {
	case userManaged != nil && *userManaged && clusterManagedOnly(kind):
		return invalid("Platform %q has cluster-managed networking; leave user_managed_networking out or choose "+
			"platform %q.", kind, models.PlatformTypeNone)
	case userManaged != nil && !*userManaged && userManagedOnly(kind):
		return invalid("Platform %q has user-managed networking; leave user_managed_networking out or choose "+
			"platform %q.", kind, models.PlatformTypeBaremetal)
	case kind != models.PlatformTypeExternal && requested.External != nil && (requested.External.PlatformName != nil ||
		requested.External.CloudControllerManager != nil):
		return invalid("The settings of an external platform require platform %q, not %q.",
			models.PlatformTypeExternal, kind)
	}
	return nil
}

// completePlatform adds the settings of an external platform to a cluster. It rejects a cluster
// that the platform does not support.
func completePlatform(cluster *models.Cluster, requested *models.Platform) error {
	kind := *cluster.Platform.Type
	if cluster.ControlPlaneCount == 1 && !userManagedOnly(kind) {
		return invalid("A single node can't be installed on platform %q; use %q or %q.", kind, models.PlatformTypeNone,
			models.PlatformTypeExternal)
	}
	if kind != models.PlatformTypeExternal {
		return nil
	}
	external := models.PlatformExternal{CloudControllerManager: conv.Pointer(
		models.PlatformExternalCloudControllerManagerEmpty)}
	for _, from := range []*models.Platform{cluster.Platform, requested} {
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
		return invalid("Platform %q needs a platform name; give external.platform_name.", kind)
	}
	if *external.PlatformName == oracleCloud &&
		*external.CloudControllerManager != models.PlatformExternalCloudControllerManagerExternal {
		return invalid("Oracle Cloud needs its cloud controller manager; set external.cloud_controller_manager to %q.",
			models.PlatformExternalCloudControllerManagerExternal)
	}
	cluster.Platform.External = &external
	return nil
}

// UserManagesNetworking returns the user_managed_networking of a new cluster with the given number
// of control-plane nodes. A nil platform or userManaged is not requested.
func UserManagesNetworking(requested *models.Platform, userManaged *bool, controlPlanes int64) (bool, error) {
	cluster := &models.Cluster{ControlPlaneCount: controlPlanes}
	err := setPlatform(cluster, "", requested, userManaged)
	return conv.Value(cluster.UserManagedNetworking), err
}
