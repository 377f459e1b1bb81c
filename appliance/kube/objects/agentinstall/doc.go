// Package agentinstall has the Go types of the kinds of agent-install.openshift.io/v1beta1:
// InfraEnv, NMStateConfig, Agent, AgentClassification and AgentServiceConfig. Their CRDs are
// generated from these types.
//
// The module that defines them (github.com/openshift/assisted-service/api) can't be used: every
// available version comes with admission webhooks that do not build with the Kubernetes libraries
// in use. The formats are those of its documentation. The types also have the fields that the
// product does not read, so that an object keeps what its author wrote.
//
// +kubebuilder:object:generate=false
// +groupName=agent-install.openshift.io
// +versionName=v1beta1
package agentinstall

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterReference names a ClusterDeployment.
type ClusterReference struct {
	// The name of the ClusterDeployment.
	// +optional
	Name string `json:"name,omitempty"`
	// The namespace of the ClusterDeployment.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// SecretReference names a Secret in any namespace.
type SecretReference struct {
	// The namespace of the Secret.
	Namespace string `json:"namespace"`
	// The name of the Secret.
	Name string `json:"name"`
}

// Condition is a condition with the times of its last transition and of its last heartbeat.
type Condition struct {
	Type   string                 `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ValidationResult is the result of one validation.
type ValidationResult struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// ValidationsInfo holds the results of validations by group.
type ValidationsInfo map[string][]ValidationResult
