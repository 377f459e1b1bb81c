package description

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/openshift/assisted-service/models"
)

// CreateInfraEnvFromObject copies the texts of an InfraEnv object's spec to a create request. The
// spec is a pointer to a struct whose string fields have the names of the fields in the table.
func CreateInfraEnvFromObject(params *models.InfraEnvCreateParams, spec any) {
	for _, f := range infraEnvFields {
		if f.inObject {
			give(params, f.Name, given(spec, f.Name))
		}
	}
}

// UpdateInfraEnvFromObject copies the texts of an InfraEnv object's spec to an update. An empty
// text clears its field.
func UpdateInfraEnvFromObject(params *models.InfraEnvUpdateParams, spec any) {
	for _, f := range infraEnvFields {
		if f.inObject {
			give(params, f.Name, cmp.Or(objectTextOf(spec, f.Name).String(), Cleared))
		}
	}
}

// CopyInfraEnvToObject copies the texts of an infra-env to the spec of its object. It reports
// whether the spec changed. Texts that differ only in surrounding white space stay unchanged.
func CopyInfraEnvToObject(spec any, env *models.InfraEnv) (changed bool) {
	described := &InfraEnv{API: *env}
	for _, f := range infraEnvFields {
		if !f.inObject {
			continue
		}
		value, err := f.get(described)
		if err != nil {
			panic("the text " + f.Name + " of an infra-env can't be read")
		}
		text, now := objectTextOf(spec, f.Name), value.(string)
		if strings.TrimSpace(text.String()) == strings.TrimSpace(now) {
			continue
		}
		text.SetString(now)
		changed = true
	}
	return changed
}

// objectTextOf returns the text of a field marked with inObject. Without the check, an update would
// set a text that the spec lacks to reflect's "<invalid Value>".
func objectTextOf(spec any, name string) reflect.Value {
	text := reflect.ValueOf(spec).Elem().FieldByName(name)
	if text.Kind() != reflect.String {
		panic(fmt.Sprintf("the field %s of infra-envs is marked with inObject, and %T has no text of this name", name,
			spec))
	}
	return text
}
