package api

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/web"
)

func TestOperationsAreThoseOfTheAPIsDescription(t *testing.T) {
	folder := os.Getenv("LANDFALL_REALDATA")
	if folder == "" {
		t.Skip("LANDFALL_REALDATA is not set: the API's description is not here to compare with")
	}
	description, err := os.ReadFile(filepath.Join(folder, "assisted", "swagger.yaml"))
	require.NoError(t, err)
	var document struct {
		BasePath string                               `yaml:"basePath"`
		Paths    map[string]map[string]map[string]any `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(description, &document))

	var described []Operation
	for path, methods := range document.Paths {
		for method, operation := range methods {
			route := strings.NewReplacer("{", ":", "}", "").Replace(path)
			described = append(described, Operation{operation["operationId"].(string), strings.ToUpper(method), route})
		}
	}
	require.Equal(t, BasePath, document.BasePath)
	require.ElementsMatch(t, described, Operations())
}

func TestEveryOperationHasItsOwnIDAndRoute(t *testing.T) {
	ids, routes := map[string]bool{}, map[string]bool{}
	for _, operation := range Operations() {
		require.False(t, ids[operation.ID], operation.ID)
		ids[operation.ID] = true
		route := operation.Method + " " + operation.Path
		require.False(t, routes[route], route)
		routes[route] = true
	}
}

func TestTheServiceHasAHandlerForEveryOperation(t *testing.T) {
	handlers := (&Service{}).Handlers()
	for _, operation := range Operations() {
		require.Contains(t, handlers, operation.ID)
	}
}

func TestAnOperationWithoutAHandlerIsAnswered501ByName(t *testing.T) {
	server := web.New(web.Options{})
	require.NoError(t, Register(server.Router(), nil))
	for _, operation := range Operations() {
		path := BasePath + strings.NewReplacer(":cluster_id", "c", ":infra_env_id", "i", ":host_id", "h", ":id",
			"b").Replace(operation.Path)
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, httptest.NewRequest(operation.Method, path, http.NoBody))
		require.Equal(t, http.StatusNotImplemented, recorder.Code, path)
		require.Contains(t, recorder.Body.String(), operation.ID)
		require.Contains(t, recorder.Body.String(), `"kind":"Error"`)
	}
}

func TestAHandlerAnswersItsOperationHoweverTheSlashesCome(t *testing.T) {
	server := web.New(web.Options{})
	require.NoError(t, Register(server.Router(), Handlers{
		"v2ListClusters": func(c echo.Context) error { return c.String(http.StatusOK, "list") },
		"v2GetCluster": func(c echo.Context) error {
			return c.String(http.StatusOK,
				c.Param("cluster_id"))
		},
		"V2GetClusterDefaultConfig": func(c echo.Context) error { return c.String(http.StatusOK, "defaults") },
	}))
	for path, answer := range map[string]string{
		"/v2/clusters":                 "list",
		"/v2/clusters/":                "list",
		"/v2//clusters":                "list",
		"/v2/clusters//default-config": "defaults",
		"/v2/clusters/abc/":            "abc",
	} {
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, BasePath+path, nil))
		require.Equal(t, http.StatusOK, recorder.Code, path)
		require.Equal(t, answer, recorder.Body.String(), path)
	}
}

func TestAHandlerForAnUnknownOperationIsRefused(t *testing.T) {
	router := echo.New()
	err := Register(router, Handlers{"v2MakeCoffee": func(echo.Context) error { return nil }})
	require.ErrorContains(t, err, "v2MakeCoffee")
	require.Empty(t, router.Routes())
}

func TestTheNamedRoutesAreRegistered(t *testing.T) {
	routes := map[string]bool{}
	for _, operation := range Operations() {
		routes[operation.Method+" "+BasePath+operation.Path] = true
	}
	require.True(t, routes["GET "+instructionsRoute])
	require.True(t, routes["POST "+LogsRoute])
	require.True(t, Quiet("GET", instructionsRoute))
	require.True(t, Quiet("POST", instructionsRoute), "a thousand hosts send some hundred replies a second")
	require.False(t, Quiet("PUT", instructionsRoute))
}
