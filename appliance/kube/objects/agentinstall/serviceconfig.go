package agentinstall

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentServiceConfig holds the settings of the site. Only the object with the name agent has an
// effect.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=agentserviceconfigs,singular=agentserviceconfig,scope=Cluster
type AgentServiceConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AgentServiceConfigSpec   `json:"spec,omitempty"`
	Status AgentServiceConfigStatus `json:"status,omitempty"`
}

// AgentServiceConfigSpec holds the settings. Storage is accepted and ignored: the appliance stores
// everything in its data directory.
type AgentServiceConfigSpec struct {
	// +optional
	FileSystemStorage *corev1.PersistentVolumeClaimSpec `json:"filesystemStorage,omitempty"`
	// +optional
	DatabaseStorage *corev1.PersistentVolumeClaimSpec `json:"databaseStorage,omitempty"`
	// +optional
	ImageStorage *corev1.PersistentVolumeClaimSpec `json:"imageStorage,omitempty"`
	// The ConfigMap, in the appliance's namespace, with registries.conf and ca-bundle.crt.
	// +optional
	MirrorRegistryRef *corev1.LocalObjectReference `json:"mirrorRegistryRef,omitempty"`
	// +optional
	OSImages []OSImage `json:"osImages,omitempty"`
	// +optional
	MustGatherImages []MustGatherImage `json:"mustGatherImages,omitempty"`
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	IPXEHTTPRoute string `json:"iPXEHTTPRoute,omitempty"`
	// +optional
	UnauthenticatedRegistries []string `json:"unauthenticatedRegistries,omitempty"`
	// +optional
	OSImageCACertRef *corev1.LocalObjectReference `json:"OSImageCACertRef,omitempty"`
	// +optional
	OSImageAdditionalParamsRef *corev1.LocalObjectReference `json:"OSImageAdditionalParamsRef,omitempty"`
	// +optional
	Ingress *Ingress `json:"ingress,omitempty"`
}

// OSImage is a base image.
type OSImage struct {
	OpenshiftVersion string `json:"openshiftVersion"`
	Version          string `json:"version"`
	URL              string `json:"url"`
	// Not used: the root file system is read from the ISO.
	// +optional
	RootFSURL string `json:"rootFSUrl,omitempty"`
	// +optional
	CPUArchitecture string `json:"cpuArchitecture,omitempty"`
}

// MustGatherImage is the must-gather image of an OpenShift version.
type MustGatherImage struct {
	OpenshiftVersion string `json:"openshiftVersion"`
	Name             string `json:"name"`
	URL              string `json:"url"`
	// +kubebuilder:validation:Enum=x86_64;aarch64;arm64;ppc64le;s390x;multi
	// +optional
	CPUArchitecture string `json:"cpuArchitecture,omitempty"`
}

// Ingress is accepted and ignored: the appliance needs no ingress.
type Ingress struct {
	AssistedServiceHostname string `json:"assistedServiceHostname"`
	ImageServiceHostname    string `json:"imageServiceHostname"`
	// +optional
	ClassName *string `json:"className,omitempty"`
}

// AgentServiceConfigStatus is the observed state of the settings.
type AgentServiceConfigStatus struct {
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
}
