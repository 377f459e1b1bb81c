package record

import (
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/validation"
	"landfall/store"
)

// Cluster is the row of a cluster, with data that the API does not show.
type Cluster struct {
	API        models.Cluster `json:"api"` // without hosts and validations
	PullSecret string         `json:"pull_secret,omitempty"`
	Release    *Release       `json:"release,omitempty"` // set when the release payload was resolved
	// the run of openshift-install for the current installation
	Preparation *Preparation `json:"preparation,omitempty"`
	InfraID     string       `json:"infra_id,omitempty"`
	// whether the kubeconfig has the ingress certificate
	IngressCA  bool        `json:"ingress_ca,omitempty"`
	Completion *Completion `json:"completion,omitempty"`
	Installs   int         `json:"installs,omitempty"` // number of started installations
	UISettings string      `json:"ui_settings,omitempty"`
	// lease of the API VIP from a DHCP server, in the format of dhclient
	APILease     string `json:"api_lease,omitempty"`
	IngressLease string `json:"ingress_lease,omitempty"`
	// CatalogSources and OperatorHubs in the cluster's manifests
	Catalogs []catalog.ManifestObject `json:"catalogs,omitempty"`
	Object   Object                   `json:"object,omitzero"`
	// whether the machine network is derived from the VIPs or hosts
	Follows bool `json:"machine_network_follows,omitempty"`

	// whether the cluster is installed although the mirror lacks images
	MirrorGapsAccepted bool `json:"mirror_gaps_accepted,omitempty"`
	// MirrorProof describes the last noted result of a mirror check; "" before the first one.
	MirrorProof string `json:"mirror_proof,omitempty"`
}

// Release holds the contents of a cluster's release payload that hosts need.
type Release struct {
	Image      string `json:"image"` // by digest, in the original repository
	Agent      string `json:"agent"`
	Installer  string `json:"installer"`
	Controller string `json:"controller"`
	MCO        string `json:"mco"`
	MustGather string `json:"must_gather"`
	CoreOS     string `json:"coreos,omitempty"` // "" if the release names none
}

// Preparation is one run of openshift-install for a cluster.
type Preparation struct {
	ID        string    `json:"id"`
	StartedAt time.Time `json:"started_at"`
	Done      bool      `json:"done,omitempty"`
	Failed    string    `json:"failed,omitempty"` // the reason, as a sentence
}

// Completion is the final report of the controller in the cluster.
type Completion struct {
	At      time.Time `json:"at"`
	Success bool      `json:"success"`
	Error   string    `json:"error,omitempty"`
}

// Describe applies a requested change to the description of the cluster.
func (row *Cluster) Describe(params *models.V2ClusterUpdateParams) error {
	described := &description.Cluster{API: row.API, PullSecret: row.PullSecret, MachineNetworkDerived: row.Follows}
	if err := described.Update(params); err != nil {
		return err
	}
	row.API, row.PullSecret, row.Follows = described.API, described.PullSecret, described.MachineNetworkDerived
	if described.VIPsReset {
		row.APILease, row.IngressLease = "", ""
	}
	if validation.AddingHosts(&row.API) {
		return nil
	}
	if err := operator.UpdateSelection(&row.API, params.OlmOperators); err != nil {
		return err
	}
	return description.CheckFeatures(&row.API)
}

// IsInstalling reports whether the cluster is being installed, after its preparation.
func (row *Cluster) IsInstalling() bool {
	return slices.Contains(lifecycle.ClusterInstallingStates, *row.API.Status)
}

// TakesOperatorReports reports whether a report of an operator can be about the installation of the
// cluster. Before that, it comes from the controller of an earlier one. After it, the controller
// may repeat a lost report, and the reports about a failed installation help to find its cause.
func (row *Cluster) TakesOperatorReports() bool {
	return !slices.Contains(lifecycle.ClusterOpenStates, *row.API.Status) &&
		*row.API.Status != lifecycle.ClusterPreparing
}

// ClearInstallation clears the results of an earlier installation. A result that stays would count
// in the next installation.
func (row *Cluster) ClearInstallation() {
	row.Preparation, row.Completion, row.IngressCA, row.InfraID = nil, nil, false, ""
	row.API.OpenshiftClusterID = ""
	row.API.InstallStartedAt, row.API.InstallCompletedAt = strfmt.DateTime{}, strfmt.DateTime{}
	row.API.Progress, row.API.LastInstallationPreparation = &models.ClusterProgressInfo{}, description.NotPrepared()
	for _, operator := range row.API.MonitoredOperators {
		operator.Status, operator.StatusInfo, operator.Version = "", "", ""
	}
}

// NoteVIPs stores a host's verification of the virtual IPs and reports whether it changed one.
func (row *Cluster) NoteVIPs(response models.VerifyVipsResponse) (changed bool) {
	set := func(at **models.VipVerification, reported *models.VipVerification) {
		if reported != nil && (*at == nil || **at != *reported) {
			*at, changed = reported, true
		}
	}
	for _, found := range response {
		for _, vip := range row.API.APIVips {
			if found.VipType == models.VipTypeAPI && vip.IP == found.Vip {
				set(&vip.Verification, found.Verification)
			}
		}
		for _, vip := range row.API.IngressVips {
			if found.VipType == models.VipTypeIngress && vip.IP == found.Vip {
				set(&vip.Verification, found.Verification)
			}
		}
	}
	return changed
}

// ClusterHostKeys returns the keys of a cluster's hosts in order.
func ClusterHostKeys(tx *store.Tx, clusterID string) ([]string, error) {
	var keys []string
	prefix := clusterID + "/"
	err := ClusterHosts.Keys(tx, prefix, func(key string) error {
		keys = append(keys, key[len(prefix):])
		return nil
	})
	return keys, err
}
