// Package journal exports and replays the journal of a cluster: a signed file with the cluster's
// history in steps, for users without access to the site.
//
// A recording begins with the objects that existed before the first step (usually none). Each step
// is one committed change: its operation, and its effect on each object as a JSON patch (RFC 6902).
// A program that applies the steps in order passes through every state of the cluster and its
// hosts. It ends with the state whose hash the site has signed. Secrets are removed before the
// patches and hashes are computed, so a replay does not need them.
//
// A recording contains objects, not requests. A replay therefore needs no engine of the same
// version, and it shows the history correctly even if the engine had an error.
//
//	notes.go      what the store's history says of each change
//	collect.go    collects the history of a cluster from the store
//	build.go      makes a recording of it
//	redact.go     removes secrets
//	archive.go    writes and reads the file
//	replay.go     applies the steps
//	describe.go   describes the steps for people
//	service.go    makes journals of a running or a stopped appliance
//	recentlog.go  keeps the latest lines of the appliance's log
//
// Design: docs/design.md#a-journal-of-objects.
package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Recording is the history of a cluster.
type Recording struct {
	ClusterID   string
	ClusterName string
	Revision    uint64 // revision of the site's store at the time of the recording
	MadeAt      time.Time
	// Base holds the objects that existed before the first step.
	Base  []Object
	Steps []Step
	// Dropped is the number of older changes of these objects, which the recording does not
	// contain.
	Dropped uint64
	// Hash is the hash of the state after the last step: see State.Hash.
	Hash string
}

// Object is a row of the site's store.
type Object struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Step is one committed change of the site's store.
type Step struct {
	Number   int       `json:"step"`     // from 1
	Revision uint64    `json:"revision"` // of its first change
	At       time.Time `json:"at,omitzero"`
	// API operation ID, or the name of the appliance's own activity; "" if the store no longer has
	// it
	Operation string   `json:"operation,omitempty"`
	Request   string   `json:"request,omitempty"` // id of the HTTP request
	Host      string   `json:"host,omitempty"`    // ID of the affected host
	Reply     *Reply   `json:"reply,omitempty"`   // from a host's agent
	Changes   []Change `json:"changes"`
}

// Reply is an agent's reply to an instruction. The step's changes contain the reported facts about
// the host.
type Reply struct {
	Type     string `json:"type"`
	ID       string `json:"id,omitempty"`
	ExitCode int64  `json:"exit_code"`
	Bytes    int    `json:"bytes"` // length of the whole output
	Output   string `json:"output,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Change is the effect of a step on one object: its creation, its deletion, or a patch.
type Change struct {
	Revision uint64          `json:"revision"`
	Key      string          `json:"key"`
	Created  json.RawMessage `json:"created,omitempty"`
	Deleted  bool            `json:"deleted,omitempty"`
	Patch    []Edit          `json:"patch,omitempty"`
	// Sum is the beginning of the SHA-256 of the object after the change, in hex.
	Sum string `json:"sum,omitempty"`
}

// State maps keys to objects. An object has the types of encoding/json, with json.Number for
// numbers.
type State map[string]any

// Hash returns the SHA-256, in hex, of the lines "<key> <value>\n" of all objects in the order of
// their keys. A value is JSON with sorted members, without white space and without escapes that
// JSON does not need.
func (s State) Hash() (string, error) {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(s)) {
		text, err := canonical(s[key])
		if err != nil {
			return "", fmt.Errorf("hash %s: %w", key, err)
		}
		fmt.Fprintf(hash, "%s %s\n", key, text)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func canonical(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	return value, decoder.Decode(&value)
}

// sumLength is the number of hexadecimal digits in Change.Sum.
const sumLength = 16

func sum(text []byte) string {
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])[:sumLength]
}
