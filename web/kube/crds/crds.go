// Package crds holds the custom resource definitions of the served kinds in the form of the store's
// rows. "make crds" generates them from the Go modules that define the kinds.
package crds

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Row is the row of a definition: its JSON without resourceVersion, in the state established.
// Because of that state, the server serves the kind when it starts: k8s.io/apiextensions-apiserver
// waits two seconds for a newly established definition.
type Row struct {
	Name   string          `json:"name"`
	Object json.RawMessage `json:"object"`
}

// Placeholder is the value in the rows that is replaced by the time of writing.
var Placeholder = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

//go:embed crds.json.gz
var packed []byte

//go:embed digest.txt
var digest string

// Digest returns the digest of the definitions, which is generated together with them.
func Digest() string { return strings.TrimSpace(digest) }

// Rows returns the definitions, established at the given time.
func Rows(established time.Time) ([]Row, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read the embedded resource definitions: %w", err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("read the embedded resource definitions: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte(Placeholder.Format(time.RFC3339)),
		[]byte(established.UTC().Format(time.RFC3339)))
	var rows []Row
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("read the embedded resource definitions: %w", err)
	}
	return rows, nil
}
