package record

import (
	"encoding/json"
	"errors"
	"unsafe"

	"landfall/store"
)

// The outcome of the validations of a host or cluster is most of what there is to say of it, and
// nearly always what it was before. It is a row of its own, so that it is neither read nor written
// with every other change.

// HostSubject returns the key of a host's validations.
func HostSubject(key string) string { return "host/" + key }

// ClusterSubject returns the key of a cluster's validations.
func ClusterSubject(id string) string { return "cluster/" + id }

// LoadValidations reads the validations_info of a host or cluster; nil if it was never validated.
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

// SetValidations replaces the validations_info of a host or cluster. It returns whether it differs
// from the one before, and that one if so.
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

// TextOf returns the text of a row as a string, without a copy. A row that was read is not changed.
func TextOf(row json.RawMessage) string { return unsafe.String(unsafe.SliceData(row), len(row)) }

// rowOf returns a text as a row to write, without a copy. The store copies a row when it writes it.
func rowOf(text string) json.RawMessage { return unsafe.Slice(unsafe.StringData(text), len(text)) }
