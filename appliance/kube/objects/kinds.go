// Package objects stores Kubernetes objects as rows of the store. The API server, the controllers
// and the engine read and write the same rows. The engine does so within its own transactions.
//
// An object is stored in the bucket "kubernetes" under the key
// "<group>/<resource>/[<namespace>/]<name>". The group of the core kinds is "core". The value is
// the object's JSON without metadata.resourceVersion, because the resourceVersion is the revision
// of the row's last change. The etcd3 storage of k8s.io/apiserver writes and expects this format.
// The JSON of a Secret is sealed with the site's key.
package objects

import (
	"strings"

	"landfall/store"
)

// Kind is a kind of object, with the names that the keys of its objects contain.
type Kind struct {
	Group, Version, Kind string
	Resource             string // the plural, in lower case
	Namespaced           bool
}

const coreGroup = "core" // name of the core group in keys

// The kinds in the manifests of sites, and the core kinds that they use.
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

// MadeForCluster is the label of the objects that were created for a cluster registered over REST
// or in the browser.
const MadeForCluster = "landfall.io/made-for-cluster"

// MadeForInfraEnv is the label of the objects that were created for such an infra-env, and are
// deleted with it.
const MadeForInfraEnv = "landfall.io/made-for-infra-env"

// LabelWatch marks a Secret for controllers of clusters and hosts. The Agent provider of Cluster
// API sets it on its Secrets with tokens, which are in another namespace than the Agents.
const LabelWatch = "agent-install.openshift.io/watch"

// NoDiskFits is the installation disk in an Agent if no disk fits the root device hints of its
// BareMetalHost. The engine rejects it, so that no other disk is overwritten.
const NoDiskFits = "/dev/not-found-by-hints"

// WarningAgent is the agent of the API's warnings that Landfall itself gives. The warnings of the
// libraries of Kubernetes, for example about the name of a finalizer, have none.
const WarningAgent = "landfall"

// Kinds lists all kinds, in the usual order of a site's manifests.
func Kinds() []Kind {
	return []Kind{
		Namespaces, Secrets, ConfigMaps, Events, ClusterImageSets, AgentServiceConfigs,
		ClusterDeployments, AgentClusterInstalls, NMStateConfigs, InfraEnvs, AgentClassifications, Agents,
		ManagedClusters, KlusterletAddonConfigs, BareMetalHosts, PreprovisioningImages, HardwareDatas,
	}
}

// APIVersion returns the apiVersion of the kind's objects, such as
// "agent-install.openshift.io/v1beta1".
func (k Kind) APIVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// String returns the name of the kind as users write it, such as
// "agents.agent-install.openshift.io".
func (k Kind) String() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

// Key returns the key of an object in the bucket. The namespace is ignored for cluster-scoped
// kinds.
func (k Kind) Key(namespace, name string) string { return k.prefix(namespace) + name }

// prefix returns the prefix of the keys of a namespace's objects. An empty namespace means all
// namespaces.
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

// rows holds all objects. Secrets are sealed, see [Seal].
var rows = store.NewBucket[row]("kubernetes", 1).CachedWeight(decodedWeight)

// Prefix returns the prefix of the keys of all objects in the store, as in store.Change.Key.
func Prefix() string { return rows.Prefix() }

// Expiry holds the times at which Events and other objects with a limited lifetime are deleted, by
// their keys in the bucket.
func Expiry() store.Deadlines { return store.NewDeadlines("kubernetes-expiry") }

// ParseKey parses the key of an object in the store. ok is false for other keys and for kinds that
// [Kinds] does not list.
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
