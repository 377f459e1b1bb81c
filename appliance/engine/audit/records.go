package audit

import (
	"encoding/json"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/store"
)

// The parts of the engine's store that the auditor reads.
var (
	clusters    = store.NewBucket[clusterRecord]("clusters", 1)      // <cluster id>
	infraEnvs   = store.NewBucket[json.RawMessage]("infra-envs", 1)  // <infra-env id>
	hosts       = store.NewBucket[hostRecord]("hosts", 1)            // <infra-env id>/<host id>
	reports     = store.NewBucket[json.RawMessage]("reports", 1)     // <infra-env id>/<host id>/<part>
	validations = store.NewBucket[json.RawMessage]("validations", 1) // cluster/<id>, host/<infra-env id>/<host id>
	events      = store.NewBucket[models.Event]("events", 1)

	clusterHosts  = store.NewIndex("hosts-by-cluster")      // <cluster id>/<infra-env id>/<host id>
	clusterEnvs   = store.NewIndex("infra-envs-by-cluster") // <cluster id>/<infra-env id>
	hostInfraEnvs = store.NewIndex("infra-envs-by-host")    // <host id>/<infra-env id>
	preparations  = store.NewIndex("preparations")          // <cluster id>
	deadlines     = store.NewDeadlines("deadlines")         // cluster/<id>, host/<infra-env id>/<host id>
	imageCodes    = store.NewIndex("infra-envs-by-code")    // <code>/<infra-env id>
	files         = store.NewFiles("files")                 // <cluster id>/<name>
	recipes       = store.NewFiles("recipes")               // <infra-env id>
)

// clockTolerance is the largest jump of the clock that the engine ignores.
const clockTolerance = 30 * time.Second

type clusterRecord struct {
	API         models.Cluster `json:"api"`
	Preparation *struct {
		Done   bool   `json:"done"`
		Failed string `json:"failed"`
	} `json:"preparation"`
}

type hostRecord struct {
	API models.Host `json:"api"`
}
