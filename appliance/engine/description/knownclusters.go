package description

import (
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

// KindDisconnected is the kind of a cluster that is installed without the appliance.
// StatusUnmonitored is its state. The models of the API lack both.
const (
	KindDisconnected  = "DisconnectedCluster"
	StatusUnmonitored = "unmonitored"
)

// importedControlPlanes is the assumed number of control plane nodes of an imported cluster.
const importedControlPlanes = 3

// ImportedNames checks the parameters of an import. It returns the address of the cluster's API,
// its name and its base domain. An address of the form api.<name>.<domain> determines the name and
// the domain.
func ImportedNames(params *models.ImportClusterParams) (address, name, domain string, err error) {
	address = strings.TrimSpace(conv.Value(params.APIVipDnsname))
	name = conv.Value(params.Name)
	if address == "" {
		return "", "", "", invalid("The address of the cluster's API (api_vip_dnsname) is empty.")
	}
	if err := checkAPIAddress(address); err != nil {
		return "", "", "", err
	}
	if rest, ok := strings.CutPrefix(address, "api."); ok {
		if first, last, ok := strings.Cut(rest, "."); ok {
			name, domain = first, last
		}
	}
	return address, name, domain, CheckName(name)
}

// CheckDisconnected checks the name and version of a cluster that is installed without the
// appliance.
func CheckDisconnected(name, version string) error {
	if strings.TrimSpace(name) == "" {
		return invalid("The cluster's name is empty.")
	}
	if strings.TrimSpace(version) == "" {
		return invalid("The cluster's OpenShift version is empty.")
	}
	return CheckName(name)
}

// KnownCluster returns a cluster that has only a name.
func KnownCluster(id strfmt.UUID, name, kind, status, info string) models.Cluster {
	platform, mode := models.PlatformTypeBaremetal, models.ClusterHighAvailabilityModeFull
	return models.Cluster{
		ID: &id, Kind: &kind, Name: name, Status: &status, StatusInfo: &info,
		ControlPlaneCount: importedControlPlanes, HighAvailabilityMode: &mode,
		Platform:              &models.Platform{Type: &platform},
		UserManagedNetworking: conv.Pointer(false), NetworkType: conv.Pointer(models.ClusterNetworkTypeOVNKubernetes),
		Hyperthreading: models.ClusterHyperthreadingAll, VipDhcpAllocation: conv.Pointer(false),
		SchedulableMasters: conv.Pointer(false), SchedulableMastersForcedTrue: conv.Pointer(false),
		Imported: conv.Pointer(false),
		DiskEncryption: &models.DiskEncryption{EnableOn: conv.Pointer(models.DiskEncryptionEnableOnNone),
			Mode: conv.Pointer(models.DiskEncryptionModeTpmv2)},
		ClusterNetworks: []*models.ClusterNetwork{}, ServiceNetworks: []*models.ServiceNetwork{},
		MachineNetworks: []*models.MachineNetwork{},
		APIVips:         []*models.APIVip{}, IngressVips: []*models.IngressVip{},
		MonitoredOperators: []*models.MonitoredOperator{},
		Hosts:              []*models.Host{}, HostNetworks: []*models.HostNetwork{},
		Progress:     &models.ClusterProgressInfo{},
		FeatureUsage: "{}", UserName: "admin",
		LastInstallationPreparation: NotPrepared(),
	}
}

// NotPrepared returns the result of the preparation before an installation has started.
func NotPrepared() models.LastInstallationPreparation {
	return models.LastInstallationPreparation{Status: models.LastInstallationPreparationStatusNotStarted,
		Reason: "The installation has not been started yet."}
}

// APIAddress returns the address of a cluster's API for joining hosts: its VIP, or else its name.
func APIAddress(cluster *models.Cluster) string {
	if !conv.Value(cluster.UserManagedNetworking) && len(cluster.APIVips) > 0 {
		return string(cluster.APIVips[0].IP)
	}
	return "api." + cluster.Name + "." + cluster.BaseDNSDomain
}
