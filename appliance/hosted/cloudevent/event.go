// Package cloudevent encodes and decodes the events between the appliance and work agents of Open
// Cluster Management: CloudEvents 1.0 with the extensions of open-cluster-management.io/sdk-go, as
// MQTT 5 messages.
//
// In the binary mode, each attribute is a user property with the prefix "ce-", the content type is
// a property of the message, and the data is the payload. The structured mode, one JSON object, is
// only read.
//
// The files in testdata were made by the SDK. The module web/clients/workagent compares them, and
// decodes with the SDK what this package encodes.
package cloudevent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// dataType is the only type of data of the agents' bundles.
const dataType = "io.open-cluster-management.works.v1alpha1.manifestbundles"

// SubResource is the part of a bundle that an event is about.
type SubResource string

// Spec and Status are the parts of a bundle.
const (
	Spec   SubResource = "spec"
	Status SubResource = "status"
)

// Action is what an event asks for or reports.
type Action string

// The actions.
const (
	Create         Action = "create_request"
	Update         Action = "update_request"
	Delete         Action = "delete_request"
	ResyncRequest  Action = "resync_request"
	ResyncResponse Action = "resync_response"
)

// Event is an event about a bundle, or a request to resync many.
type Event struct {
	ID          string
	Source      string
	SubResource SubResource
	Action      Action
	Time        time.Time

	Consumer string // extension clustername
	// OriginalSource is the source that has sent the bundle; empty in events of the source itself.
	OriginalSource string
	ResourceID     string // the bundle's ID; empty in requests to resync
	// ResourceVersion is the bundle's version; 0 in requests to resync.
	ResourceVersion int64
	SequenceID      string // of a status: snowflake in decimal
	StatusHash      string // of a status: lower-case hex SHA-256
	// Metadata is the metadata of the ManifestWork as a JSON object, or nil.
	Metadata json.RawMessage
	// Deleted is the time of a deletion; zero in other events.
	Deleted time.Time
	// Data is JSON, or nil in deletions.
	Data json.RawMessage
}

// Type returns the attribute type of the event.
func (e *Event) Type() string {
	return strings.Join([]string{dataType, string(e.SubResource), string(e.Action)}, ".")
}

// setType reads the attribute type.
func (e *Event) setType(text string) error {
	rest, ok := strings.CutPrefix(text, dataType+".")
	sub, action, both := strings.Cut(rest, ".")
	e.SubResource, e.Action = SubResource(sub), Action(action)
	if !ok || !both || e.SubResource != Spec && e.SubResource != Status {
		return fmt.Errorf("the type %q is not that of an event about bundles", text)
	}
	switch e.Action {
	case Create, Update, Delete, ResyncRequest, ResyncResponse:
		return nil
	}
	return fmt.Errorf("the action of the type %q is unknown", text)
}

// BundleData is the data of a spec event.
type BundleData struct {
	Manifests []json.RawMessage `json:"manifests"`
	// DeleteOption is null for the agent's default.
	DeleteOption json.RawMessage   `json:"deleteOption,omitempty"`
	Configs      []json.RawMessage `json:"manifestConfigs,omitempty"`
}

// Held is a bundle that an agent holds.
type Held struct {
	ID      string `json:"resourceID"`
	Version int64  `json:"resourceVersion"`
}

// HeldList is the data of an agent's request to resync specs.
type HeldList struct {
	Versions []Held `json:"resourceVersions"`
}

// KnownStatus is the status of a bundle as the source has it.
type KnownStatus struct {
	ID   string `json:"resourceID"`
	Hash string `json:"statusHash"`
}

// KnownStatuses is the data of the source's request to resync statuses. The agent answers for each
// member whose hash differs, and for all that it holds if the list is empty.
type KnownStatuses struct {
	Hashes []KnownStatus `json:"statusHashes"`
}

// NoStatusHash is the hash in KnownStatus of a bundle without a status. It differs from the hash of
// every status. It is the SHA-256 of nothing, as in Maestro.
const NoStatusHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
