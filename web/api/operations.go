// Package api serves the Assisted Installer's REST API v2 to its clients, agents and installers.
// Each noun (clusters.go, hosts.go, ...) has one file with the table of its operations and their
// handlers. To add an operation, add an entry and a handler to the file of its noun.
package api

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/agents"
	"landfall/appliance/engine"
	"landfall/appliance/engine/view"
	"landfall/appliance/journal"
	"landfall/web"
	"landfall/web/operation"
	"landfall/web/problem"
)

// BasePath is the prefix of the API's paths.
const BasePath = "/api/assisted-install"

// Prefixes of the paths of a cluster, an infra-env and a host.
const (
	clusterPath  = "/v2/clusters/:cluster_id"
	infraEnvPath = "/v2/infra-envs/:infra_env_id"
	hostsPath    = infraEnvPath + "/hosts"
	hostPath     = hostsPath + "/:host_id"
)

// Service serves the operations of the API with an engine.
type Service struct {
	Engine *engine.Engine
	// Defaults completes requests for clusters and infra-envs; nil leaves them as they are.
	Defaults Defaults
	// BootURL is the URL of images and boot files for boot loaders, which do not trust the
	// appliance's certificate authority; "" means the engine's URL.
	BootURL string
	Links   Links
	Agents  *agents.Service // nil if the appliance does not authenticate machines
	// ManifestBytes is the largest size of a manifest that a user adds.
	ManifestBytes int64
	// LogUploadBytes is the largest size of a log archive from a host or the controller; 0 means
	// the server's limit for all bodies.
	LogUploadBytes int64
	// Version is the version of the appliance.
	Version string
	// HostChanges is nil if no object undoes the change of a host.
	HostChanges HostChanges
}

// HostChanges refuses changes of hosts that another object would undo. Package metal implements it.
type HostChanges interface {
	CheckUpdate(infraEnvID, hostID string, params *models.HostUpdateParams) error
	CheckIgnition(infraEnvID, hostID, override string) error
	CheckInstallerArgs(infraEnvID, hostID string, args []string) error
	// CheckBinding checks the new cluster of a host; "" for none.
	CheckBinding(infraEnvID, hostID, clusterID string) error
}

// Links signs download links for users without an account. Package discovery implements it.
type Links interface {
	// Sign returns a link to a path with the given parameters, and the time when it expires.
	Sign(ctx context.Context, path string, query url.Values) (string, time.Time, error)
	// Check returns an error for a signed link that was altered or has expired.
	Check(path string, query url.Values) error
}

// Operations returns the operations of the API, without [BasePath]. Each noun has a table of its
// own in the file with its handlers.
func (s *Service) Operations() []operation.Operation {
	return slices.Concat(
		s.clusterOperations(), s.installationOperations(), s.clusterFileOperations(), s.logOperations(),
		s.manifestOperations(), s.eventOperations(), s.infraEnvOperations(), s.infraEnvFileOperations(),
		s.hostOperations(), s.releaseOperations(), s.supportOperations(), s.operatorOperations(),
		s.openAPIOperations(),
	)
}

// Operations returns the operations of the upstream API description (swagger.yaml of the
// assisted-service).
func Operations() []operation.Operation {
	return slices.DeleteFunc(new(Service).Operations(), func(o operation.Operation) bool { return o.Addition })
}

// Additions returns the operations that Landfall adds to the upstream API.
func Additions() []operation.Operation {
	return slices.DeleteFunc(new(Service).Operations(), func(o operation.Operation) bool { return !o.Addition })
}

// Register adds the API to a server.
func (s *Service) Register(server *web.Server) error {
	return server.Register(routes(s.Operations())...)
}

// routes returns the operations as routes of a server below [BasePath]. Their handlers prepare each
// request. The other methods of their paths return 405. An operation without a handler returns 501
// and its ID in the format of the API's errors.
func routes(operations []operation.Operation) []operation.Operation {
	all := operation.Below(BasePath, operations)
	for i, o := range all {
		if o.Handler == nil {
			o.Handler = notImplemented(operations[i])
		}
		all[i].Handler = hiding(prepare(o.ID, o.Handler))
		if o.Access.Secret {
			all[i].Handler = withoutCaches(all[i].Handler)
		}
	}
	return append(all, otherMethods(all)...)
}

// otherMethods returns routes that respond with 405 to the unsupported methods of the API's paths.
// Without them, the browser application would respond, because it serves GET on all paths.
func otherMethods(operations []operation.Operation) []operation.Operation {
	allowed := make(map[string][]string)
	for _, o := range operations {
		allowed[o.Path] = append(allowed[o.Path], o.Method)
	}
	var refused []operation.Operation
	for path, methods := range allowed {
		slices.Sort(methods)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete} {
			if !slices.Contains(methods, method) {
				refused = append(refused, operation.Operation{Method: method, Path: path, Access: operation.Public(),
					Handler: methodNotAllowed(methods)})
			}
		}
	}
	return refused
}

func methodNotAllowed(allowed []string) echo.HandlerFunc {
	return func(c echo.Context) error {
		methods := strings.Join(allowed, ", ")
		c.Response().Header().Set(echo.HeaderAllow, methods)
		return problem.New(http.StatusMethodNotAllowed, "the path %[2]s does not support the method %[1]s, only %[3]s",
			c.Request().Method,
			c.Request().URL.Path, methods)
	}
}

func notImplemented(o operation.Operation) echo.HandlerFunc {
	return func(echo.Context) error {
		return problem.New(http.StatusNotImplemented, "this appliance does not implement the operation %s (%s %s)",
			o.ID,
			o.Method, o.Path)
	}
}

// prepare returns a handler that first checks the IDs in the path. It passes the operation's ID and
// the request ID to the engine, which stores them with its changes.
func prepare(operationID string, handler echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := checkIDs(c); err != nil {
			return err
		}
		if r := c.Request(); r.Method != http.MethodGet {
			c.SetRequest(r.WithContext(journal.WithRequest(r.Context(), journal.Request{
				Operation: operationID, ID: web.RequestID(r.Context()), Cluster: c.Param("cluster_id"),
				InfraEnv: c.Param("infra_env_id"), Host: c.Param("host_id"),
			})))
		}
		return handler(c)
	}
}

// withoutCaches tells clients and proxies not to store the responses of a handler.
func withoutCaches(handler echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
		return handler(c)
	}
}

// answer sends a value with a status, or returns the error. It hides the passwords of proxies.
func answer[T any](c echo.Context, status int, value T, err error) error {
	if err != nil {
		return err
	}
	hideProxyPasswords(value)
	return c.JSON(status, value)
}

// answerRendered sends a value that is encoded as JSON already, or returns the error. It writes in
// large portions to save system calls.
func answerRendered(c echo.Context, value view.JSON, err error) error {
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	header.Set(echo.HeaderContentLength, strconv.FormatInt(value.Size(), 10))
	c.Response().WriteHeader(http.StatusOK)
	portions := bufio.NewWriterSize(c.Response(), 128<<10)
	if _, err := value.WriteTo(portions); err != nil {
		return err
	}
	return portions.Flush()
}

// done sends 204 without a body, or returns the error.
func done(c echo.Context, err error) error {
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// created sends 201 without a body, or returns the error.
func created(c echo.Context, err error) error {
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusCreated)
}
