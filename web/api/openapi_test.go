package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/web"
)

// document is the part of an OpenAPI document that the tests read.
type document struct {
	OpenAPI    string                               `json:"openapi"`
	Paths      map[string]map[string]describedRoute `json:"paths"`
	Components struct {
		Schemas map[string]describedSchema `json:"schemas"`
	} `json:"components"`
}

type describedRoute struct {
	OperationID string                    `json:"operationId" yaml:"operationId"`
	Parameters  []describedParameter      `json:"parameters"`
	Responses   map[string]map[string]any `json:"responses"`
	Addition    bool                      `json:"x-landfall-addition"`
	RequestBody *map[string]any           `json:"requestBody"`
}

type describedParameter struct{ Name, In string }

type describedSchema struct {
	Properties map[string]map[string]any `json:"properties"`
	Required   []string                  `json:"required"`
}

// served returns the OpenAPI document of a running API.
func served(t *testing.T) (document, string) {
	t.Helper()
	server := web.New(web.Options{})
	require.NoError(t, (&Service{Version: "1"}).Register(server))
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, BasePath+"/v2/openapi", nil))
	require.Equal(t, http.StatusOK, recorder.Code)
	var described document
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &described))
	return described, recorder.Body.String()
}

func routesOf(described document) map[string]describedRoute {
	routes := make(map[string]describedRoute)
	for path, methods := range described.Paths {
		for method, route := range methods {
			routes[strings.ToUpper(method)+" "+strings.NewReplacer("{", ":", "}", "").Replace(path)] = route
		}
	}
	return routes
}

func TestOpenAPI_sameOperationsAsRouter(t *testing.T) {
	described, _ := served(t)
	require.Equal(t, "3.0.3", described.OpenAPI)
	routes := routesOf(described)
	for _, operation := range slices.Concat(Operations(), Additions()) {
		route, ok := routes[operation.Method+" "+operation.Path]
		require.True(t, ok, operation.ID)
		require.Equal(t, operation.ID, route.OperationID)
		require.Equal(t, operation.Addition, route.Addition, operation.ID)
		delete(routes, operation.Method+" "+operation.Path)
	}
	require.Empty(t, slices.Collect(maps.Keys(routes)))
}

func TestOpenAPI_referencesResolve(t *testing.T) {
	described, text := served(t)
	for rest := text; ; {
		_, after, found := strings.Cut(rest, `"$ref":"#/components/schemas/`)
		if !found {
			break
		}
		name, _, _ := strings.Cut(after, `"`)
		require.Contains(t, described.Components.Schemas, name)
		rest = after
	}
	create := described.Components.Schemas["ClusterCreateParams"]
	require.ElementsMatch(t, []string{"name", "openshift_version", "pull_secret"}, create.Required)
	require.Contains(t, create.Properties["cpu_architecture"]["enum"], "s390x")
	require.Equal(t, "date-time", described.Components.Schemas["Event"].Properties["event_time"]["format"])
}

// addedParameters are optional parameters that upstream's operations do not have
// (docs/compatibility.md).
var addedParameters = map[string][]describedParameter{
	"DELETE /v2/clusters/:cluster_id": {{Name: "force", In: "query"}},
}

func TestOpenAPI_sameAsUpstream(t *testing.T) {
	realData := os.Getenv("LANDFALL_REALDATA")
	if realData == "" {
		t.Skip("LANDFALL_REALDATA is not set; upstream's API description is missing")
	}
	text, err := os.ReadFile(filepath.Join(realData, "assisted", "swagger.yaml"))
	require.NoError(t, err)
	var upstream document
	require.NoError(t, yaml.Unmarshal(text, &upstream))
	described, _ := served(t)
	ours := routesOf(described)
	for name, described := range routesOf(upstream) {
		route := ours[name]
		statuses := slices.Collect(maps.Keys(route.Responses))
		require.ElementsMatch(t, append(slices.Collect(maps.Keys(described.Responses)), "422"), statuses,
			"%s; every operation can return 422", name)
		var parameters []describedParameter
		body := false
		for _, p := range described.Parameters {
			if p.In == "body" || p.In == "formData" {
				body = true
				continue
			}
			parameters = append(parameters, p)
		}
		require.ElementsMatch(t, append(parameters, addedParameters[name]...), route.Parameters, name)
		require.Equal(t, body, route.RequestBody != nil, name)
	}
}
