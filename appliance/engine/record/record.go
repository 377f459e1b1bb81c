// Package record holds the rows that the engine keeps in the store: clusters, infra-envs and hosts,
// with their buckets, indexes, keys, files and sealed secrets. It contains the rules for a single
// row; rules for several rows are in package engine. Only package engine writes these rows. Other
// packages write only the object of a row, for example with [NoteClusterObject].
//
// Design: docs/design.md#upstreams-models-as-the-data-model.
package record

import (
	"encoding/json"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/store"
)

// The buckets, indexes and files of the engine, with the form of their keys. Rows contain the API's
// own types, next to fields that the API does not show.
var (
	Clusters  = store.NewBucket[Cluster]("clusters", 1).Cached()    // <cluster id>
	InfraEnvs = store.NewBucket[InfraEnv]("infra-envs", 1).Cached() // <infra-env id>
	Hosts     = store.NewBucket[Host]("hosts", 1).Cached()          // <infra-env id>/<host id>
	Reports   = store.NewBucket[json.RawMessage]("reports", 1)      // <infra-env id>/<host id>/<part>
	// cluster/<id>, host/<infra-env id>/<host id>
	Validations   = store.NewBucket[json.RawMessage]("validations", 1).Derived()
	RecipeOrigins = store.NewBucket[RecipeOrigin]("recipe-origins", 1).Derived() // frozenFrom
	Payloads      = store.NewBucket[Payload]("payloads", 1).Derived()            // <pull spec>

	ClusterHosts        = store.NewIndex("hosts-by-cluster")      // <cluster id>/<infra-env id>/<host id>
	ClusterInfraEnvs    = store.NewIndex("infra-envs-by-cluster") // <cluster id>/<infra-env id>
	HostInfraEnvs       = store.NewIndex("infra-envs-by-host")    // <host id>/<infra-env id>
	PendingPreparations = store.NewIndex("preparations")          // <cluster id>
	StateDeadlines      = store.NewDeadlines("deadlines")         // cluster/<id>, host/<infra-env id>/<host id>
	ImageCodes          = store.NewIndex("infra-envs-by-code")    // <code>/<infra-env id>
	InstallerFiles      = store.NewFiles("files")                 // <cluster id>/<name>
	Recipes             = store.NewFiles("recipes")               // <infra-env id>
)

// InfraEnv is the row of an infra-env, with data that the API does not show.
type InfraEnv struct {
	API        models.InfraEnv `json:"api"`
	PullSecret string          `json:"pull_secret,omitempty"`
	AgentKeys  machine.Keys    `json:"agent_keys,omitzero"` // of the tokens of its machines
	Object     Object          `json:"object,omitzero"`
	Recipe     RecipeState     `json:"recipe,omitzero"`
	Code       ImageCode       `json:"code,omitzero"`
}

// Payload stores a resolved release payload, so that hosts can boot while the registry is
// unavailable.
type Payload struct {
	Image   string            `json:"image"`
	Digest  string            `json:"digest"`
	Version string            `json:"version"`
	Arch    string            `json:"arch"`
	Images  map[string]string `json:"images"`
}

// RecipeState identifies the stored recipe of an infra-env.
type RecipeState struct {
	Digest string `json:"digest,omitempty"` // "" until the agent's image is known
	Inputs string `json:"inputs,omitempty"` // fingerprint of its inputs
}

// RecipeOrigin is the fingerprint of the inputs that all recipes share, at the last refresh.
type RecipeOrigin struct {
	Digest string `json:"digest"` // see sharedInputs
	// Outdated lists the ids of the infra-envs whose recipes could not be refreshed.
	Outdated []string `json:"outdated,omitempty"`
}

// RecipeOriginKey is the key of the only [recipeOrigin].
const RecipeOriginKey = "all"

// ImageCode is the unguessable part of an infra-env's short image URL. The short URL is for BMCs
// that accept neither long URLs nor query strings.
type ImageCode struct {
	Code    string    `json:"code,omitempty"` // "" if it was revoked
	Expires time.Time `json:"expires,omitzero"`
	// the infra-env has had a code, so that a revoked code is not replaced automatically
	Given bool `json:"given,omitempty"`
}

func (c ImageCode) IsExpired(now time.Time) bool {
	return !c.Expires.IsZero() && !now.Before(c.Expires)
}

func PayloadKey(pullSpec, arch string) string { return arch + "/" + pullSpec }
