package engine

import (
	"encoding/json"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/catalog"
	"landfall/store"
)

// What is kept, and under which keys. The API's own types are kept as they are; what the API does
// not show lies beside them.
var (
	clusterRows  = store.NewBucket[clusterRecord]("clusters", 1).Cached()    // <cluster id>
	infraEnvRows = store.NewBucket[infraEnvRecord]("infra-envs", 1).Cached() // <infra-env id>
	hostRows     = store.NewBucket[hostRecord]("hosts", 1).Cached()          // <infra-env id>/<host id>
	reportRows   = store.NewBucket[json.RawMessage]("reports", 1)            // <infra-env id>/<host id>/<part>
	// cluster/<id>, host/<infra-env id>/<host id>
	validationRows = store.NewBucket[json.RawMessage]("validations", 1)
	recipeOrigins  = store.NewBucket[recipeOrigin]("recipe-origins", 1) // frozenFrom
	payloadRows    = store.NewBucket[payloadRecord]("payloads", 1)      // <pull spec>

	clusterHosts        = store.NewIndex("hosts-by-cluster")      // <cluster id>/<infra-env id>/<host id>
	clusterEnvs         = store.NewIndex("infra-envs-by-cluster") // <cluster id>/<infra-env id>
	hostInfraEnvs       = store.NewIndex("infra-envs-by-host")    // <host id>/<infra-env id>
	pendingPreparations = store.NewIndex("preparations")          // <cluster id>
	stateDeadlines      = store.NewDeadlines("deadlines")         // cluster/<id>, host/<infra-env id>/<host id>
	imageCodes          = store.NewIndex("infra-envs-by-code")    // <code>/<infra-env id>
	installerFiles      = store.NewFiles("files")                 // <cluster id>/<name>
	recipeFiles         = store.NewFiles("recipes")               // <infra-env id>
)

// clusterStatuses reads of a cluster's row no more than its status, for what is asked at each
// change of it.
var clusterStatuses = store.NewBucket[struct {
	API struct {
		Status string `json:"status"`
	} `json:"api"`
}]("clusters", 1)

// clusterRecord is a cluster with what belongs to it and is not shown.
type clusterRecord struct {
	API         models.Cluster `json:"api"` // without hosts and validations
	PullSecret  string         `json:"pull_secret,omitempty"`
	Release     *releaseRecord `json:"release,omitempty"`     // set when the payload was resolved
	Preparation *preparation   `json:"preparation,omitempty"` // the installer's run of the current installation
	InfraID     string         `json:"infra_id,omitempty"`
	IngressCA   bool           `json:"ingress_ca,omitempty"` // the kubeconfig holds the ingress certificate
	Completion  *completion    `json:"completion,omitempty"`
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

// releaseRecord names what a cluster's release payload holds that hosts are told of.
type releaseRecord struct {
	Image      string `json:"image"` // by digest, in its original repository
	Agent      string `json:"agent"`
	Installer  string `json:"installer"`
	Controller string `json:"controller"`
	MCO        string `json:"mco"`
	MustGather string `json:"must_gather"`
}

// preparation is one run of openshift-install for a cluster.
type preparation struct {
	ID        string    `json:"id"`
	StartedAt time.Time `json:"started_at"`
	Done      bool      `json:"done,omitempty"`
	Failed    string    `json:"failed,omitempty"` // the reason, as a sentence
}

// completion is what the controller in the cluster reported at the end.
type completion struct {
	At      time.Time `json:"at"`
	Success bool      `json:"success"`
	Error   string    `json:"error,omitempty"`
}

// infraEnvRecord is an infra-env with what belongs to it and is not shown.
type infraEnvRecord struct {
	API        models.InfraEnv `json:"api"`
	PullSecret string          `json:"pull_secret,omitempty"`
	Token      string          `json:"token,omitempty"` // the agent's X-Secret-Key
	Object     Object          `json:"object,omitzero"`
	Recipe     recipeNote      `json:"recipe,omitzero"`
	Code       imageCode       `json:"code,omitzero"`
}

// hostRecord is a host without what its agent reported and without the outcome of its validations,
// which are large and change by themselves: see facts.go and verdicts.go.
type hostRecord struct {
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

	// What a host that joins an installed cluster shows the machine config server.
	EndpointToken   string            `json:"ignition_endpoint_token,omitempty"`
	EndpointHeaders map[string]string `json:"ignition_endpoint_headers,omitempty"`

	// of a host that joins an installed cluster in which somebody looks after it
	Joining *Joining `json:"joining,omitempty"`

	// with the password, which the API does not show
	Fencing *models.FencingCredentialsParams `json:"fencing,omitempty"`
}

// day2 tells whether the host joins a cluster that is installed already.
func (h *hostRecord) day2() bool {
	return h.API.Kind != nil && *h.API.Kind == models.HostKindAddToExistingClusterHost
}

// restarts tells whether the machine is being restarted, so that its agent counts for nothing until
// it registers again.
func (h *hostRecord) restarts() bool { return !h.Restarting.IsZero() }

// payloadRecord remembers a resolved release payload, so that hosts can boot while the registry is
// away.
type payloadRecord struct {
	Image   string            `json:"image"`
	Digest  string            `json:"digest"`
	Version string            `json:"version"`
	Arch    string            `json:"arch"`
	Images  map[string]string `json:"images"`
}
