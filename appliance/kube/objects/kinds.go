// Package objects keeps Kubernetes objects as rows of the store, so that the API server, the
// controllers and the engine read and write the same ones, the engine within its own transactions.
//
// An object lies in the bucket "kubernetes" under the key
// "<group>/<resource>/[<namespace>/]<name>"; the group of the core kinds is written "core". Its
// value is its JSON without metadata.resourceVersion, which is the revision that last changed the
// row: what k8s.io/apiserver's etcd3 storage writes and expects. The JSON of a Secret is sealed
// with the site's key.
package objects

import (
	"strings"

	"landfall/store"
)

// Kind is a kind of object: what it is called and where its objects lie.
type Kind struct {
	Group, Version, Kind string
	Resource             string // the plural, in lower case
	Namespaced           bool
}

const coreGroup = "core" // stands in keys for the group without a name

// The kinds of the site's manifests, and the core kinds that they come with.
var (
	Namespaces           = Kind{"", "v1", "Namespace", "namespaces", false}
	Secrets              = Kind{"", "v1", "Secret", "secrets", true}
	ConfigMaps           = Kind{"", "v1", "ConfigMap", "configmaps", true}
	Events               = Kind{"", "v1", "Event", "events", true}
	ClusterImageSets     = Kind{"hive.openshift.io", "v1", "ClusterImageSet", "clusterimagesets", false}
	ClusterDeployments   = Kind{"hive.openshift.io", "v1", "ClusterDeployment", "clusterdeployments", true}
	AgentClusterInstalls = Kind{"extensions.hive.openshift.io", "v1beta1", "AgentClusterInstall",
		"agentclusterinstalls", true}
	InfraEnvs            = Kind{"agent-install.openshift.io", "v1beta1", "InfraEnv", "infraenvs", true}
	NMStateConfigs       = Kind{"agent-install.openshift.io", "v1beta1", "NMStateConfig", "nmstateconfigs", true}
	Agents               = Kind{"agent-install.openshift.io", "v1beta1", "Agent", "agents", true}
	AgentClassifications = Kind{"agent-install.openshift.io", "v1beta1", "AgentClassification",
		"agentclassifications", true}
	AgentServiceConfigs = Kind{"agent-install.openshift.io", "v1beta1", "AgentServiceConfig", "agentserviceconfigs",
		false}
	BareMetalHosts        = Kind{"metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts", true}
	PreprovisioningImages = Kind{"metal3.io", "v1alpha1", "PreprovisioningImage", "preprovisioningimages", true}
	HardwareDatas         = Kind{"metal3.io", "v1alpha1", "HardwareData", "hardwaredata", true}
	ManagedClusters       = Kind{"cluster.open-cluster-management.io", "v1", "ManagedCluster", "managedclusters",
		false}
	KlusterletAddonConfigs = Kind{"agent.open-cluster-management.io", "v1", "KlusterletAddonConfig",
		"klusterletaddonconfigs", true}
)

// Kinds lists all of them, in the order in which manifests of a site are usually applied.
func Kinds() []Kind {
	return []Kind{
		Namespaces, Secrets, ConfigMaps, Events, ClusterImageSets, AgentServiceConfigs,
		ClusterDeployments, AgentClusterInstalls, NMStateConfigs, InfraEnvs, AgentClassifications, Agents,
		ManagedClusters, KlusterletAddonConfigs, BareMetalHosts, PreprovisioningImages, HardwareDatas,
	}
}

// APIVersion is the group and version as objects name them.
func (k Kind) APIVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// String is the kind's name as people write it, such as "agents.agent-install.openshift.io".
func (k Kind) String() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

// Key is where an object of the kind lies in the bucket. The namespace of a kind that has none is
// ignored.
func (k Kind) Key(namespace, name string) string { return k.prefix(namespace) + name }

// prefix is what the keys of a namespace's objects of the kind begin with, or of all namespaces for
// "".
func (k Kind) prefix(namespace string) string {
	group := k.Group
	if group == "" {
		group = coreGroup
	}
	prefix := group + "/" + k.Resource + "/"
	if k.Namespaced && namespace != "" {
		prefix += namespace + "/"
	}
	return prefix
}

// rows are sealed where they hold Secrets, see Seal.
var rows = store.NewBucket[row]("kubernetes", 1)

// Prefix is what the keys of all objects begin with in the store, in store.Change.Key for one.
func Prefix() string { return rows.Prefix() }

// Expiry holds when objects that are kept for a time only, such as Events, are to be removed, by
// their keys in the bucket.
func Expiry() store.Deadlines { return store.NewDeadlines("kubernetes-expiry") }

// ParseKey tells which object lies at a key of the store. It knows the kinds of Kinds only.
func ParseKey(storeKey string) (kind Kind, namespace, name string, ok bool) {
	key, ok := strings.CutPrefix(storeKey, Prefix())
	if !ok {
		return Kind{}, "", "", false
	}
	group, rest, _ := strings.Cut(key, "/")
	resource, rest, _ := strings.Cut(rest, "/")
	if group == coreGroup {
		group = ""
	}
	for _, k := range Kinds() {
		if k.Group != group || k.Resource != resource {
			continue
		}
		if k.Namespaced {
			namespace, rest, ok = strings.Cut(rest, "/")
		}
		return k, namespace, rest, ok && rest != ""
	}
	return Kind{}, "", "", false
}
