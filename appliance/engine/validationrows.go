package engine

import (
	"encoding/json"
	"errors"
	"unsafe"

	"landfall/store"
)

// The outcome of the validations of a host or cluster is most of what there is to say of it, and
// nearly always what it was before. It is a row of its own, so that it is neither read nor written
// with every other change.

func hostSubject(key string) string   { return "host/" + key }
func clusterSubject(id string) string { return "cluster/" + id }

// loadValidations reads the validations_info of a host or cluster; nil if it was never validated.
func loadValidations(tx *store.Tx, subject string) (json.RawMessage, error) {
	text, err := validationRows.Get(tx, subject)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return *text, nil
}

// setValidations replaces the validations_info of a host or cluster. It returns whether it differs
// from the one before, and that one if so.
func (c *change) setValidations(subject string,
	text json.RawMessage) (before json.RawMessage, changed bool, err error) {
	if same, err := validationRows.Holds(c.tx, subject, &text); err != nil || same {
		return nil, false, err
	}
	if before, err = loadValidations(c.tx, subject); err != nil {
		return nil, false, err
	}
	return before, true, validationRows.Put(c.tx, subject, &text)
}

// textOf is a row's text as a string, without a copy: nobody alters what was read of a row.
func textOf(row json.RawMessage) string { return unsafe.String(unsafe.SliceData(row), len(row)) }

// rowOf is a text as that of a row to be written, without a copy: a row is copied when it is
// written.
func rowOf(text string) json.RawMessage { return unsafe.Slice(unsafe.StringData(text), len(text)) }
