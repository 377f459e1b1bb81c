package record

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/validation"
	"landfall/appliance/fault"
)

// HostKey returns the key of a host, <infra-env id>/<host id>.
func HostKey(h *Host) string { return h.API.InfraEnvID.String() + "/" + h.API.ID.String() }

// Host is the row of a host. The agent's reports and the validation results are rows of their own,
// because they are large and change independently: see reports.go and validations.go.
type Host struct {
	API         models.Host `json:"api"`
	Hostname    string      `json:"hostname,omitempty"`  // reported by the host
	ImagesOK    bool        `json:"images_ok,omitempty"` // whether all images were pulled in this preparation
	ImagesError string      `json:"images_error,omitempty"`
	// whether the installation disk was measured and is fast enough
	DiskOK    bool   `json:"disk_ok,omitempty"`
	DiskError string `json:"disk_error,omitempty"` // "" once the host is insufficient because of it
	Object    Object `json:"object,omitzero"`
	// revision of the store at which the agent's reports last changed
	Reported uint64 `json:"reported,omitempty"`

	// Restarting is the time at which a restart of the machine into a newer image was announced. It
	// is zero once the agent has registered again.
	Restarting time.Time `json:"restarting,omitzero"`

	// Token for the machine config server, for a host that joins an installed cluster.
	EndpointToken   string            `json:"ignition_endpoint_token,omitempty"`
	EndpointHeaders map[string]string `json:"ignition_endpoint_headers,omitempty"`

	// state of a host that joins an installed cluster which the appliance watches
	Joining *Joining `json:"joining,omitempty"`

	// includes the password, which the API does not show
	Fencing *models.FencingCredentialsParams `json:"fencing,omitempty"`
}

// IsDay2 reports whether the host joins an installed cluster.
func (h *Host) IsDay2() bool {
	return h.API.Kind != nil && *h.API.Kind == models.HostKindAddToExistingClusterHost
}

// IsRestarting reports whether the machine is restarting. Its agent is then ignored until it
// registers again.
func (h *Host) IsRestarting() bool { return !h.Restarting.IsZero() }

// TakeInventory stores the hostname and the disks of a reported inventory, whose disks are
// validated. It returns false if the report is too late: the host is being prepared or installed
// with the earlier ones. A host that loses its installation disk during the preparation takes the
// inventory, and DiskError ends its preparation, because nobody chose the other disk.
func (h *Host) TakeInventory(reported *models.Inventory) bool {
	chosen := inventory.NewHost(&h.API, nil).InstallationDiskPath()
	disk := inventory.ChooseInstallationDisk(reported, chosen)
	if !lifecycle.BeforeInstallation(*h.API.Status) {
		lost := inventory.DiskByPath(inventory.EligibleDisks(reported), chosen) == nil
		if !lost || !slices.Contains(lifecycle.HostPreparingStates, *h.API.Status) {
			return false
		}
		h.DiskOK, h.DiskError = false, "The host no longer has its installation disk "+chosen+
			", or can no longer be installed to it. Check the disks of the host, then press Install again."
	}
	h.Hostname = reported.Hostname
	h.API.DisksToBeFormatted = strings.Join(inventory.DisksToFormat(reported), ",")
	h.API.InstallationDiskID, h.API.InstallationDiskPath = "", ""
	if disk != nil {
		h.API.InstallationDiskID, h.API.InstallationDiskPath = inventory.DiskID(disk), inventory.DevicePath(disk)
	}
	return true
}

// CheckUpdate returns an error of kind Conflict if the state of the host does not allow the update.
// An installation reads the name, the role and the disks of its hosts.
func (h *Host) CheckUpdate(name string, params *models.HostUpdateParams) error {
	described := params.HostName != nil || params.HostRole != nil || len(params.DisksSelectedConfig) > 0 ||
		len(params.DisksSkipFormatting) > 0
	switch {
	case h.isBusy() || *h.API.Status == lifecycle.HostInstalled:
		return fault.New(fault.Conflict, "Host %s is %s and can't be changed now.", name, *h.API.Status)
	case described && !lifecycle.BeforeInstallation(*h.API.Status):
		return fault.New(fault.Conflict, "Host %s is %s; its name, role and disks can't be changed now. "+
			"Boot the host from the discovery image first.", name, *h.API.Status)
	}
	return nil
}

// isBusy reports whether the host is being prepared or installed.
func (h *Host) isBusy() bool {
	return *h.API.Status == lifecycle.HostPreparing || *h.API.Status == lifecycle.HostPrepared ||
		slices.Contains(lifecycle.HostInstallingStates, *h.API.Status)
}

// CheckRemoval returns an error of kind Conflict if the host must stay in its cluster (nil: none).
// The installation of the cluster needs its host until the end, but not a host that failed.
func (h *Host) CheckRemoval(name string, cluster *models.Cluster) error {
	switch {
	case cluster == nil:
		return nil
	case h.IsDay2() && h.isBusy():
		return fault.New(fault.Conflict, "Host %s is %s, because it joins cluster %s; reset the host first.", name,
			*h.API.Status, cluster.Name)
	case !h.IsDay2() && (h.isBusy() || *h.API.Status != lifecycle.HostFailed &&
		slices.Contains(lifecycle.ClusterInstallingStates, *cluster.Status)):
		return fault.New(fault.Conflict, "Host %s is %s, and the installation of cluster %s needs it; wait for the "+
			"end of the installation, or cancel the installation first.", name, *h.API.Status, cluster.Name)
	}
	return nil
}

// CheckDeletion is [Host.CheckRemoval] for the deletion of the host. A joining host that has
// restarted from its disk can be deleted: the appliance writes nothing to it any more.
func (h *Host) CheckDeletion(name string, cluster *models.Cluster) error {
	if h.IsDay2() && lifecycle.AfterReboot(h.API.Progress.CurrentStage) {
		return nil
	}
	return h.CheckRemoval(name, cluster)
}

// CheckJoining returns an error of kind Conflict unless the host joins an installed cluster. what
// names the rejected operation.
func (h *Host) CheckJoining(name, what string, cluster *models.Cluster) error {
	switch {
	case h.IsDay2():
		return nil
	case *h.API.Status == lifecycle.HostFailed && (*cluster.Status == lifecycle.ClusterInstalled ||
		*cluster.Status == lifecycle.ClusterAddingHosts):
		return fault.New(fault.Conflict, "Host %s can't be %s: cluster %s was installed without it. Let the cluster "+
			"accept more hosts, and boot the host from the discovery image again; it then joins the cluster.", name,
			what, cluster.Name)
	}
	return fault.New(fault.Conflict, "Host %s is part of the installation of cluster %s and is %s with it; only a "+
		"host that joins an installed cluster can be %s individually.", name, cluster.Name, what, what)
}

// ClearProgress clears the progress of the host's installation.
func (h *Host) ClearProgress() {
	h.API.Progress, h.API.ProgressStages = &models.HostProgressInfo{}, []models.HostStage{}
	h.API.ConnectionTimedOut = false
	h.API.LogsInfo, h.API.LogsStartedAt, h.API.LogsCollectedAt = models.LogsStateEmpty, strfmt.DateTime{},
		strfmt.DateTime{}
}

// SetFencing sets the BMC credentials of this host for fencing. The other node of a cluster of two
// nodes without an arbiter powers the host off with them. The password is stored outside of the
// API's part of the row, and is written only to the install-config.
func (h *Host) SetFencing(requested *models.FencingCredentialsParams) error {
	if requested == nil {
		return nil
	}
	credentials, shown, err := description.Fencing(requested)
	if err != nil {
		return err
	}
	h.Fencing, h.API.FencingCredentials = credentials, shown
	return nil
}

// JoiningStages lists the stages of a joining host in a cluster that the appliance does not watch.
// Stages after the restart are not reported.
func JoiningStages(h *Host) []models.HostStage {
	stages := HostStages(h, false)
	return stages[:slices.Index(stages, models.HostStageRebooting)+1]
}

// headerName matches the name of an HTTP header (RFC 9110, token).
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// SetEndpoint stores a host's credentials for the machine config server. An empty token and an
// empty list remove them.
func (h *Host) SetEndpoint(params *models.HostUpdateParams) error {
	if params.IgnitionEndpointToken != nil {
		h.EndpointToken = *params.IgnitionEndpointToken
		h.API.IgnitionEndpointTokenSet = h.EndpointToken != ""
	}
	if params.IgnitionEndpointHTTPHeaders == nil {
		return nil
	}
	headers := make(map[string]string)
	for _, header := range params.IgnitionEndpointHTTPHeaders {
		name, value := conv.Value(header.Key), conv.Value(header.Value)
		if !headerName.MatchString(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return fault.New(fault.Invalid,
				"The ignition endpoint's header %q can't be sent: its name or its value has characters "+
					"that HTTP headers can't contain.", name)
		}
		headers[name] = value
	}
	h.EndpointHeaders = headers
	return nil
}

// SetNodeLabels stores the labels of a host's node. An empty list removes them. Labels that
// Kubernetes would reject are an error of kind Invalid: the node could not register with them.
func (h *Host) SetNodeLabels(params []*models.NodeLabelParams) error {
	if params == nil {
		return nil
	}
	labels := make(map[string]string, len(params))
	for _, label := range params {
		labels[conv.Value(label.Key)] = conv.Value(label.Value)
	}
	if faults := metav1validation.ValidateLabels(labels, field.NewPath("node_labels")); len(faults) > 0 {
		return fault.New(fault.Invalid, "%s", faults.ToAggregate())
	}
	text, err := json.Marshal(labels)
	if err != nil {
		return err
	}
	h.API.NodeLabels = string(text)
	return nil
}

// HostStages lists the stages of a host's installation by role.
func HostStages(h *Host, singleNode bool) []models.HostStage {
	head := []models.HostStage{models.HostStageStartingInstallation, models.HostStageInstalling}
	switch {
	case singleNode:
		return append(head, models.HostStageWaitingForBootkube, models.HostStageWritingImageToDisk,
			lifecycle.StageCopyingRegistry,
			models.HostStageRebooting, models.HostStageJoined, models.HostStageDone)
	case h.API.Bootstrap:
		return append(head, models.HostStageWritingImageToDisk, lifecycle.StageCopyingRegistry,
			models.HostStageWaitingForControlPlane,
			models.HostStageWaitingForBootkube, models.HostStageWaitingForController, models.HostStageRebooting,
			models.HostStageConfiguring,
			models.HostStageJoined, models.HostStageDone)
	case h.API.Role == models.HostRoleWorker:
		return append(head, models.HostStageWritingImageToDisk, models.HostStageWaitingForControlPlane,
			models.HostStageRebooting,
			models.HostStageWaitingForIgnition, models.HostStageConfiguring, models.HostStageJoined,
			models.HostStageDone)
	}
	return append(head, models.HostStageWritingImageToDisk, lifecycle.StageCopyingRegistry, models.HostStageRebooting,
		models.HostStageConfiguring, models.HostStageJoined, models.HostStageDone)
}

// JoinCluster makes a registering host part of its cluster. If the cluster is installed, the host
// is a joining host. A host without a role becomes a worker if it joins an installed cluster, and a
// master in a single-node cluster.
func (h *Host) JoinCluster(cluster *models.Cluster) {
	h.API.Kind = hostKind(cluster)
	role := models.HostRoleAutoAssign
	switch {
	case h.IsDay2():
		role = models.HostRoleWorker
	case validation.SingleNode(cluster):
		role = models.HostRoleMaster
	}
	if h.API.Role == models.HostRoleAutoAssign && role != h.API.Role {
		h.API.Role, h.API.SuggestedRole = role, role
	}
	if h.IsDay2() {
		h.API.MachineConfigPoolName = cmp.Or(h.API.MachineConfigPoolName, string(h.API.Role))
		h.API.ProgressStages = JoiningStages(h)
	}
}

// SetRole sets the role of the host. The machine config pool of a joining host follows the role,
// unless a user chose another pool. No pool is named after the role auto-assign.
func (h *Host) SetRole(role models.HostRole) {
	if pool := h.API.MachineConfigPoolName; h.IsDay2() && (pool == "" || pool == string(h.API.Role)) {
		h.API.MachineConfigPoolName = string(role)
		if role == models.HostRoleAutoAssign {
			h.API.MachineConfigPoolName = ""
		}
	}
	h.API.Role = role
}

func hostKind(cluster *models.Cluster) *string {
	if cluster != nil && (*cluster.Status == lifecycle.ClusterAddingHosts ||
		conv.Value(cluster.Kind) == models.ClusterKindAddHostsCluster) {
		return conv.Pointer(models.HostKindAddToExistingClusterHost)
	}
	return conv.Pointer(models.HostKindHost)
}
