package appliance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/web/api"
)

// schema holds the parts of a schema of the API's description that the tests use.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Enum       []any             `json:"enum"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
}

// bodySchemas returns the schemas of the JSON bodies by operation, from the API's own description.
func bodySchemas(t *testing.T) map[string]schema {
	t.Helper()
	description, err := api.OpenAPI("test")
	require.NoError(t, err)
	text, err := json.Marshal(description)
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			} `json:"requestBody"`
		}
		Components struct{ Schemas map[string]schema }
	}
	require.NoError(t, json.Unmarshal(text, &document))
	found := make(map[string]schema)
	for _, methods := range document.Paths {
		for _, operation := range methods {
			if name, ok := strings.CutPrefix(operation.RequestBody.Content["application/json"].Schema.Ref,
				"#/components/schemas/"); ok {
				found[operation.OperationID] = document.Components.Schemas[name]
			}
		}
	}
	return found
}

// invalidValues returns values that the schema rejects: values of other types and texts that do not
// match.
func (s schema) invalidValues() []any {
	deep := json.RawMessage(strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000))
	switch s.Type {
	case "string":
		if s.Enum != nil {
			return []any{7, []any{}, deep, "\x00", "no such value"}
		}
		return []any{7, true, []any{}, deep}
	case "boolean", "integer", "number":
		return []any{"text", []any{}, deep}
	case "array":
		return []any{"text", 7, deep}
	}
	return []any{"text", 7, []any{}}
}

// TestOperations_fieldsMatchSchema sends each operation each field of its body with values that the
// field rejects: missing, of another type, invalid. Each request must be rejected with a sentence
// and change nothing.
func TestOperations_fieldsMatchSchema(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	host := d.host(env)
	schemas := bodySchemas(t)
	fields := 0
	for _, operation := range api.Operations() {
		body, ok := bodies()[operation.ID].(object)
		if !ok {
			continue
		}
		at := d.at(operation, cluster.String(), env.String(), host.String())
		described := schemas[operation.ID]
		require.NotEmpty(t, described.Properties, operation.ID)
		for _, name := range described.Required {
			requireRefusal(t, call(t, operation.Method, at, body.with(object{name: nil})),
				http.StatusUnprocessableEntity, name)
		}
		for name, field := range described.Properties {
			for _, value := range field.invalidValues() {
				fields++
				answer := call(t, operation.Method, at, body.with(object{name: value}))
				require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, answer.status,
					"%s: %s = %.40v: %.300s", operation.ID, name, value, answer.body)
				requireSentence(t, answer.reason(t))
			}
			require.Less(t, call(t, operation.Method, at, `{"`+name+"\": \"\xff\xfe\"}").status, 500,
				"%s: %s is no UTF-8", operation.ID, name)
		}
	}
	t.Logf("%d values were rejected", fields)
	require.Equal(t, "site", d.get(cluster).Name)
}
