package openapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/pagetest"
	"landfall/web/api"
	"landfall/web/api/openapi"
)

var update = flag.Bool("update", false, "write docs/values.md, and with LANDFALL_REALDATA upstream's values")

// The permitted values of each field, string type and query parameter in the API description of the
// Assisted Installer's current service, and the fields of each definition.
const (
	upstreamValues = "testdata/values.json"
	upstreamFields = "testdata/fields.json"
)

// schema is a schema of an OpenAPI document, or a definition of upstream's description.
type schema struct {
	Ref        string            `json:"$ref" yaml:"$ref"`
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	AllOf      []schema          `json:"allOf" yaml:"allOf"`
	Items      *schema           `json:"items"`
}

// valuesOf collects the permitted values of a schema and of its properties by their paths.
func valuesOf(path string, s schema, types map[string]schema, into map[string][]string) {
	if _, name, found := cutLast(s.Ref, "/"); found && len(types[name].Enum) > 0 {
		s.Enum = types[name].Enum
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, value := range s.Enum {
			values = append(values, fmt.Sprint(value))
		}
		slices.Sort(values)
		into[path] = values
	}
	for name, property := range s.Properties {
		valuesOf(path+"."+name, property, types, into)
	}
	for _, part := range s.AllOf {
		if _, name, found := cutLast(part.Ref, "/"); found {
			part = types[name]
		}
		valuesOf(path, part, types, into)
	}
	if s.Items != nil {
		valuesOf(path, *s.Items, types, into)
	}
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// fieldsOf returns the properties of a schema, including those of its parts.
func fieldsOf(s schema, types map[string]schema) []string {
	var names []string
	for _, part := range s.AllOf {
		if _, name, found := cutLast(part.Ref, "/"); found {
			part = types[name]
		}
		names = append(names, fieldsOf(part, types)...)
	}
	names = append(names, slices.Collect(maps.Keys(s.Properties))...)
	slices.Sort(names)
	return slices.Compact(names)
}

// plain returns a name without the marks in which Go's and upstream's names differ.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// TestValues_ofUpstreamAreCurrent compares the file with upstream's values with the API description
// in the directory of real data. With -update it writes the file.
func TestValues_ofUpstreamAreCurrent(t *testing.T) {
	realData := os.Getenv("LANDFALL_REALDATA")
	if realData == "" {
		t.Skip("LANDFALL_REALDATA is not set; upstream's API description is missing")
	}
	text, err := os.ReadFile(filepath.Join(realData, "assisted", "swagger.yaml"))
	require.NoError(t, err)
	var description struct {
		Definitions map[string]schema
		Paths       map[string]map[string]route
	}
	require.NoError(t, yaml.Unmarshal(text, &description))
	values, fields := make(map[string][]string), make(map[string][]string)
	for name, definition := range description.Definitions {
		valuesOf(name, definition, description.Definitions, values)
		if names := fieldsOf(definition, description.Definitions); names != nil {
			fields[name] = names
		}
	}
	parameterValues(description.Paths, values)
	for file, content := range map[string][]byte{
		upstreamValues: encoded(t, values), upstreamFields: encoded(t, fields),
	} {
		if *update {
			require.NoError(t, os.WriteFile(file, content, 0o644))
		}
		written, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(content), string(written))
	}
}

// route is an operation of an OpenAPI document.
type route struct {
	ID         string `json:"operationId" yaml:"operationId"`
	Parameters []struct {
		schema `yaml:",inline"`
		Name   string
		Schema schema
	}
}

// parameterValues adds the permitted values of query and header parameters.
func parameterValues(paths map[string]map[string]route, into map[string][]string) {
	for _, methods := range paths {
		for _, operation := range methods {
			for _, parameter := range operation.Parameters {
				name := operation.ID + "?" + parameter.Name
				parameter.Properties = nil
				valuesOf(name, parameter.schema, nil, into)
				parameter.Schema.Properties, parameter.Schema.Ref = nil, ""
				valuesOf(name, parameter.Schema, nil, into)
			}
		}
	}
}

// encoded writes each field on a line of its own.
func encoded(t *testing.T, values map[string][]string) []byte {
	t.Helper()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list, err := json.Marshal(values[name])
		require.NoError(t, err)
		lines = append(lines, fmt.Sprintf("%q: %s", name, list))
	}
	return []byte("{\n" + strings.Join(lines, ",\n") + "\n}\n")
}

// own returns the permitted values of Landfall's fields, and the fields of its definitions, by
// their plain names: of all operations, and of the models that agents send as text.
func own(t *testing.T) (values, fields map[string][]string) {
	t.Helper()
	document, err := api.OpenAPI("1")
	require.NoError(t, err)
	var described struct {
		Components struct{ Schemas map[string]schema }
		Paths      map[string]map[string]route
	}
	text, err := json.Marshal(document)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &described))
	found := make(map[string][]string)
	fields = make(map[string][]string)
	add := func(types map[string]schema) {
		for name, s := range types {
			valuesOf(name, s, types, found)
			if fields[plain(name)] == nil {
				fields[plain(name)] = fieldsOf(s, types)
			}
		}
	}
	add(described.Components.Schemas)
	parameterValues(described.Paths, found)
	reports := openapi.SchemasOf(models.Inventory{}, models.ContainerImageAvailability{}, models.InstallCmdRequest{},
		models.NtpSource{}, models.UpgradeAgentResponse{}, models.VerifiedVip{}, models.VerifyVip{},
		models.VersionedHostRequirements{}, models.OsImage{}, models.ReleaseImage{}, models.ReleaseSource{},
		models.ImageCreateParams{})
	text, err = json.Marshal(reports)
	require.NoError(t, err)
	var inReports map[string]schema
	require.NoError(t, json.Unmarshal(text, &inReports))
	add(inReports)
	for _, kind := range []any{
		models.ArchitectureSupportLevelID(""), models.ContainerImageAvailabilityResult(""),
		models.DiskRole(""), models.DriveType(""), models.FeatureSupportLevelID(""),
		models.FinalizingStage(""), models.HostRole(""), models.HostRoleUpdateParams(""),
		models.HostStage(""), models.ImageType(""), models.IncompatibilityReason(""), models.LogsState(""),
		models.LogsType(""), models.MemoryMethod(""), models.OperatorStatus(""), models.OperatorType(""),
		models.PlatformType(""), models.ReleaseChannel(""), models.SecureBootState(""),
		models.SourceState(""), models.StepType(""), models.SupportLevel(""), models.UpgradeAgentResult(""),
		models.VipType(""), models.VipVerification(""),
	} {
		text, err := json.Marshal(openapi.TextSchema(kind))
		require.NoError(t, err)
		var s schema
		require.NoError(t, json.Unmarshal(text, &s))
		valuesOf(reflect.TypeOf(kind).Name(), s, nil, found)
	}
	values = make(map[string][]string)
	for name, list := range found {
		values[plain(name)] = list
	}
	return values, fields
}

// intended has the fields whose values are compared elsewhere or do not apply, with the reason.
func intended() map[string]string {
	return map[string]string{
		"host-validation-id":    "the engine has the list (`TestReports_haveEveryPublishedValidation`)",
		"cluster-validation-id": "the engine has the list (`TestReports_haveEveryPublishedValidation`)",
		"inventory.truncation.type": "the engine reads this field of the agent's report, and accepts other values " +
			"(`TestHost_faults`)",
		"versioned-host-requirements.match_type": "does not apply: configuration of the service",
		"release-source.multi_cpu_architectures": "does not apply: there are no release sources; any value is " +
			"accepted, none is returned",
		"V2ListBundles?feature_ids": "any feature of the table is accepted",
		"V2GetBundle?feature_ids":   "any feature of the table is accepted",
	}
}

// TestValuesPage_isUpToDate compares the permitted values of every field with upstream's. Each
// difference must be intended. It also compares the table in docs/values.md.
func TestValuesPage_isUpToDate(t *testing.T) {
	text, err := os.ReadFile(upstreamValues)
	require.NoError(t, err)
	var upstream map[string][]string
	require.NoError(t, json.Unmarshal(text, &upstream))
	own, _ := own(t)
	reasons := intended()
	fields := make(map[string][]string) // by the other columns of their row
	for _, name := range slices.Sorted(maps.Keys(upstream)) {
		result := "same"
		if got := own[plain(name)]; !slices.Equal(upstream[name], got) {
			reason, known := reasons[name]
			require.True(t, known, "%s has %q here and %q upstream", name, got, upstream[name])
			result = reason
			delete(reasons, name)
		}
		delete(own, plain(name))
		values := "`" + strings.Join(upstream[name], "`, `") + "`"
		if len(upstream[name]) > 14 {
			values = fmt.Sprintf("%d values, `%s` to `%s`", len(upstream[name]), upstream[name][0],
				upstream[name][len(upstream[name])-1])
		}
		row := strings.ReplaceAll(values, "``", "(empty)") + " | " + result
		fields[row] = append(fields[row], "`"+name+"`")
	}
	require.Empty(t, reasons, "differences that no longer exist")
	require.Empty(t, own, "fields that upstream lacks")
	rows := make([]string, 0, len(fields))
	for row, names := range fields {
		rows = append(rows, "| "+strings.Join(names, ", ")+" | "+row+" |")
	}
	slices.Sort(rows)
	page := fmt.Sprintf(valuesPage, len(upstream)) + strings.Join(rows, "\n") + fieldsPage +
		strings.Join(missingFields(t), "\n") + "\n"
	pagetest.Compare(t, "values.md", page, *update)
}

// absent has the fields of upstream's description that Landfall's lacks, with the reason.
func absent() map[string]string {
	const ownNTP = "accepted in requests and stored as the additional time servers, which replace all others here"
	const noDelay = "rejected: a host waits for its network interfaces by itself"
	const noRendezvous = "rejected: it belongs to disconnected-iso images, which the appliance replaces"
	const ofBundles = "the response shows the operators of the bundles"
	return map[string]string{
		"cluster.ntp_sources":                                     ownNTP,
		"infra-env.ntp_sources":                                   ownNTP,
		"cluster.operator_bundles":                                "accepted in requests; " + ofBundles,
		"monitored-operator.source_bundles":                       ofBundles,
		"fencing-credentials-params.mac_address":                  "rejected: the host name identifies its credentials",
		"infra-env.network_discovery_delay_seconds":               noDelay,
		"infra-env-create-params.network_discovery_delay_seconds": noDelay,
		"infra-env-update-params.network_discovery_delay_seconds": noDelay,
		"infra-env.rendezvous_ip":                                 noRendezvous,
		"infra-env-create-params.rendezvous_ip":                   noRendezvous,
		"infra-env-update-params.rendezvous_ip":                   noRendezvous,
		"inventory.truncation":                                    "the engine reads this field of the agent's report",
		"versioned-host-requirements.match_type":                  "does not apply: configuration of the service",
	}
}

// missingFields returns the table of the fields that upstream's definitions have and Landfall's
// lack. Each must have a reason.
func missingFields(t *testing.T) []string {
	text, err := os.ReadFile(upstreamFields)
	require.NoError(t, err)
	var upstream map[string][]string
	require.NoError(t, json.Unmarshal(text, &upstream))
	_, own := own(t)
	reasons := absent()
	var rows []string
	for _, definition := range slices.Sorted(maps.Keys(upstream)) {
		for _, field := range upstream[definition] {
			if own[plain(definition)] == nil || slices.Contains(own[plain(definition)], field) {
				continue
			}
			name := definition + "." + field
			assert.NotEmpty(t, reasons[name], "%s is missing here", name)
			rows = append(rows, "| `"+name+"` | "+reasons[name]+" |")
			delete(reasons, name)
		}
	}
	require.Empty(t, reasons, "fields that are no longer missing")
	return rows
}

const fieldsPage = `

## Fields

A request with a field that Landfall does not know is rejected with 400, and the message names the
field. These fields of upstream's definitions are absent from Landfall's.

| field | reason |
|---|---|
`

const valuesPage = `# Values of the API's fields

Some fields of the REST API permit only certain values. This page lists the %d fields and string
types of this kind in the API description of the Assisted Installer's current service (revision
063b2579), with their values. The third column compares them with Landfall's OpenAPI document and
with the models of the agents' reports.

The Go module of the API's models is older. Landfall adds the values that it lacks: the network types
CiscoACI, Cilium, Calico and None, the stage "Copying registry data to disk", and eight features
(` + "`web/api/openapi/newer.go`" + `). A value that the list of a field lacks is rejected with 422.

` + "`make docs`" + ` writes this page. ` + "`TestValuesPage_isUpToDate`" + ` fails if the values of a field differ from
upstream's and the difference has no reason in the third column.

| fields | values | Landfall |
|---|---|---|
`
