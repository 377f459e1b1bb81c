package agentinstall

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InfraEnv describes a discovery image.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=infraenvs,singular=infraenv
// +kubebuilder:printcolumn:name="ISO Created At",type="string",JSONPath=".status.createdTime",description="when the discovery image was made"
// +kubebuilder:printcolumn:name="ISO URL",type="string",JSONPath=".status.isoDownloadURL",description="where the discovery image is",priority=1
type InfraEnv struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   InfraEnvSpec   `json:"spec,omitempty"`
	Status InfraEnvStatus `json:"status,omitempty"`
}

// InfraEnvSpec is the desired state of an image.
type InfraEnvSpec struct {
	// +optional
	Proxy *Proxy `json:"proxy,omitempty"`
	// NTP servers in addition to those from DHCP.
	// +optional
	AdditionalNTPSources []string `json:"additionalNTPSources,omitempty"`
	// NTP servers instead of those from DHCP.
	// +optional
	NTPSources []string `json:"ntpSources,omitempty"`
	// SSH public keys, one per line, for logging in to discovered hosts.
	// +optional
	SSHAuthorizedKey string `json:"sshAuthorizedKey,omitempty"`
	// The Secret, in the same namespace, with the pull secret under the key .dockerconfigjson.
	PullSecretRef *corev1.LocalObjectReference `json:"pullSecretRef"`
	// Labels of the Agents of this image.
	// +optional
	AgentLabels map[string]string `json:"agentLabels,omitempty"`
	// Selects the NMStateConfigs of the namespace that are part of the image; empty selects none.
	// +optional
	NMStateConfigLabelSelector metav1.LabelSelector `json:"nmStateConfigLabelSelector,omitempty"`
	// The cluster that discovered hosts belong to. Without it, hosts are bound later. +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`
	// JSON of an Ignition config that is merged into that of the image.
	// +optional
	IgnitionConfigOverride string `json:"ignitionConfigOverride,omitempty"`
	// +kubebuilder:default=x86_64
	// +optional
	CPUArchitecture string `json:"cpuArchitecture,omitempty"`
	// +kubebuilder:default=DiscoveryImageAlways
	// +kubebuilder:validation:Enum="";DiscoveryImageAlways;BootOrderControl
	// +optional
	IPXEScriptType string `json:"ipxeScriptType"`
	// +optional
	KernelArguments []KernelArgument `json:"kernelArguments,omitempty"`
	// Certificate authorities in PEM that hosts trust additionally.
	// +optional
	AdditionalTrustBundle string `json:"additionalTrustBundle,omitempty"`
	// The openshiftVersion of an available OS image; not together with a clusterRef at creation.
	// +optional
	OSImageVersion string `json:"osImageVersion,omitempty"`
	// +optional
	MirrorRegistryRef *MirrorRegistryReference `json:"mirrorRegistryRef,omitempty"`
	// +kubebuilder:validation:Enum=full-iso;minimal-iso
	// +optional
	ImageType string `json:"imageType,omitempty"`
	// +optional
	AgentApproval *AgentApproval `json:"agentApproval,omitempty"`
	// How long a host waits for its network before the agent starts, in seconds.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NetworkDiscoveryDelaySeconds *int64 `json:"networkDiscoveryDelaySeconds,omitempty"`
}

// AgentApproval configures the automatic approval of Agents.
type AgentApproval struct {
	// +optional
	AutoApprove bool `json:"autoApprove,omitempty"`
}

// KernelArgument is one change of the image's kernel arguments.
type KernelArgument struct {
	// +kubebuilder:validation:Enum=append;replace;delete
	// +optional
	Operation string `json:"operation,omitempty"`
	// +kubebuilder:validation:Pattern=`^(?:(?:[^ \t\n\r"]+)|(?:"[^"]*"))+$`
	// +optional
	Value string `json:"value,omitempty"`
}

// Proxy is the proxy of hosts.
type Proxy struct {
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	// +optional
	NoProxy string `json:"noProxy,omitempty"`
}

// MirrorRegistryReference names the ConfigMap with registries.conf and ca-bundle.crt.
type MirrorRegistryReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// InfraEnvStatus is the observed state of an image, with its URL.
type InfraEnvStatus struct {
	// +optional
	ISODownloadURL string `json:"isoDownloadURL,omitempty"`
	// +optional
	CreatedTime *metav1.Time `json:"createdTime,omitempty"`
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// +optional
	AgentLabelSelector metav1.LabelSelector `json:"agentLabelSelector,omitempty"`
	// +optional
	DebugInfo InfraEnvDebugInfo `json:"debugInfo"`
	// +optional
	BootArtifacts BootArtifacts `json:"bootArtifacts"`
}

// InfraEnvDebugInfo holds the URLs of events and of the static network configuration.
type InfraEnvDebugInfo struct {
	// +optional
	EventsURL string `json:"eventsURL"`
	// +optional
	StaticNetworkDownloadURL string `json:"staticNetworkDownloadURL,omitempty"`
}

// BootArtifacts are the files for network boot.
type BootArtifacts struct {
	// +optional
	InitrdURL string `json:"initrd"`
	// +optional
	RootfsURL string `json:"rootfs"`
	// +optional
	KernelURL string `json:"kernel"`
	// +optional
	IpxeScriptURL string `json:"ipxeScript"`
	// +optional
	DiscoveryIgnitionURL string `json:"discoveryIgnitionURL"`
}

// NMStateConfig describes the network of the host with certain MAC addresses.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nmstateconfigs,singular=nmstateconfig
type NMStateConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NMStateConfigSpec `json:"spec,omitempty"`
}

// NMStateConfigSpec is the desired network of a host.
type NMStateConfigSpec struct {
	// The interfaces that identify the host, with their names in the description.
	// +kubebuilder:validation:MinItems=1
	Interfaces []Interface `json:"interfaces,omitempty"`
	// The state in the form of nmstate.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config map[string]any `json:"config,omitempty"`
}

// Interface is a network interface.
type Interface struct {
	Name string `json:"name"`
	// +kubebuilder:validation:Pattern=`^([0-9A-Fa-f]{2}[:]){5}([0-9A-Fa-f]{2})$`
	MACAddress string `json:"macAddress"`
}
