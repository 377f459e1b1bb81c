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
	// The proxy that hosts use while the image runs. The proxy of a cluster is in spec.proxy of its
	// AgentClusterInstall.
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
	// Labels that an Agent gets when its host registers.
	// +optional
	AgentLabels map[string]string `json:"agentLabels,omitempty"`
	// The labels of the NMStateConfigs, in the same namespace, with the network settings of the
	// hosts. An empty selector selects none: the hosts then use DHCP.
	// +optional
	NMStateConfigLabelSelector metav1.LabelSelector `json:"nmStateConfigLabelSelector,omitempty"`
	// The ClusterDeployment that the hosts belong to. It can't be changed. Without it, set
	// spec.clusterDeploymentName of each Agent.
	// +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`
	// JSON of an Ignition config that is merged into that of the image.
	// +optional
	IgnitionConfigOverride string `json:"ignitionConfigOverride,omitempty"`
	// The architecture of the hosts: x86_64, aarch64 (or arm64), ppc64le or s390x. It can't be
	// changed.
	// +kubebuilder:default=x86_64
	// +optional
	CPUArchitecture string `json:"cpuArchitecture,omitempty"`
	// How the iPXE script boots a host. DiscoveryImageAlways boots the image at every start.
	// BootOrderControl boots a host that is already installed from its disk.
	// +kubebuilder:default=DiscoveryImageAlways
	// +kubebuilder:validation:Enum="";DiscoveryImageAlways;BootOrderControl
	// +optional
	IPXEScriptType string `json:"ipxeScriptType"`
	// Changes of the kernel arguments that the image boots with.
	// +optional
	KernelArguments []KernelArgument `json:"kernelArguments,omitempty"`
	// Certificate authorities in PEM that hosts trust additionally.
	// +optional
	AdditionalTrustBundle string `json:"additionalTrustBundle,omitempty"`
	// The openshiftVersion of an available OS image; not together with a clusterRef at creation.
	// +optional
	OSImageVersion string `json:"osImageVersion,omitempty"`
	// The ConfigMap with the key registries.conf, and the key ca-bundle.crt if necessary. Hosts
	// pull images through these mirrors while the image runs. The mirrors of the installed cluster
	// are in spec.mirrorRegistryRef of its AgentClusterInstall.
	// +optional
	MirrorRegistryRef *MirrorRegistryReference `json:"mirrorRegistryRef,omitempty"`
	// A full-iso contains everything. A minimal-iso is small, and downloads its root file system
	// from the appliance when it boots. The default is minimal-iso, or the ISO_IMAGE_TYPE in the
	// ConfigMap of the AgentServiceConfig. s390x always has a full-iso.
	// +kubebuilder:validation:Enum=full-iso;minimal-iso
	// +optional
	ImageType string `json:"imageType,omitempty"`
	// Whether Agents are approved without a user.
	// +optional
	AgentApproval *AgentApproval `json:"agentApproval,omitempty"`
	// How long a host waits for its network before the agent starts, in seconds.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NetworkDiscoveryDelaySeconds *int64 `json:"networkDiscoveryDelaySeconds,omitempty"`
}

// AgentApproval configures the automatic approval of Agents.
type AgentApproval struct {
	// true approves each Agent when its host registers. Otherwise a user sets spec.approved of each
	// Agent.
	// +optional
	AutoApprove bool `json:"autoApprove,omitempty"`
}

// KernelArgument is one change of the image's kernel arguments.
type KernelArgument struct {
	// append adds the value, delete removes it, replace changes the value of an argument.
	// +kubebuilder:validation:Enum=append;replace;delete
	// +optional
	Operation string `json:"operation,omitempty"`
	// An argument, as in console=ttyS0. For replace, the name with the old and the new value, as in
	// console=tty0=ttyS0.
	// +kubebuilder:validation:Pattern=`^(?:(?:[^ \t\n\r"]+)|(?:"[^"]*"))+$`
	// +optional
	Value string `json:"value,omitempty"`
}

// Proxy is the proxy of hosts.
type Proxy struct {
	// URL of the proxy for HTTP, as in http://proxy.example.com:3128.
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`
	// URL of the proxy for HTTPS; in most cases the one for HTTP.
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	// Domains, addresses and networks that hosts contact without the proxy, separated by commas.
	// +optional
	NoProxy string `json:"noProxy,omitempty"`
}

// MirrorRegistryReference names the ConfigMap with registries.conf and ca-bundle.crt.
type MirrorRegistryReference struct {
	// The name of the ConfigMap.
	Name string `json:"name"`
	// The namespace of the ConfigMap.
	Namespace string `json:"namespace"`
}

// InfraEnvStatus is the observed state of an image, with its URL.
type InfraEnvStatus struct {
	// URL of the image. It contains a token, and changes with the image.
	// +optional
	ISODownloadURL string `json:"isoDownloadURL,omitempty"`
	// When the image was made or last changed.
	// +optional
	CreatedTime *metav1.Time `json:"createdTime,omitempty"`
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// Selects the Agents of this image, as in kubectl get agents -l KEY=VALUE.
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
	// The interfaces of the host. The host is the one with one of these MAC addresses.
	// +kubebuilder:validation:MinItems=1
	Interfaces []Interface `json:"interfaces,omitempty"`
	// The network settings in the format of nmstate (https://nmstate.io): interfaces, routes,
	// dns-resolver.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config map[string]any `json:"config,omitempty"`
}

// Interface is a network interface.
type Interface struct {
	// The name of the interface in config. It need not be the name on the host.
	Name string `json:"name"`
	// The MAC address of the interface, as in 52:54:00:aa:bb:cc.
	// +kubebuilder:validation:Pattern=`^([0-9A-Fa-f]{2}[:]){5}([0-9A-Fa-f]{2})$`
	MACAddress string `json:"macAddress"`
}
