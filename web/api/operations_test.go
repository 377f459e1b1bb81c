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
	"landfall/web/operation"
)

func TestOperations_sameAsUpstreamDescription(t *testing.T) {
	realData := os.Getenv("LANDFALL_REALDATA")
	if realData == "" {
		t.Skip("LANDFALL_REALDATA is not set; upstream's API description is missing")
	}
	description, err := os.ReadFile(filepath.Join(realData, "assisted", "swagger.yaml"))
	require.NoError(t, err)
	var document struct {
		BasePath string                               `yaml:"basePath"`
		Paths    map[string]map[string]map[string]any `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(description, &document))

	var described [][3]string
	for path, methods := range document.Paths {
		for method, operation := range methods {
			route := strings.NewReplacer("{", ":", "}", "").Replace(path)
			described = append(described, [3]string{operation["operationId"].(string), strings.ToUpper(method), route})
		}
	}
	require.Equal(t, BasePath, document.BasePath)
	var ours [][3]string
	for _, operation := range Operations() {
		ours = append(ours, [3]string{operation.ID, operation.Method, operation.Path})
	}
	require.ElementsMatch(t, described, ours)
}

func TestOperations_haveUniqueIDsAndRoutes(t *testing.T) {
	ids, routes := map[string]bool{}, map[string]bool{}
	for _, operation := range Operations() {
		require.False(t, ids[operation.ID], operation.ID)
		ids[operation.ID] = true
		route := operation.Method + " " + operation.Path
		require.False(t, routes[route], route)
		routes[route] = true
	}
}

func TestOperations_haveHandlersAndAccessRules(t *testing.T) {
	for _, operation := range new(Service).Operations() {
		require.NotNil(t, operation.Handler, operation.ID)
		require.NotEmpty(t, operation.Access, operation.ID)
	}
}

func TestRegister_withoutHandlerAnswers501(t *testing.T) {
	server := web.New(web.Options{})
	operations := Operations()
	for i := range operations {
		operations[i].Handler = nil
	}
	require.NoError(t, server.Register(routes(operations)...))
	for _, operation := range Operations() {
		path := BasePath + strings.NewReplacer(":cluster_id", id, ":infra_env_id", id, ":host_id", id, ":id",
			"b").Replace(operation.Path)
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, httptest.NewRequest(operation.Method, path, http.NoBody))
		require.Equal(t, http.StatusNotImplemented, recorder.Code, path)
		require.Contains(t, recorder.Body.String(), operation.ID)
		require.Contains(t, recorder.Body.String(), `"kind":"Error"`)
	}
}

const id = "3fa85f64-5717-4562-b3fc-2c963f66afa6"

func TestRegister_slashes(t *testing.T) {
	server := web.New(web.Options{})
	answering := map[string]echo.HandlerFunc{
		"v2ListClusters": func(c echo.Context) error { return c.String(http.StatusOK, "list") },
		"v2GetCluster": func(c echo.Context) error {
			return c.String(http.StatusOK,
				c.Param("cluster_id"))
		},
		"V2GetClusterDefaultConfig": func(c echo.Context) error { return c.String(http.StatusOK, "defaults") },
	}
	operations := Operations()
	for i := range operations {
		operations[i].Handler = answering[operations[i].ID]
	}
	require.NoError(t, server.Register(routes(operations)...))
	for path, answer := range map[string]string{
		"/v2/clusters":                 "list",
		"/v2/clusters/":                "list",
		"/v2//clusters":                "list",
		"/v2/clusters//default-config": "defaults",
		"/v2/clusters/" + id + "/":     id,
	} {
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, BasePath+path, nil))
		require.Equal(t, http.StatusOK, recorder.Code, path)
		require.Equal(t, answer, recorder.Body.String(), path)
	}
}

func TestRegister_everyRouteHasAnAccessRule(t *testing.T) {
	server := web.New(web.Options{})
	require.NoError(t, new(Service).Register(server))
	for route, operation := range server.Routes() {
		require.NotEmpty(t, operation.Access, "%s %s", route.Method, route.Path)
		require.Equal(t, route.Path, operation.Path)
	}
}

func TestRoutes_quietAndLimited(t *testing.T) {
	routes := map[string]operation.Operation{}
	for _, o := range (&Service{LogUploadBytes: 7}).Operations() {
		routes[o.Method+" "+o.Path] = o
	}
	require.True(t, routes["GET "+hostPath+"/instructions"].Quiet)
	require.True(t, routes["POST "+hostPath+"/instructions"].Quiet,
		"a thousand hosts send some hundred replies a second")
	require.False(t, routes["PUT "+hostPath+"/progress"].Quiet)
	require.EqualValues(t, 7, routes["POST "+clusterPath+"/logs"].BodyLimit)
}
