// Package addon contains the Go type of KlusterletAddonConfig
// (agent.open-cluster-management.io/v1), which selects the add-ons of a cluster that ACM manages.
// The appliance only stores and exports objects of this type.
//
// +kubebuilder:object:generate=false
// +groupName=agent.open-cluster-management.io
// +versionName=v1
package addon

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KlusterletAddonConfig selects the add-ons of ACM for a managed cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=klusterletaddonconfigs,singular=klusterletaddonconfig
type KlusterletAddonConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec KlusterletAddonConfigSpec `json:"spec,omitempty"`
	// +optional
	Status KlusterletAddonConfigStatus `json:"status,omitempty"`
}

// KlusterletAddonConfigSpec lists the add-ons.
type KlusterletAddonConfigSpec struct {
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	ClusterName string `json:"clusterName,omitempty"`
	// +optional
	ClusterNamespace string `json:"clusterNamespace,omitempty"`
	// +optional
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
	// +optional
	ProxyConfig *Proxy `json:"proxyConfig,omitempty"`
	// +optional
	ApplicationManager Addon `json:"applicationManager,omitempty"`
	// +optional
	CertPolicyController Addon `json:"certPolicyController,omitempty"`
	// +optional
	IAMPolicyController Addon `json:"iamPolicyController,omitempty"`
	// +optional
	PolicyController Addon `json:"policyController,omitempty"`
	// +optional
	SearchCollector Addon `json:"searchCollector,omitempty"`
}

// Proxy is the proxy between the add-ons and the hub.
type Proxy struct {
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	// +optional
	NoProxy string `json:"noProxy,omitempty"`
}

// Addon is one add-on.
type Addon struct {
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=Disabled;OCPGlobalProxy;CustomProxy
	ProxyPolicy string `json:"proxyPolicy,omitempty"`
}

// KlusterletAddonConfigStatus is the state that the hub writes.
type KlusterletAddonConfigStatus struct {
	// +optional
	OCPGlobalProxy *Proxy `json:"ocpGlobalProxy,omitempty"`
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
