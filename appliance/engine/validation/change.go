package validation

import (
	"encoding/json"

	"landfall/store/fastjson"
)

// Change is a validation that passed before and fails now, or failed before and passes now.
type Change struct {
	ID      ID
	Failed  bool
	Message string
}

func (c Change) Properties() map[string]any {
	if c.Failed {
		return map[string]any{"validation_id": c.ID, "validation_msg": c.Message, "failure_message": "fails now"}
	}
	return map[string]any{"validation_id": c.ID, "validation_msg": c.Message}
}

// Text describes the change with the sentence of the validation.
func (c Change) Text() string {
	if c.Failed {
		return "A check fails now: " + c.Message
	}
	return "A check passes now: " + c.Message
}

// Choose returns the first text for a validation that fails now, and the second for one that
// passes.
func (c Change) Choose(failed, passed string) string {
	if c.Failed {
		return failed
	}
	return passed
}

// Changes compares results with the previous report, in the format of [Report.JSON]. Without a
// previous report there are no changes. The first result of a validation is not a change.
func Changes(before json.RawMessage, after []Result) []Change {
	if len(before) == 0 {
		return nil
	}
	var groups map[string][]struct {
		ID     ID     `json:"id"`
		Status Status `json:"status"`
	}
	if err := fastjson.UnmarshalOwn(before, &groups); err != nil {
		return nil
	}
	held := make(map[ID]Status)
	for _, group := range groups {
		for _, result := range group {
			held[result.ID] = result.Status
		}
	}
	var changes []Change
	for _, result := range after {
		was := held[result.ID]
		if was == Success && result.Status == Failure || was == Failure && result.Status == Success {
			changes = append(changes, Change{result.ID, result.Status == Failure, result.Message})
		}
	}
	return changes
}
