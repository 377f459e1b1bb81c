package engine

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/network"
	"landfall/store/fastjson"
)

// Features that can be seen in a cluster and its hosts at any time; see usage.go for the others.
// Names are those of the Assisted Installer (internal/usage/consts.go).
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

// usageNetworkType and usageArchitecture are "" for what is not told.
func usageNetworkType(kind string) string {
	switch kind {
	case models.ClusterNetworkTypeOVNKubernetes:
		return "OVN network type"
	case models.ClusterNetworkTypeOpenShiftSDN:
		return "SDN network type"
	}
	return ""
}

func usageArchitecture(architecture string) string {
	switch architecture {
	case models.ClusterCPUArchitectureArm64, models.ClusterCPUArchitectureS390x, models.ClusterCPUArchitecturePpc64le:
		return architecture + " architecture"
	}
	return ""
}

// seenFeatures are all features that can be seen.
func seenFeatures() []string {
	names := []string{
		usageDHCP, usageNTP, usageSingleNode, usageProxy, usageDualStack, usageDualStackVIPs, usageEncryption,
		usageTags, usageHyperthreading,
		usageUserNetworking, usagePlatform, usageNutanix, usageSchedulable, usageHostnames, usageVirtualHosts,
		usageStaticNetwork, usageKernelArgs, usageFIPS,
	}
	for _, kind := range []string{models.ClusterNetworkTypeOVNKubernetes, models.ClusterNetworkTypeOpenShiftSDN} {
		names = append(names, usageNetworkType(kind))
	}
	for _, architecture := range []string{models.ClusterCPUArchitectureArm64, models.ClusterCPUArchitectureS390x,
		models.ClusterCPUArchitecturePpc64le} {
		names = append(names, usageArchitecture(architecture))
	}
	return names
}

// uses are features that are used, with what is told of each.
type uses map[string]map[string]any

func (u uses) note(used bool, name string, data map[string]any) {
	if used && name != "" {
		u[name] = data
	}
}

func usesOf(api *models.Cluster) uses {
	u := uses{}
	u.note(conv.Value(api.VipDhcpAllocation), usageDHCP, nil)
	u.note(api.AdditionalNtpSource != "", usageNTP,
		map[string]any{"source_count": float64(strings.Count(api.AdditionalNtpSource, ",") + 1)})
	u.note(api.ControlPlaneCount == 1, usageSingleNode, nil)
	proxies := map[string]any{}
	for name, value := range map[string]string{"http_proxy": api.HTTPProxy, "https_proxy": api.HTTPSProxy,
		"no_proxy": api.NoProxy} {
		if value != "" {
			proxies[name] = 1.0
		}
	}
	u.note(len(proxies) > 0, usageProxy, proxies)
	u.note(true, usageNetworkType(conv.Value(api.NetworkType)), nil)
	v4, v6 := network.Families(slices.Concat(network.MachineNetworks(api), network.ClusterNetworks(api),
		network.ServiceNetworks(api)))
	u.note(v4 && v6, usageDualStack, nil)
	u.note(len(api.APIVips) > 1, usageDualStackVIPs, nil)
	if encryption := api.DiskEncryption; encryption != nil &&
		conv.Value(encryption.EnableOn) != models.DiskEncryptionEnableOnNone {
		data := map[string]any{"enable_on": conv.Value(encryption.EnableOn), "mode": conv.Value(encryption.Mode)}
		if encryption.TangServers != "" {
			data["tang_servers"] = encryption.TangServers
		}
		u.note(encryption.EnableOn != nil, usageEncryption, data)
	}
	u.note(api.Tags != "", usageTags, nil)
	u.note(api.Hyperthreading != models.ClusterHyperthreadingNone, usageHyperthreading,
		map[string]any{"hyperthreading_enabled": api.Hyperthreading})
	u.note(conv.Value(api.UserManagedNetworking) && api.ControlPlaneCount >= 3, usageUserNetworking, nil)
	u.note(conv.Value(api.SchedulableMasters), usageSchedulable, nil)
	if kind := platformKind(api); kind != models.PlatformTypeBaremetal && kind != models.PlatformTypeNone {
		u.note(true, usagePlatform, map[string]any{"platform_type": string(kind)})
		u.note(kind == models.PlatformTypeNutanix, usageNutanix, nil)
	}
	u.note(true, usageArchitecture(api.CPUArchitecture), nil)
	var override struct{ FIPS bool }
	u.note(api.InstallConfigOverrides != "" && json.Unmarshal([]byte(api.InstallConfigOverrides), &override) == nil &&
		override.FIPS, usageFIPS, nil)
	return u
}

func platformKind(api *models.Cluster) models.PlatformType {
	if api.Platform == nil || api.Platform.Type == nil {
		return models.PlatformTypeBaremetal
	}
	return *api.Platform.Type
}

// noteFeatures brings what is told of the features that a cluster uses in line with what can be
// seen of it.
func (c *change) noteFeatures(w *roster) error {
	api := &w.row.API
	seen := usesOf(api)
	named, virtual := 0, []any{}
	for i, h := range w.records {
		if h.API.RequestedHostname != "" {
			named++
		}
		if found := w.hosts[i].Inventory; found != nil && found.SystemVendor != nil && found.SystemVendor.Virtual {
			virtual = append(virtual, h.API.ID.String())
		}
	}
	seen.note(named > 0, usageHostnames, map[string]any{"host_count": float64(named)})
	seen.note(len(virtual) > 0 && !conv.Value(api.UserManagedNetworking), usageVirtualHosts,
		map[string]any{"VM Hosts": virtual})
	if err := c.noteImages(api.ID.String(), seen); err != nil {
		return err
	}
	usages := make(map[string]models.Usage, len(seen))
	for name, data := range seen {
		usages[name] = models.Usage{ID: usageID(name), Name: name, Data: data}
	}
	if text, err := fastjson.Marshal(usages); err != nil || string(text) == api.FeatureUsage {
		return err // nothing but what is seen was noted, and that
	}
	held := make(map[string]models.Usage)
	if api.FeatureUsage != "" {
		if err := fastjson.UnmarshalOwn([]byte(api.FeatureUsage), &held); err != nil {
			return err
		}
	}
	seeable := seenFeatures()
	for name, usage := range held {
		if !slices.Contains(seeable, name) {
			usages[name] = usage
		}
	}
	if reflect.DeepEqual(held, usages) {
		return nil
	}
	text, err := fastjson.Marshal(usages)
	if err != nil {
		return err
	}
	api.FeatureUsage = string(text)
	c.saveCluster(w.row)
	return nil
}

// noteImages looks at the infra-envs that a cluster's hosts boot from.
func (c *change) noteImages(clusterID string, seen uses) error {
	return clusterEnvs.Keys(c.tx, clusterID+"/", func(key string) error {
		env, err := c.infraEnv(strings.TrimPrefix(key, clusterID+"/"))
		if KindOf(err) == NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		seen.note(env.API.StaticNetworkConfig != "", usageStaticNetwork, nil)
		arguments := conv.Value(env.API.KernelArguments)
		seen.note(arguments != "" && arguments != "[]" && arguments != "null", usageKernelArgs, nil)
		return nil
	})
}

func usageID(name string) string {
	return strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(name, " ", "_"), ".", ""))
}
