package record

import (
	"encoding/json"
	"errors"
	"unsafe"

	"landfall/store"
)

// The validation results of a host or cluster are large and rarely change. They are rows of their
// own, so that other changes neither read nor write them.

// HostSubject returns the key of a host's validations.
func HostSubject(key string) string { return "host/" + key }

// ClusterSubject returns the key of a cluster's validations.
func ClusterSubject(id string) string { return "cluster/" + id }

// LoadValidations returns the validations_info of a host or cluster. It is nil if it was never
// validated.
func LoadValidations(tx *store.Tx, subject string) (json.RawMessage, error) {
	text, err := Validations.Get(tx, subject)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return *text, nil
}

// SetValidations replaces the validations_info of a host or cluster. If the value changes,
// SetValidations returns true and the previous value.
func SetValidations(tx *store.Tx, subject string,
	text json.RawMessage) (before json.RawMessage, changed bool, err error) {
	if same, err := Validations.Holds(tx, subject, &text); err != nil || same {
		return nil, false, err
	}
	if before, err = LoadValidations(tx, subject); err != nil {
		return nil, false, err
	}
	return before, true, Validations.Put(tx, subject, &text)
}

// TextOf returns the text of a row without a copy. Rows that were read do not change.
func TextOf(row json.RawMessage) string { return unsafe.String(unsafe.SliceData(row), len(row)) }

// rowOf returns a text as a row without a copy. The store copies rows that are written.
func rowOf(text string) json.RawMessage { return unsafe.Slice(unsafe.StringData(text), len(text)) }
