package api

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/engine"
	"landfall/web"
)

// Service answers the operations of the API from an engine.
type Service struct {
	Engine *engine.Engine
	Links  Links
	// ManifestBytes bounds a manifest that people add. What hosts upload is bounded by the server:
	// see LogsRoute.
	ManifestBytes int64
	// Versions names the appliance's parts for /v2/component-versions.
	Versions map[string]string
}

// Links signs download links for people without an account. Package discovery implements it.
type Links interface {
	// Sign returns a link to a path with the given parameters, and when it expires.
	Sign(ctx context.Context, path string, query url.Values) (string, time.Time, error)
	// Check returns an error for a signed link that was altered or has expired.
	Check(path string, query url.Values) error
}

// Handlers returns what answers the operations that the appliance has.
func (s *Service) Handlers() Handlers {
	handlers := Handlers{
		"v2ListClusters":                      s.listClusters,
		"v2RegisterCluster":                   s.registerCluster,
		"V2GetClusterDefaultConfig":           s.defaultConfig,
		"v2RegisterDisconnectedCluster":       s.registerDisconnectedCluster,
		"v2ImportCluster":                     s.importCluster,
		"v2GetCluster":                        s.getCluster,
		"V2UpdateCluster":                     s.updateCluster,
		"v2DeregisterCluster":                 s.deregisterCluster,
		"TransformClusterToAddingHosts":       s.allowAddHosts,
		"TransformClusterToDay2":              s.allowAddHosts,
		"V2CancelInstallation":                s.cancelInstallation,
		"v2CompleteInstallation":              s.completeInstallation,
		"v2InstallCluster":                    s.installCluster,
		"v2ResetCluster":                      s.resetCluster,
		"V2GetCredentials":                    s.credentials,
		"V2DownloadClusterCredentials":        s.downloadCredentials,
		"V2GetPresignedForClusterCredentials": s.presignedCredentials,
		"V2DownloadClusterFiles":              s.downloadFile,
		"V2GetPresignedForClusterFiles":       s.presignedFile,
		"ListClusterHosts":                    s.listClusterHosts,
		"v2GetIgnoredValidations":             s.ignoredValidations,
		"v2SetIgnoredValidations":             s.ignoreValidations,
		"v2GetClusterInstallConfig":           s.installConfig,
		"v2UpdateClusterInstallConfig":        s.updateInstallConfig,
		"V2DownloadClusterLogs":               s.downloadLogs,
		"V2UploadLogs":                        s.uploadLogs,
		"v2UpdateClusterLogsProgress":         s.clusterLogsProgress,
		"V2ListClusterManifests":              s.listManifests,
		"V2CreateClusterManifest":             s.createManifest,
		"V2UpdateClusterManifest":             s.updateManifest,
		"V2DeleteClusterManifest":             s.deleteManifest,
		"v2DownloadClusterManifest":           s.downloadManifest,
		"V2ListOfClusterOperators":            s.listOperators,
		"v2ReportMonitoredOperatorStatus":     s.reportOperator,
		"v2GetPreflightRequirements":          s.preflight,
		"v2UpdateClusterFinalizingProgress":   s.finalizingProgress,
		"GetClusterSupportedPlatforms":        s.supportedPlatforms,
		"V2GetClusterUISettings":              s.uiSettings,
		"V2UpdateClusterUISettings":           s.setUISettings,
		"v2UploadClusterIngressCert":          s.ingressCert,
		"v2ListComponentVersions":             s.componentVersions,
		"V2ListManagedDomains":                s.managedDomains,
		"v2ListEvents":                        s.listEvents,
		"v2TriggerEvent":                      s.reportEvent,
		"v2DownloadHostIgnition":              s.downloadHostIgnition,
		"ListInfraEnvs":                       s.listInfraEnvs,
		"RegisterInfraEnv":                    s.registerInfraEnv,
		"GetInfraEnv":                         s.getInfraEnv,
		"UpdateInfraEnv":                      s.updateInfraEnv,
		"DeregisterInfraEnv":                  s.deregisterInfraEnv,
		"v2DownloadInfraEnvFiles":             s.downloadInfraEnvFile,
		"GetInfraEnvDownloadURL":              s.imageURL,
		"GetInfraEnvPresignedFileURL":         s.infraEnvFileURL,
		"DownloadMinimalInitrd":               s.downloadMinimalInitrd,
		"RegenerateInfraEnvSigningKey":        s.regenerateSigningKey,
		"v2ListHosts":                         s.listHosts,
		"v2RegisterHost":                      s.registerHost,
		"v2GetHost":                           s.getHost,
		"v2UpdateHost":                        s.updateHost,
		"v2DeregisterHost":                    s.deregisterHost,
		"BindHost":                            s.bindHost,
		"v2InstallHost":                       s.installHost,
		"v2ResetHost":                         s.resetHost,
		"v2ResetHostValidation":               s.resetHostValidation,
		"UnbindHost":                          s.unbindHost,
		"v2GetHostIgnition":                   s.hostIgnition,
		"v2UpdateHostIgnition":                s.updateHostIgnition,
		"v2UpdateHostInstallerArgs":           s.updateInstallerArgs,
		"v2GetNextSteps":                      s.nextSteps,
		"v2PostStepReply":                     s.stepReply,
		"v2UpdateHostLogsProgress":            s.hostLogsProgress,
		"v2UpdateHostInstallProgress":         s.hostProgress,
		"v2ListSupportedOpenshiftVersions":    s.versions,
		"V2ListBundles":                       s.bundles,
		"V2GetBundle":                         s.bundle,
		"v2ListReleaseSources":                s.releaseSources,
		"GetSupportedArchitectures":           s.supportedArchitectures,
		"GetSupportedFeatures":                s.supportedFeatures,
		"GetDetailedSupportedFeatures":        s.detailedFeatures,
		"V2ListSupportedOperators":            s.supportedOperators,
		"V2ListOperatorProperties":            s.operatorProperties,
	}
	handlers["v2GetOpenAPI"] = s.openAPI()
	for id, handler := range handlers {
		handlers[id] = translate(id, handler)
	}
	return handlers
}

// translate gives the engine's refusals their HTTP status and hands the operation and the request's
// id on to what follows from it.
func translate(operation string, handler echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := checkIDs(c); err != nil {
			return err
		}
		if r := c.Request(); r.Method != http.MethodGet {
			c.SetRequest(r.WithContext(engine.WithRequest(r.Context(), engine.Request{
				Operation: operation, ID: web.RequestID(r.Context()), Cluster: c.Param("cluster_id"),
				InfraEnv: c.Param("infra_env_id"), Host: c.Param("host_id"),
			})))
		}
		return handler(c)
	}
}

// Problem returns err as it is: package problem understands the errors of the domain packages by
// their kind, so callers need no conversion.
func Problem(err error) error { return err }

// answer writes a value with a status, or hands the error on.
func answer[T any](c echo.Context, status int, value T, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(status, value)
}

// answerRendered writes what is JSON already, in portions of a size that costs few system calls, or
// hands the error on.
func answerRendered(c echo.Context, value engine.JSON, err error) error {
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

// done answers without a body, or hands the error on.
func done(c echo.Context, err error) error {
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// created answers 201 without a body, or hands the error on.
func created(c echo.Context, err error) error {
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusCreated)
}
