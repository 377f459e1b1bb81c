package record

import (
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/validation"
	"landfall/store"
)

// Cluster is a cluster with what belongs to it and is not shown.
type Cluster struct {
	API         models.Cluster `json:"api"` // without hosts and validations
	PullSecret  string         `json:"pull_secret,omitempty"`
	Release     *Release       `json:"release,omitempty"`     // set when the payload was resolved
	Preparation *Preparation   `json:"preparation,omitempty"` // the installer's run of the current installation
	InfraID     string         `json:"infra_id,omitempty"`
	IngressCA   bool           `json:"ingress_ca,omitempty"` // the kubeconfig holds the ingress certificate
	Completion  *Completion    `json:"completion,omitempty"`
	Installs    int            `json:"installs,omitempty"` // times Install was pressed
	UISettings  string         `json:"ui_settings,omitempty"`
	// of the address that a DHCP server gave, as dhclient keeps it
	APILease     string `json:"api_lease,omitempty"`
	IngressLease string `json:"ingress_lease,omitempty"`
	// the CatalogSources and OperatorHubs of its manifests
	Catalogs []catalog.ManifestObject `json:"catalogs,omitempty"`
	Object   Object                   `json:"object,omitzero"`
	// its machine network is the one that its VIPs or hosts have
	Follows bool `json:"machine_network_follows,omitempty"`

	MirrorGapsAccepted bool `json:"mirror_gaps_accepted,omitempty"` // it is installed although the mirror lacks images
}

// Release names what a cluster's release payload holds that hosts are told of.
type Release struct {
	Image      string `json:"image"` // by digest, in its original repository
	Agent      string `json:"agent"`
	Installer  string `json:"installer"`
	Controller string `json:"controller"`
	MCO        string `json:"mco"`
	MustGather string `json:"must_gather"`
}

// Preparation is one run of openshift-install for a cluster.
type Preparation struct {
	ID        string    `json:"id"`
	StartedAt time.Time `json:"started_at"`
	Done      bool      `json:"done,omitempty"`
	Failed    string    `json:"failed,omitempty"` // the reason, as a sentence
}

// Completion is what the controller in the cluster reported at the end.
type Completion struct {
	At      time.Time `json:"at"`
	Success bool      `json:"success"`
	Error   string    `json:"error,omitempty"`
}

// Describe changes the description of a cluster as requested.
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

// ClusterHostKeys lists the keys of a cluster's hosts in order.
func ClusterHostKeys(tx *store.Tx, clusterID string) ([]string, error) {
	var keys []string
	prefix := clusterID + "/"
	err := ClusterHosts.Keys(tx, prefix, func(key string) error {
		keys = append(keys, key[len(prefix):])
		return nil
	})
	return keys, err
}
