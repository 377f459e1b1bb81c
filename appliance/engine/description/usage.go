package description

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/store/fastjson"
)

// Names of features that can be computed at any time from the descriptions of a cluster, its
// infra-envs and hosts. The engine records other features when they are used. The names are those
// of the Assisted Installer (internal/usage/consts.go).
const (
	usageDHCP           = "VIP auto alloc."
	usageNTP            = "Additional NTP Source"
	usageSingleNode     = "SNO"
	usageProxy          = "Proxy"
	usageDualStack      = "Dual-stack"
	usageDualStackVIPs  = "Dual-stack VIPs"
	usageEncryption     = "Disk encryption"
	usageTags           = "Cluster Tags"
	usageHyperthreading = "Hyperthreading"
	usageUserNetworking = "User Managed Networking With Multi Node"
	usagePlatform       = "Platform selection"
	usageNutanix        = "Nutanix integration"
	usageSchedulable    = "Schedulable masters"
	usageHostnames      = "Requested hostname"
	usageVirtualHosts   = "Cluster managed networking with VMs"
	usageStaticNetwork  = "Static Network Config"
	usageKernelArgs     = "discovery kernel arguments"
	usageFIPS           = "FIPS"
)

// usageNetworkType returns the feature of a network type, or "".
func usageNetworkType(kind string) string {
	switch kind {
	case models.ClusterNetworkTypeOVNKubernetes:
		return "OVN network type"
	case models.ClusterNetworkTypeOpenShiftSDN:
		return "SDN network type"
	}
	return ""
}

// usageArchitecture returns the feature of an architecture, or "".
func usageArchitecture(cpu string) string {
	switch cpu {
	case arm, z, power:
		return cpu + " architecture"
	}
	return ""
}

// visibleFeatures returns the names of all features that [Uses] can hold.
func visibleFeatures() []string {
	names := []string{
		usageDHCP, usageNTP, usageSingleNode, usageProxy, usageDualStack, usageDualStackVIPs, usageEncryption,
		usageTags, usageHyperthreading,
		usageUserNetworking, usagePlatform, usageNutanix, usageSchedulable, usageHostnames, usageVirtualHosts,
		usageStaticNetwork, usageKernelArgs, usageFIPS,
	}
	for _, kind := range []string{models.ClusterNetworkTypeOVNKubernetes, models.ClusterNetworkTypeOpenShiftSDN} {
		names = append(names, usageNetworkType(kind))
	}
	for _, cpu := range []string{arm, z, power} {
		names = append(names, usageArchitecture(cpu))
	}
	return names
}

// Uses holds the used features, with the data that the API shows for each.
type Uses map[string]map[string]any

func (u Uses) add(used bool, name string, data map[string]any) {
	if used && name != "" {
		u[name] = data
	}
}

// ClusterUses returns the features that a cluster's description uses.
func ClusterUses(api *models.Cluster) Uses {
	u := Uses{}
	u.add(conv.Value(api.VipDhcpAllocation), usageDHCP, nil)
	u.add(api.AdditionalNtpSource != "", usageNTP,
		map[string]any{"source_count": float64(strings.Count(api.AdditionalNtpSource, ",") + 1)})
	u.add(api.ControlPlaneCount == 1, usageSingleNode, nil)
	proxies := map[string]any{}
	for name, value := range map[string]string{"http_proxy": api.HTTPProxy, "https_proxy": api.HTTPSProxy,
		"no_proxy": api.NoProxy} {
		if value != "" {
			proxies[name] = 1.0
		}
	}
	u.add(len(proxies) > 0, usageProxy, proxies)
	u.add(true, usageNetworkType(conv.Value(api.NetworkType)), nil)
	v4, v6 := families(api)
	u.add(v4 && v6, usageDualStack, nil)
	u.add(len(api.APIVips) > 1, usageDualStackVIPs, nil)
	if encryption := api.DiskEncryption; encryption != nil &&
		conv.Value(encryption.EnableOn) != models.DiskEncryptionEnableOnNone {
		data := map[string]any{"enable_on": conv.Value(encryption.EnableOn), "mode": conv.Value(encryption.Mode),
			"tang_servers": encryption.TangServers}
		u.add(encryption.EnableOn != nil, usageEncryption, data)
	}
	u.add(api.Tags != "", usageTags, nil)
	u.add(api.Hyperthreading != models.ClusterHyperthreadingNone, usageHyperthreading,
		map[string]any{"hyperthreading_enabled": api.Hyperthreading})
	u.add(conv.Value(api.UserManagedNetworking) && api.ControlPlaneCount >= 3, usageUserNetworking, nil)
	u.add(conv.Value(api.SchedulableMasters), usageSchedulable, nil)
	if kind := platformKind(api); kind != models.PlatformTypeBaremetal && kind != models.PlatformTypeNone {
		u.add(true, usagePlatform, map[string]any{"platform_type": string(kind)})
		u.add(kind == models.PlatformTypeNutanix, usageNutanix, nil)
	}
	u.add(true, usageArchitecture(api.CPUArchitecture), nil)
	var override struct{ FIPS bool }
	u.add(api.InstallConfigOverrides != "" && json.Unmarshal([]byte(api.InstallConfigOverrides), &override) == nil &&
		override.FIPS, usageFIPS, nil)
	return u
}

func platformKind(api *models.Cluster) models.PlatformType {
	if api.Platform == nil || api.Platform.Type == nil {
		return models.PlatformTypeBaremetal
	}
	return *api.Platform.Type
}

// AddHosts adds the features that the hosts of a cluster use: requested hostnames with their
// number, and virtual machines with the hosts' ids.
func (u Uses) AddHosts(api *models.Cluster, named int, virtual []any) {
	u.add(named > 0, usageHostnames, map[string]any{"host_count": float64(named)})
	u.add(len(virtual) > 0 && !conv.Value(api.UserManagedNetworking), usageVirtualHosts,
		map[string]any{"VM Hosts": virtual})
}

// AddInfraEnv adds the features that an infra-env of a cluster uses.
func (u Uses) AddInfraEnv(env *models.InfraEnv) {
	u.add(env.StaticNetworkConfig != "", usageStaticNetwork, nil)
	arguments := conv.Value(env.KernelArguments)
	u.add(arguments != "" && arguments != "[]" && arguments != "null", usageKernelArgs, nil)
}

// usageID returns the id of a feature.
func usageID(name string) string {
	return strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(name, " ", "_"), ".", ""))
}

// Features that the engine records. The names are those of the Assisted Installer
// (internal/usage/consts.go), because other programs read them.
const (
	UsageCustomManifest   = "Custom manifest"
	UsageInstallConfig    = "Install Config Overrides"
	UsageIgnitionOverride = "Ignition Config Override"
	UsageIgnored          = "Validations have been ignored for this cluster"
	UsageDayTwo           = "Day2 hosts"
	UsageAutomaticRoles   = "auto assign role"
)

// OverriddenKeys returns the usage data of install-config overrides: each overridden key, followed
// by the keys of its object in alphabetical order.
func OverriddenKeys(override string) map[string]any {
	var values map[string]any
	if json.Unmarshal([]byte(override), &values) != nil {
		return nil // the caller has rejected invalid overrides
	}
	data := make(map[string]any, len(values))
	for key, value := range values {
		object, _ := value.(map[string]any)
		data[strings.Join(append([]string{key}, slices.Sorted(maps.Keys(object))...), " ")] = true
	}
	return data
}

// SetUsage adds a feature to the feature_usage of a cluster with its data, or removes it. The
// feature_usage is a JSON object by feature name. SetUsage returns the same text if nothing
// changes.
func SetUsage(text, name string, used bool, data map[string]any) (string, error) {
	usages := make(map[string]models.Usage)
	if text != "" {
		if err := json.Unmarshal([]byte(text), &usages); err != nil {
			return "", err
		}
	}
	if held, found := usages[name]; found == used && (!used || reflect.DeepEqual(held.Data, data)) {
		return text, nil
	}
	if used {
		usages[name] = models.Usage{ID: usageID(name), Name: name, Data: data}
	} else {
		delete(usages, name)
	}
	encoded, err := json.Marshal(usages)
	return string(encoded), err
}

// Merge updates the feature_usage of a cluster with the computed features. Features that Uses
// cannot hold are kept. Merge returns the same text if nothing changes.
func (u Uses) Merge(text string) (string, error) {
	usages := make(map[string]models.Usage, len(u))
	for name, data := range u {
		usages[name] = models.Usage{ID: usageID(name), Name: name, Data: data}
	}
	if fresh, err := fastjson.Marshal(usages); err != nil || string(fresh) == text {
		return text, err // nothing changed, and there are no other features
	}
	held := make(map[string]models.Usage)
	if text != "" {
		if err := fastjson.UnmarshalOwn([]byte(text), &held); err != nil {
			return "", err
		}
	}
	visible := visibleFeatures()
	for name, usage := range held {
		if !slices.Contains(visible, name) {
			usages[name] = usage
		}
	}
	if reflect.DeepEqual(held, usages) {
		return text, nil
	}
	fresh, err := fastjson.Marshal(usages)
	return string(fresh), err
}
