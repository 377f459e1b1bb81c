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
// +kubebuilder:printcolumn:name="Approved",type="boolean",JSONPath=".spec.approved",description="whether the host may be installed"
// +kubebuilder:printcolumn:name="Role",type="string",JSONPath=".status.role",description="the role of the host in the cluster"
// +kubebuilder:printcolumn:name="Stage",type="string",JSONPath=".status.progress.currentStage",description="the stage of the installation"
// +kubebuilder:printcolumn:name="Hostname",type="string",JSONPath=".status.inventory.hostname",description="the hostname that the host reports",priority=1
// +kubebuilder:printcolumn:name="Requested Hostname",type="string",JSONPath=".spec.hostname",description="the hostname that the spec sets",priority=1
type Agent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AgentSpec   `json:"spec,omitempty"`
	Status AgentStatus `json:"status,omitempty"`
}

// AgentSpec is the desired state of a host.
type AgentSpec struct {
	// The ClusterDeployment that the host belongs to. Without it, the host is in no cluster. It
	// can't be changed while the host is being installed.
	// +optional
	ClusterDeploymentName *ClusterReference `json:"clusterDeploymentName,omitempty"`
	// The role of the host: master, worker or arbiter, or auto-assign to let the appliance choose.
	Role models.HostRole `json:"role"`
	// The hostname that the host gets. Without it, the host keeps the name that it reports.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// The MachineConfigPool of a worker, if it is not the pool worker.
	// +optional
	MachineConfigPool string `json:"machineConfigPool,omitempty"`
	// Whether the host may be installed. A host that is not approved is never installed.
	Approved bool `json:"approved"`
	// The disk to install on: the id of a disk in status.inventory.disks. Without it, the appliance
	// chooses. Set either this or installation_disk_path.
	// +optional
	InstallationDiskID string `json:"installation_disk_id,omitempty"`
	// The disk to install on: the byID or byPath of a disk in status.inventory.disks.
	// +optional
	InstallationDiskPath string `json:"installation_disk_path,omitempty"`
	// JSON list of additional arguments of coreos-installer, as in ["--append-karg",
	// "console=ttyS0"].
	// +optional
	InstallerArgs string `json:"installerArgs,omitempty"`
	// JSON of an Ignition config that is merged into that of the host.
	// +optional
	IgnitionConfigOverrides string `json:"ignitionConfigOverrides,omitempty"`
	// The Secret with the key ignition-token. A host that joins a cluster sends this token to the
	// ignition endpoint.
	// +optional
	IgnitionEndpointTokenReference *SecretReference `json:"ignitionEndpointTokenReference,omitempty"`
	// Additional headers that the host sends to the ignition endpoint.
	// +optional
	IgnitionEndpointHTTPHeaders map[string]string `json:"ignitionEndpointHTTPHeaders,omitempty"`
	// Labels of the Node that the host becomes.
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// The Secret in the same namespace with the keys address, username, password and
	// certificateVerification. With it, the other node of a cluster of two nodes can power the host
	// off.
	// +optional
	FencingCredentialsSecretRef string `json:"fencingCredentialsSecretRef,omitempty"`
}

// AgentStatus is the observed state of a host.
type AgentStatus struct {
	// Whether the host is the bootstrap host, which installs the other control-plane hosts first.
	// +optional
	Bootstrap bool `json:"bootstrap,omitempty"`
	// The role of the host; for auto-assign in spec.role, the one that the appliance has chosen.
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
	// The disk that the host is installed on.
	// +optional
	InstallationDiskID string `json:"installation_disk_id,omitempty"`
	// +optional
	DeprovisionInfo *DeprovisionInfo `json:"deprovision_info,omitempty"`
	// +optional
	CSRStatus CSRStatus `json:"csrStatus,omitempty"`
	// Host, or AddToExistingClusterHost for a host that joins an installed cluster.
	// +optional
	Kind string `json:"kind,omitempty"`
}

// DebugInfo holds the URLs of events and logs, and the state of the host.
type DebugInfo struct {
	// +optional
	EventsURL string `json:"eventsURL,omitempty"`
	// +optional
	LogsURL string `json:"logsURL,omitempty"`
	// The state of the host, as in the REST API.
	// +optional
	State string `json:"state,omitempty"`
	// Why the host has this state.
	// +optional
	StateInfo string `json:"stateInfo,omitempty"`
}

// DeprovisionInfo names the cluster that a host was removed from.
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

// CSRStatus lists the approved certificate requests of a joining host.
type CSRStatus struct {
	// +optional
	ApprovedCSRs []ApprovedCSR `json:"approvedCSRs,omitempty"`
	// +optional
	LastApprovalAttempt *metav1.Time `json:"lastApprovalAttempt,omitempty"`
}

// ApprovedCSR is an approved certificate request; its type is client or serving.
type ApprovedCSR struct {
	Name       string      `json:"name"`
	Type       string      `json:"type"`
	ApprovedAt metav1.Time `json:"approvedAt"`
}

// HostProgress is the progress of an installation.
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

// HostNTPSource is an NTP server with its state on a host.
type HostNTPSource struct {
	// +optional
	SourceName string `json:"sourceName,omitempty"`
	// +optional
	SourceState models.SourceState `json:"sourceState,omitempty"`
}

// HostInventory is the hardware of a host.
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

// HostMemory is the memory of a host in bytes.
type HostMemory struct {
	// +optional
	PhysicalBytes int64 `json:"physicalBytes,omitempty"`
	// +optional
	UsableBytes int64 `json:"usableBytes,omitempty"`
}

// HostCPU describes all processors of a host.
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

// DiskEligibility reports whether a disk can be the installation disk, with the reasons if it
// can't.
type DiskEligibility struct {
	// +optional
	Eligible           bool     `json:"eligible,omitempty"`
	NotEligibleReasons []string `json:"notEligibleReasons"`
}

// DiskPerformance holds the measurements of a disk.
type DiskPerformance struct {
	// +optional
	SyncDurationMilliseconds int64 `json:"syncDurationMilliseconds,omitempty"`
}

// HostBoot describes how a host was booted.
type HostBoot struct {
	// +optional
	CurrentBootMode string `json:"currentBootMode,omitempty"`
	// +optional
	PXEInterface string `json:"pxeInterface,omitempty"`
	// +optional
	DeviceType string `json:"deviceType,omitempty"`
}

// HostSystemVendor is the manufacturer and the product of a host.
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

// AgentClassification labels the Agents whose inventory matches a query.
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

// AgentClassificationSpec holds the label, and the query that selects the Agents that get it.
type AgentClassificationSpec struct {
	LabelKey   string `json:"labelKey"`
	LabelValue string `json:"labelValue"`
	// A jq query on the inventory; it must return one boolean.
	Query string `json:"query"`
}

// AgentClassificationStatus counts the labelled Agents.
type AgentClassificationStatus struct {
	// +optional
	MatchedCount int64 `json:"matchedCount,omitempty"`
	// +optional
	ErrorCount int64 `json:"errorCount,omitempty"`
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
}
