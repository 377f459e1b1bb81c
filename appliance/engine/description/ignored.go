package description

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/validation"
)

// CheckIgnored rejects lists of ignored validations that are not valid JSON. It also rejects
// unknown validations, and those that must not be ignored.
func CheckIgnored(requested *models.IgnoredValidations) error {
	return FirstOf(
		checkIgnored("cluster", requested.ClusterValidationIds, validation.IsOfClusters,
			validation.NeverIgnoredForClusters()),
		checkIgnored("host", requested.HostValidationIds, validation.IsOfHosts, validation.NeverIgnoredForHosts()),
	)
}

// IgnoresAny reports whether a list of ignored validations is not empty.
func IgnoresAny(list string) bool { return strings.Trim(list, "[] \n\t") != "" }

func checkIgnored(object, list string, known func(validation.ID) bool, never []validation.ID) error {
	if list == "" {
		return nil
	}
	var ids []validation.ID
	if err := json.Unmarshal([]byte(list), &ids); err != nil {
		return invalid("The %s validations to ignore must be a JSON list of ids, such as [\"ntp-synced\"].", object)
	}
	var problems []string
	for _, id := range ids {
		switch {
		case id.IsAll():
			return nil
		case slices.Contains(never, id):
			problems = append(problems, fmt.Sprintf("%q can't be ignored", id))
		case !known(id):
			problems = append(problems, fmt.Sprintf("%q is not a %s validation", id, object))
		}
	}
	if len(problems) > 0 {
		return invalid("The list of ignored %s validations is invalid: %s.", object, strings.Join(problems, ", "))
	}
	return nil
}
