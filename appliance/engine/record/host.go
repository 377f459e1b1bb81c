package record

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/validation"
	"landfall/appliance/fault"
)

// HostKey returns the key of a host, <infra-env id>/<host id>.
func HostKey(h *Host) string { return h.API.InfraEnvID.String() + "/" + h.API.ID.String() }

// Host is a host without what its agent reported and without the outcome of its validations,
// which are large and change by themselves: see facts.go and record/validations.go.
type Host struct {
	API         models.Host `json:"api"`
	Hostname    string      `json:"hostname,omitempty"`  // that the host calls itself
	ImagesOK    bool        `json:"images_ok,omitempty"` // all images were pulled in this preparation
	ImagesError string      `json:"images_error,omitempty"`
	DiskOK      bool        `json:"disk_ok,omitempty"` // the installation disk was measured and is fast enough
	DiskError   string      `json:"disk_error,omitempty"`
	Object      Object      `json:"object,omitzero"`
	// the store's revision when what its agent has said was altered last
	Reported uint64 `json:"reported,omitempty"`

	// Restarting is when it was said that the machine is restarted to boot a newer image; zero once
	// its agent registered again.
	Restarting time.Time `json:"restarting,omitzero"`

	// Token for the machine config server, for a host that joins an installed cluster.
	EndpointToken   string            `json:"ignition_endpoint_token,omitempty"`
	EndpointHeaders map[string]string `json:"ignition_endpoint_headers,omitempty"`

	// of a host that joins an installed cluster in which somebody looks after it
	Joining *Joining `json:"joining,omitempty"`

	// with the password, which the API does not show
	Fencing *models.FencingCredentialsParams `json:"fencing,omitempty"`
}

// IsDay2 reports whether the host joins an installed cluster.
func (h *Host) IsDay2() bool {
	return h.API.Kind != nil && *h.API.Kind == models.HostKindAddToExistingClusterHost
}

// IsRestarting tells whether the machine is being restarted, so that its agent counts for nothing
// until it registers again.
func (h *Host) IsRestarting() bool { return !h.Restarting.IsZero() }

// SetFencing sets the credentials with which the other node of a cluster of two nodes without an
// arbiter turns this host off. The password is stored beside the part of a host that the API shows,
// and is only written to the install-config.
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

// JoiningStages lists the stages of a joining host in a cluster that is not followed: no one
// reports the stages after its restart.
func JoiningStages(h *Host) []models.HostStage {
	stages := HostStages(h, false)
	return stages[:slices.Index(stages, models.HostStageRebooting)+1]
}

// headerName is the form of an HTTP header's name (RFC 9110, token).
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

// JoinCluster makes a registering host part of its cluster, or a joining host if the cluster is
// installed. A joining host is a worker, and the host of a single node is its control plane, until
// a person changes the role.
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

func hostKind(cluster *models.Cluster) *string {
	if cluster != nil && (*cluster.Status == lifecycle.ClusterAddingHosts ||
		conv.Value(cluster.Kind) == models.ClusterKindAddHostsCluster) {
		return conv.Pointer(models.HostKindAddToExistingClusterHost)
	}
	return conv.Pointer(models.HostKindHost)
}
