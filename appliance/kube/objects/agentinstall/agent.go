package agentinstall

import (
	"github.com/openshift/assisted-service/models"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Agent is a host that booted a discovery image. Its name is the host's id.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=agents,singular=agent
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".spec.clusterDeploymentName.name",description="the cluster that the host belongs to"
// +kubebuilder:printcolumn:name="Approved",type="boolean",JSONPath=".spec.approved",description="whether it may be installed"
// +kubebuilder:printcolumn:name="Role",type="string",JSONPath=".status.role",description="what it will be in the cluster"
// +kubebuilder:printcolumn:name="Stage",type="string",JSONPath=".status.progress.currentStage",description="how far its installation is"
// +kubebuilder:printcolumn:name="Hostname",type="string",JSONPath=".status.inventory.hostname",description="what it calls itself",priority=1
// +kubebuilder:printcolumn:name="Requested Hostname",type="string",JSONPath=".spec.hostname",description="what it is to be called",priority=1
type Agent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AgentSpec   `json:"spec,omitempty"`
	Status AgentStatus `json:"status,omitempty"`
}

// AgentSpec is what people want of a host.
type AgentSpec struct {
	// +optional
	ClusterDeploymentName *ClusterReference `json:"clusterDeploymentName,omitempty"`
	Role                  models.HostRole   `json:"role"`
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// +optional
	MachineConfigPool string `json:"machineConfigPool,omitempty"`
	// A host that is not approved is never installed.
	Approved bool `json:"approved"`
	// The disk to install to, by id or by path, not both.
	// +optional
	InstallationDiskID string `json:"installation_disk_id,omitempty"`
	// +optional
	InstallationDiskPath string `json:"installation_disk_path,omitempty"`
	// JSON list of further arguments of coreos-installer.
	// +optional
	InstallerArgs string `json:"installerArgs,omitempty"`
	// JSON of an Ignition config that is merged into the host's.
	// +optional
	IgnitionConfigOverrides string `json:"ignitionConfigOverrides,omitempty"`
	// The Secret with the key ignition-token.
	// +optional
	IgnitionEndpointTokenReference *SecretReference `json:"ignitionEndpointTokenReference,omitempty"`
	// +optional
	IgnitionEndpointHTTPHeaders map[string]string `json:"ignitionEndpointHTTPHeaders,omitempty"`
	// Labels of the Node that the host becomes.
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// The Secret of the same namespace with address, username, password and certificateVerification.
	// +optional
	FencingCredentialsSecretRef string `json:"fencingCredentialsSecretRef,omitempty"`
}

// AgentStatus is what is known of a host.
type AgentStatus struct {
	// +optional
	Bootstrap bool `json:"bootstrap,omitempty"`
	// +optional
	Role models.HostRole `json:"role,omitempty"`
	// +optional
	Inventory HostInventory `json:"inventory,omitempty"`
	// +optional
	Progress HostProgress `json:"progress,omitempty"`
	// +optional
	NTPSources []HostNTPSource `json:"ntpSources,omitempty"`
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// +optional
	DebugInfo DebugInfo `json:"debugInfo"`
	// +optional
	ValidationsInfo ValidationsInfo `json:"validationsInfo,omitempty"`
	// +optional
	InstallationDiskID string `json:"installation_disk_id,omitempty"`
	// +optional
	DeprovisionInfo *DeprovisionInfo `json:"deprovision_info,omitempty"`
	// +optional
	CSRStatus CSRStatus `json:"csrStatus,omitempty"`
	// Host, or AddToExistingClusterHost for one that joins a cluster which is installed.
	// +optional
	Kind string `json:"kind,omitempty"`
}

// DebugInfo is where to look when something is wrong.
type DebugInfo struct {
	// +optional
	EventsURL string `json:"eventsURL,omitempty"`
	// +optional
	LogsURL string `json:"logsURL,omitempty"`
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	StateInfo string `json:"stateInfo,omitempty"`
}

// DeprovisionInfo remembers the cluster that a host was taken out of.
type DeprovisionInfo struct {
	// +optional
	ClusterName string `json:"cluster_name,omitempty"`
	// +optional
	ClusterNamespace string `json:"cluster_namespace,omitempty"`
	// +optional
	NodeName string `json:"node_name,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// CSRStatus lists the certificate requests of a joining host that were approved.
type CSRStatus struct {
	// +optional
	ApprovedCSRs []ApprovedCSR `json:"approvedCSRs,omitempty"`
	// +optional
	LastApprovalAttempt *metav1.Time `json:"lastApprovalAttempt,omitempty"`
}

// ApprovedCSR is one of them; its type is client or serving.
type ApprovedCSR struct {
	Name       string      `json:"name"`
	Type       string      `json:"type"`
	ApprovedAt metav1.Time `json:"approvedAt"`
}

// HostProgress is how far an installation is.
type HostProgress struct {
	// +optional
	CurrentStage models.HostStage `json:"currentStage,omitempty"`
	// +optional
	ProgressStages []models.HostStage `json:"progressStages,omitempty"`
	// +optional
	ProgressInfo string `json:"progressInfo,omitempty"`
	// Percent.
	// +optional
	InstallationPercentage int64 `json:"installationPercentage,omitempty"`
	// +optional
	StageStartTime *metav1.Time `json:"stageStartTime,omitempty"`
	// +optional
	StageUpdateTime *metav1.Time `json:"stageUpdateTime,omitempty"`
}

// HostNTPSource is an NTP server as a host sees it.
type HostNTPSource struct {
	// +optional
	SourceName string `json:"sourceName,omitempty"`
	// +optional
	SourceState models.SourceState `json:"sourceState,omitempty"`
}

// HostInventory is a host's hardware.
type HostInventory struct {
	// +optional
	ReportTime *metav1.Time `json:"reportTime,omitempty"`
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// +optional
	BMCAddress string `json:"bmcAddress,omitempty"`
	// +optional
	BMCV6Address string `json:"bmcV6Address,omitempty"`
	// +optional
	Memory HostMemory `json:"memory,omitempty"`
	// +optional
	CPU HostCPU `json:"cpu,omitempty"`
	// +optional
	Interfaces []HostInterface `json:"interfaces,omitempty"`
	// +optional
	Disks []HostDisk `json:"disks,omitempty"`
	// +optional
	Boot HostBoot `json:"boot,omitempty"`
	// +optional
	SystemVendor HostSystemVendor `json:"systemVendor,omitempty"`
	// +optional
	GPUs []HostGPU `json:"gpus,omitempty"`
}

// HostMemory is in bytes.
type HostMemory struct {
	// +optional
	PhysicalBytes int64 `json:"physicalBytes,omitempty"`
	// +optional
	UsableBytes int64 `json:"usableBytes,omitempty"`
}

// HostCPU is all processors of a host.
type HostCPU struct {
	// +optional
	Count int64 `json:"count,omitempty"`
	// +optional
	ClockMegahertz int64 `json:"clockMegahertz,omitempty"`
	// +optional
	Flags []string `json:"flags,omitempty"`
	// +optional
	ModelName string `json:"modelName,omitempty"`
	// +optional
	Architecture string `json:"architecture,omitempty"`
}

// HostInterface is a network interface. Its three lists are never null.
type HostInterface struct {
	IPV6Addresses []string `json:"ipV6Addresses"`
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	HasCarrier bool `json:"hasCarrier,omitempty"`
	// +optional
	Product string `json:"product,omitempty"`
	// +optional
	MTU           int64    `json:"mtu,omitempty"`
	IPV4Addresses []string `json:"ipV4Addresses"`
	// +optional
	BIOSDevName string `json:"biosDevName,omitempty"`
	// +optional
	ClientID string `json:"clientID,omitempty"`
	// +optional
	MACAddress string   `json:"macAddress,omitempty"`
	Flags      []string `json:"flags"`
	// +optional
	SpeedMbps int64 `json:"speedMbps,omitempty"`
}

// HostDisk is a disk.
type HostDisk struct {
	ID string `json:"id"`
	// +optional
	DriveType string `json:"driveType,omitempty"`
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Path string `json:"path,omitempty"`
	// +optional
	HCTL string `json:"hctl,omitempty"`
	// +optional
	ByPath string `json:"byPath,omitempty"`
	// +optional
	ByID string `json:"byID,omitempty"`
	// +optional
	Model string `json:"model,omitempty"`
	// +optional
	WWN string `json:"wwn,omitempty"`
	// +optional
	Serial string `json:"serial,omitempty"`
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// +optional
	Bootable bool `json:"bootable,omitempty"`
	// +optional
	SMART string `json:"smart,omitempty"`
	// +optional
	InstallationEligibility DiskEligibility `json:"installationEligibility,omitempty"`
	// +optional
	IOPerf DiskPerformance `json:"ioPerf,omitempty"`
}

// DiskEligibility says whether a disk can be installed to, and if not, why.
type DiskEligibility struct {
	// +optional
	Eligible           bool     `json:"eligible,omitempty"`
	NotEligibleReasons []string `json:"notEligibleReasons"`
}

// DiskPerformance is what was measured of a disk.
type DiskPerformance struct {
	// +optional
	SyncDurationMilliseconds int64 `json:"syncDurationMilliseconds,omitempty"`
}

// HostBoot is how a host was booted.
type HostBoot struct {
	// +optional
	CurrentBootMode string `json:"currentBootMode,omitempty"`
	// +optional
	PXEInterface string `json:"pxeInterface,omitempty"`
	// +optional
	DeviceType string `json:"deviceType,omitempty"`
}

// HostSystemVendor is who made a host.
type HostSystemVendor struct {
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// +optional
	ProductName string `json:"productName,omitempty"`
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// +optional
	Virtual bool `json:"virtual,omitempty"`
}

// HostGPU is a graphics processor.
type HostGPU struct {
	// +optional
	Address string `json:"address,omitempty"`
	// +optional
	DeviceID string `json:"deviceID,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// +optional
	VendorID string `json:"vendorID,omitempty"`
}

// AgentClassification labels the Agents whose inventory a query is true of.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=agentclassifications,singular=agentclassification
type AgentClassification struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AgentClassificationSpec   `json:"spec,omitempty"`
	Status AgentClassificationStatus `json:"status,omitempty"`
}

// AgentClassificationSpec is the label and the query.
type AgentClassificationSpec struct {
	LabelKey   string `json:"labelKey"`
	LabelValue string `json:"labelValue"`
	// In jq's language, over the inventory; it must yield one boolean.
	Query string `json:"query"`
}

// AgentClassificationStatus counts.
type AgentClassificationStatus struct {
	// +optional
	MatchedCount int64 `json:"matchedCount,omitempty"`
	// +optional
	ErrorCount int64 `json:"errorCount,omitempty"`
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
}
