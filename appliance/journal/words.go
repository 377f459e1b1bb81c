package journal

import "strings"

// stateNames are the words of the page for the states of hosts and clusters whose own names are not
// words for a person.
var stateNames = map[string]string{
	"known":                          "ready",
	"known-unbound":                  "available",
	"pending-for-input":              "needs input",
	"preparing-for-installation":     "preparing",
	"preparing-successful":           "prepared",
	"preparing-failed":               "preparation failed",
	"installing-in-progress":         "installing",
	"installing-pending-user-action": "needs an action",
	"added-to-existing-cluster":      "joined",
	"adding-hosts":                   "adding hosts",
	"resetting-pending-user-action":  "boot it to reset",
	"unbinding-pending-user-action":  "boot it to unbind",
	"reclaiming":                     "being reclaimed",
	"reclaiming-rebooting":           "being reclaimed",
	"error":                          "failed",
}

// stateName returns the words for a state.
func stateName(state string) string {
	if name := stateNames[state]; name != "" {
		return name
	}
	return strings.TrimSuffix(state, "-unbound")
}

// verdictOf returns the predicate for the status of a validation.
func verdictOf(status string) string {
	switch status {
	case "success":
		return "passes"
	case "failure":
		return "fails"
	case "pending":
		return "is pending"
	case "disabled":
		return "is disabled"
	}
	return "has an error"
}
