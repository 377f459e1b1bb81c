// Package api is the Assisted Installer's REST API v2, as its clients, agents and installers speak
// it.
package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/web/problem"
)

// BasePath is where the API's paths begin.
const BasePath = "/api/assisted-install"

// Operation is one operation of the API as its description names it.
type Operation struct {
	ID     string // operationId
	Method string // HTTP method
	Path   string // echo's form, below [BasePath]: /v2/clusters/:cluster_id
}

// Handlers are what answers the API's operations, by operationId.
type Handlers map[string]echo.HandlerFunc

// Operations returns all operations of the API's description (swagger.yaml of the
// assisted-service), ordered by path.
func Operations() []Operation { return slices.Clone(operations) }

// Additions returns the operations that are the appliance's own.
func Additions() []Operation { return slices.Clone(additions) }

// Register hangs every operation into the router. One that has no handler answers 501 in the API's
// own error shape, so that a client learns which operation it was that the appliance does not have.
// A handler for an operation that the API does not know is an error, and nothing is registered
// then.
func Register(router *echo.Echo, handlers Handlers) error {
	unknown := maps.Clone(handlers)
	all := slices.Concat(operations, additions)
	for _, operation := range all {
		delete(unknown, operation.ID)
	}
	if len(unknown) > 0 {
		return fmt.Errorf("register the API: %q are no operations of it", slices.Sorted(maps.Keys(unknown)))
	}
	for _, operation := range all {
		handler := handlers[operation.ID]
		if handler == nil {
			handler = missing(operation)
		}
		router.Add(operation.Method, BasePath+operation.Path, handler)
	}
	refuseOtherMethods(router, all)
	return nil
}

// refuseOtherMethods answers 405 on the API's paths for the methods that they do not have. The
// router would do so by itself, but for the page shell, which answers GET everywhere.
func refuseOtherMethods(router *echo.Echo, operations []Operation) {
	allowed := make(map[string][]string)
	for _, operation := range operations {
		allowed[operation.Path] = append(allowed[operation.Path], operation.Method)
	}
	for path, methods := range allowed {
		slices.Sort(methods)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete} {
			if !slices.Contains(methods, method) {
				router.Add(method, BasePath+path, func(c echo.Context) error {
					c.Response().Header().Set(echo.HeaderAllow, strings.Join(methods, ", "))
					return problem.New(http.StatusMethodNotAllowed, "%s is not possible on %s; there is %s", method,
						c.Request().URL.Path, strings.Join(methods, ", "))
				})
			}
		}
	}
}

func missing(operation Operation) echo.HandlerFunc {
	return func(echo.Context) error {
		return problem.New(http.StatusNotImplemented, "this appliance does not have the operation %s (%s %s)",
			operation.ID, operation.Method, operation.Path)
	}
}

// Quiet says which routes agents ask again and again; see web.Options. What a reply of theirs
// changes has lines of its own.
func Quiet(method, route string) bool {
	return route == instructionsRoute && (method == http.MethodGet || method == http.MethodPost)
}

const instructionsRoute = BasePath + "/v2/infra-envs/:infra_env_id/hosts/:host_id/instructions"

// LogsRoute is the route by which hosts and the controller upload their logs, which are larger than
// other bodies.
const LogsRoute = BasePath + "/v2/clusters/:cluster_id/logs"

var additions = []Operation{
	{"v2GetOpenAPI", http.MethodGet, "/v2/openapi"},
}

var operations = []Operation{
	{"v2ListClusters", http.MethodGet, "/v2/clusters"},
	{"v2RegisterCluster", http.MethodPost, "/v2/clusters"},
	{"V2GetClusterDefaultConfig", http.MethodGet, "/v2/clusters/default-config"},
	{"v2RegisterDisconnectedCluster", http.MethodPost, "/v2/clusters/disconnected"},
	{"v2ImportCluster", http.MethodPost, "/v2/clusters/import"},
	{"v2GetCluster", http.MethodGet, "/v2/clusters/:cluster_id"},
	{"V2UpdateCluster", http.MethodPatch, "/v2/clusters/:cluster_id"},
	{"v2DeregisterCluster", http.MethodDelete, "/v2/clusters/:cluster_id"},
	{"TransformClusterToAddingHosts", http.MethodPost, "/v2/clusters/:cluster_id/actions/allow-add-hosts"},
	{"TransformClusterToDay2", http.MethodPost, "/v2/clusters/:cluster_id/actions/allow-add-workers"},
	{"V2CancelInstallation", http.MethodPost, "/v2/clusters/:cluster_id/actions/cancel"},
	{"v2CompleteInstallation", http.MethodPost, "/v2/clusters/:cluster_id/actions/complete-installation"},
	{"v2InstallCluster", http.MethodPost, "/v2/clusters/:cluster_id/actions/install"},
	{"v2ResetCluster", http.MethodPost, "/v2/clusters/:cluster_id/actions/reset"},
	{"V2GetCredentials", http.MethodGet, "/v2/clusters/:cluster_id/credentials"},
	{"V2DownloadClusterCredentials", http.MethodGet, "/v2/clusters/:cluster_id/downloads/credentials"},
	{"V2GetPresignedForClusterCredentials", http.MethodGet, "/v2/clusters/:cluster_id/downloads/credentials-presigned"},
	{"V2DownloadClusterFiles", http.MethodGet, "/v2/clusters/:cluster_id/downloads/files"},
	{"V2GetPresignedForClusterFiles", http.MethodGet, "/v2/clusters/:cluster_id/downloads/files-presigned"},
	{"ListClusterHosts", http.MethodGet, "/v2/clusters/:cluster_id/hosts"},
	{"v2GetIgnoredValidations", http.MethodGet, "/v2/clusters/:cluster_id/ignored-validations"},
	{"v2SetIgnoredValidations", http.MethodPut, "/v2/clusters/:cluster_id/ignored-validations"},
	{"v2GetClusterInstallConfig", http.MethodGet, "/v2/clusters/:cluster_id/install-config"},
	{"v2UpdateClusterInstallConfig", http.MethodPatch, "/v2/clusters/:cluster_id/install-config"},
	{"V2DownloadClusterLogs", http.MethodGet, "/v2/clusters/:cluster_id/logs"},
	{"V2UploadLogs", http.MethodPost, "/v2/clusters/:cluster_id/logs"},
	{"v2UpdateClusterLogsProgress", http.MethodPut, "/v2/clusters/:cluster_id/logs-progress"},
	{"V2ListClusterManifests", http.MethodGet, "/v2/clusters/:cluster_id/manifests"},
	{"V2CreateClusterManifest", http.MethodPost, "/v2/clusters/:cluster_id/manifests"},
	{"V2UpdateClusterManifest", http.MethodPatch, "/v2/clusters/:cluster_id/manifests"},
	{"V2DeleteClusterManifest", http.MethodDelete, "/v2/clusters/:cluster_id/manifests"},
	{"v2DownloadClusterManifest", http.MethodGet, "/v2/clusters/:cluster_id/manifests/files"},
	{"V2ListOfClusterOperators", http.MethodGet, "/v2/clusters/:cluster_id/monitored-operators"},
	{"v2ReportMonitoredOperatorStatus", http.MethodPut, "/v2/clusters/:cluster_id/monitored-operators"},
	{"v2GetPreflightRequirements", http.MethodGet, "/v2/clusters/:cluster_id/preflight-requirements"},
	{"v2UpdateClusterFinalizingProgress", http.MethodPut, "/v2/clusters/:cluster_id/progress"},
	{"GetClusterSupportedPlatforms", http.MethodGet, "/v2/clusters/:cluster_id/supported-platforms"},
	{"V2GetClusterUISettings", http.MethodGet, "/v2/clusters/:cluster_id/ui-settings"},
	{"V2UpdateClusterUISettings", http.MethodPut, "/v2/clusters/:cluster_id/ui-settings"},
	{"v2UploadClusterIngressCert", http.MethodPost, "/v2/clusters/:cluster_id/uploads/ingress-cert"},
	{"v2ListComponentVersions", http.MethodGet, "/v2/component-versions"},
	{"V2ListManagedDomains", http.MethodGet, "/v2/domains"},
	{"v2ListEvents", http.MethodGet, "/v2/events"},
	{"v2TriggerEvent", http.MethodPost, "/v2/events"},
	{"v2DownloadHostIgnition", http.MethodGet, "/v2/infra-env/:infra_env_id/hosts/:host_id/downloads/ignition"},
	{"ListInfraEnvs", http.MethodGet, "/v2/infra-envs"},
	{"RegisterInfraEnv", http.MethodPost, "/v2/infra-envs"},
	{"GetInfraEnv", http.MethodGet, "/v2/infra-envs/:infra_env_id"},
	{"UpdateInfraEnv", http.MethodPatch, "/v2/infra-envs/:infra_env_id"},
	{"DeregisterInfraEnv", http.MethodDelete, "/v2/infra-envs/:infra_env_id"},
	{"v2DownloadInfraEnvFiles", http.MethodGet, "/v2/infra-envs/:infra_env_id/downloads/files"},
	{"GetInfraEnvPresignedFileURL", http.MethodGet, "/v2/infra-envs/:infra_env_id/downloads/files-presigned"},
	{"GetInfraEnvDownloadURL", http.MethodGet, "/v2/infra-envs/:infra_env_id/downloads/image-url"},
	{"DownloadMinimalInitrd", http.MethodGet, "/v2/infra-envs/:infra_env_id/downloads/minimal-initrd"},
	{"v2ListHosts", http.MethodGet, "/v2/infra-envs/:infra_env_id/hosts"},
	{"v2RegisterHost", http.MethodPost, "/v2/infra-envs/:infra_env_id/hosts"},
	{"v2GetHost", http.MethodGet, "/v2/infra-envs/:infra_env_id/hosts/:host_id"},
	{"v2UpdateHost", http.MethodPatch, "/v2/infra-envs/:infra_env_id/hosts/:host_id"},
	{"v2DeregisterHost", http.MethodDelete, "/v2/infra-envs/:infra_env_id/hosts/:host_id"},
	{"BindHost", http.MethodPost, "/v2/infra-envs/:infra_env_id/hosts/:host_id/actions/bind"},
	{"v2InstallHost", http.MethodPost, "/v2/infra-envs/:infra_env_id/hosts/:host_id/actions/install"},
	{"v2ResetHost", http.MethodPost, "/v2/infra-envs/:infra_env_id/hosts/:host_id/actions/reset"},
	{"v2ResetHostValidation", http.MethodPatch,
		"/v2/infra-envs/:infra_env_id/hosts/:host_id/actions/reset-validation/:validation_id"},
	{"UnbindHost", http.MethodPost, "/v2/infra-envs/:infra_env_id/hosts/:host_id/actions/unbind"},
	{"v2GetHostIgnition", http.MethodGet, "/v2/infra-envs/:infra_env_id/hosts/:host_id/ignition"},
	{"v2UpdateHostIgnition", http.MethodPatch, "/v2/infra-envs/:infra_env_id/hosts/:host_id/ignition"},
	{"v2UpdateHostInstallerArgs", http.MethodPatch, "/v2/infra-envs/:infra_env_id/hosts/:host_id/installer-args"},
	{"v2GetNextSteps", http.MethodGet, "/v2/infra-envs/:infra_env_id/hosts/:host_id/instructions"},
	{"v2PostStepReply", http.MethodPost, "/v2/infra-envs/:infra_env_id/hosts/:host_id/instructions"},
	{"v2UpdateHostLogsProgress", http.MethodPut, "/v2/infra-envs/:infra_env_id/hosts/:host_id/logs-progress"},
	{"v2UpdateHostInstallProgress", http.MethodPut, "/v2/infra-envs/:infra_env_id/hosts/:host_id/progress"},
	{"RegenerateInfraEnvSigningKey", http.MethodPost, "/v2/infra-envs/:infra_env_id/regenerate-signing-key"},
	{"v2ListSupportedOpenshiftVersions", http.MethodGet, "/v2/openshift-versions"},
	{"V2ListBundles", http.MethodGet, "/v2/operators/bundles"},
	{"V2GetBundle", http.MethodGet, "/v2/operators/bundles/:id"},
	{"v2ListReleaseSources", http.MethodGet, "/v2/release-sources"},
	{"GetSupportedArchitectures", http.MethodGet, "/v2/support-levels/architectures"},
	{"GetSupportedFeatures", http.MethodGet, "/v2/support-levels/features"},
	{"GetDetailedSupportedFeatures", http.MethodGet, "/v2/support-levels/features/detailed"},
	{"V2ListSupportedOperators", http.MethodGet, "/v2/supported-operators"},
	{"V2ListOperatorProperties", http.MethodGet, "/v2/supported-operators/:operator_name"},
}
