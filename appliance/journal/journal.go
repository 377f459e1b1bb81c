// Package journal is a cluster's black box: what happened to it, step by step, for somebody who was
// not there.
//
// A recording begins with what was there before the first step (mostly nothing) and goes on with
// the steps: each is one change that was committed, with the operation that made it and what it did
// to each object as a JSON patch (RFC 6902). Who applies the steps in order sees every state that
// the cluster and its hosts were in, and ends with the state whose hash the site that made the
// recording has signed. Secrets are taken out before patches are made and hashes are computed, so
// that nothing has to be trusted with them.
//
// Objects and not requests are recorded: replaying needs no engine of the same version, and tells
// what happened even where the engine was wrong.
//
// build.go makes a recording out of a store's history, redact.go takes secrets out, archive.go is
// the file, player.go plays it and story.go tells it to people.
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

// Recording is what happened to a cluster.
type Recording struct {
	ClusterID   string
	ClusterName string
	// Revision of the site's store at which the recording was made, and when that was.
	Revision uint64
	MadeAt   time.Time
	// Base are the objects that were there before the first step.
	Base []Object
	// Steps in order.
	Steps []Step
	// Dropped is how many changes of the recorded objects are older than the recording reaches.
	Dropped uint64
	// Hash is that of the state behind the last step: see State.Hash.
	Hash string
}

// Object is an object of the site's store.
type Object struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Step is one change of the site's state, whole.
type Step struct {
	Number   int       `json:"step"`     // from 1
	Revision uint64    `json:"revision"` // of its first change
	At       time.Time `json:"at,omitzero"`
	// the API's id, or what the appliance did by itself; "" if that has dropped out
	Operation string   `json:"operation,omitempty"`
	Request   string   `json:"request,omitempty"` // the request's id
	Host      string   `json:"host,omitempty"`    // the id of the host that it is about
	Reply     *Reply   `json:"reply,omitempty"`   // that a host's agent sent
	Changes   []Change `json:"changes"`
}

// Reply is an agent's reply to a step of its instructions. What it reports about the host is in the
// step's changes.
type Reply struct {
	Type     string `json:"type"`
	ID       string `json:"id,omitempty"`
	ExitCode int64  `json:"exit_code"`
	Bytes    int    `json:"bytes"` // of the whole output
	Output   string `json:"output,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Change is what a step did to one object: it was created, deleted or patched.
type Change struct {
	Revision uint64          `json:"revision"`
	Key      string          `json:"key"`
	Created  json.RawMessage `json:"created,omitempty"`
	Deleted  bool            `json:"deleted,omitempty"`
	Patch    []Edit          `json:"patch,omitempty"`
	// Sum is the beginning of the SHA-256 of the object behind the change, in hex.
	Sum string `json:"sum,omitempty"`
}

// State holds objects by their keys, as encoding/json decodes them with json.Number.
type State map[string]any

// Hash is the SHA-256, in hex, of the lines "<key> <value>\n" of all objects in the order of their
// keys; a value is its JSON with the members of objects in order, without white space and without
// escapes that JSON does not need.
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

// sumLength is how many hexadecimal digits of a hash tell an object's states apart.
const sumLength = 16

func sum(text []byte) string {
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])[:sumLength]
}
