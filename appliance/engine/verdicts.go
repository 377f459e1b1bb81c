package engine

import (
	"encoding/json"
	"errors"

	"landfall/store"
)

// The outcome of the validations of a host or cluster is most of what there is to say of it, and nearly always what it
// was before. It is a row of its own, so that it is neither read nor written with every other change.

func hostSubject(key string) string   { return "host/" + key }
func clusterSubject(id string) string { return "cluster/" + id }

// loadValidations reads the validations_info of a host or cluster; "" if it was never validated.
func loadValidations(tx *store.Tx, subject string) (string, error) {
	text, err := verdictRows.Get(tx, subject)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(*text), nil
}

// setValidations replaces the validations_info of a host or cluster. It returns the one before and whether they differ.
func (c *change) setValidations(subject, text string) (before string, changed bool, err error) {
	before, err = loadValidations(c.tx, subject)
	if err != nil || before == text {
		return before, false, err
	}
	raw := json.RawMessage(text)
	return before, true, verdictRows.Put(c.tx, subject, &raw)
}
