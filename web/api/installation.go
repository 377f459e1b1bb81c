package api

import (
	"net/http"

	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/web/operation"
	"landfall/web/problem"
)

// installationOperations returns the operations on the installation of a cluster.
func (s *Service) installationOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "V2CancelInstallation", Method: http.MethodPost, Path: clusterPath + "/actions/cancel",
			Access: operation.For(access.Operator), Handler: s.cancelInstallation, DryRun: true,
			Summary: "Cancel an installation",
			Status:  202, Answer: models.Cluster{}, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "v2CompleteInstallation", Method: http.MethodPost, Path: clusterPath + "/actions/complete-installation",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.completeInstallation,
			Summary: "Report the completion of an installation (for the controller in the cluster)",
			Parameters: []operation.Parameter{
				{Name: "discovery_agent_version", In: "header"},
			},
			Body:   models.CompletionParams{},
			Status: 202, Answer: models.Cluster{}, Errors: []int{401, 403, 404, 405, 409, 500, 503}},
		{ID: "v2InstallCluster", Method: http.MethodPost, Path: clusterPath + "/actions/install",
			Access: operation.For(access.Operator), Handler: s.installCluster, DryRun: true,
			Summary: "Install a cluster",
			Status:  202, Answer: models.Cluster{}, Errors: []int{400, 401, 403, 404, 405, 409, 500}},
		{ID: "v2ResetCluster", Method: http.MethodPost, Path: clusterPath + "/actions/reset",
			Access: operation.For(access.Operator), Handler: s.resetCluster, DryRun: true,
			Summary: "Reset a cluster to the state before its installation",
			Status:  202, Answer: models.Cluster{}, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "v2GetClusterInstallConfig", Method: http.MethodGet, Path: clusterPath + "/install-config",
			Access: operation.For(access.Administrator).WithSecret(), Handler: s.installConfig,
			Summary: "Show the install-config that an installation would use now",
			Status:  200, Answer: "", Errors: []int{401, 403, 404, 405, 500}},
		{ID: "v2UpdateClusterInstallConfig", Method: http.MethodPatch, Path: clusterPath + "/install-config",
			Access: operation.For(access.Operator), Handler: s.updateInstallConfig, DryRun: true,
			Summary: "Override fields of the install-config",
			Body:    "",
			Status:  201, Errors: []int{400, 401, 403, 404, 405, 500}},
		{ID: "V2ListOfClusterOperators", Method: http.MethodGet, Path: clusterPath + "/monitored-operators",
			Access: operation.For(access.Viewer).OrAgents(), Handler: s.listOperators, FromCopy: true,
			Summary: "List the monitored operators of a cluster",
			Parameters: []operation.Parameter{
				{Name: "operator_name"},
			},
			Status: 200, Answer: models.MonitoredOperatorsList{}, Errors: []int{401, 403, 404, 405, 500}},
		{ID: "v2ReportMonitoredOperatorStatus", Method: http.MethodPut, Path: clusterPath + "/monitored-operators",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.reportOperator,
			Summary: "Report the state of an operator (for the controller)",
			Body:    models.OperatorMonitorReport{},
			Status:  200, Errors: []int{400, 401, 403, 404, 405, 409, 500, 503}},
		{ID: "v2GetPreflightRequirements", Method: http.MethodGet, Path: clusterPath + "/preflight-requirements",
			Access: operation.For(access.Viewer), Handler: s.preflight, FromCopy: true,
			Summary: "Show the requirements for the hosts of a cluster",
			Status:  200, Answer: models.PreflightHardwareRequirements{}, Errors: []int{401, 403, 404, 405, 500}},
		{ID: "v2UpdateClusterFinalizingProgress", Method: http.MethodPut, Path: clusterPath + "/progress",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.finalizingProgress,
			Summary: "Report the progress of the finalization (for the controller)",
			Body:    models.ClusterFinalizingProgress{},
			Status:  200, Errors: []int{401, 403, 404, 405, 500, 503}},
		{ID: "v2UploadClusterIngressCert", Method: http.MethodPost, Path: clusterPath + "/uploads/ingress-cert",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.ingressCert,
			Summary: "Send the ingress certificate (for the controller)",
			Parameters: []operation.Parameter{
				{Name: "discovery_agent_version", In: "header"},
			},
			Body:   "",
			Status: 201, Errors: []int{400, 401, 403, 404, 405, 500, 503}},
	}
}

func (s *Service) installCluster(c echo.Context) error {
	cluster, err := s.Engine.InstallCluster(c.Request().Context(), clusterID(c))
	return answer(c, http.StatusAccepted, cluster, err)
}

func (s *Service) cancelInstallation(c echo.Context) error {
	cluster, err := s.Engine.CancelInstallation(c.Request().Context(), clusterID(c))
	return answer(c, http.StatusAccepted, cluster, err)
}

func (s *Service) resetCluster(c echo.Context) error {
	cluster, err := s.Engine.ResetCluster(c.Request().Context(), clusterID(c))
	return answer(c, http.StatusAccepted, cluster, err)
}

func (s *Service) completeInstallation(c echo.Context) error {
	params, err := decode[models.CompletionParams](c)
	if err != nil {
		return err
	}
	cluster, err := s.Engine.CompleteInstallation(c.Request().Context(), clusterID(c), conv.Value(params.IsSuccess),
		params.ErrorInfo)
	return answer(c, http.StatusAccepted, cluster, err)
}

func (s *Service) installConfig(c echo.Context) error {
	text, err := s.Engine.InstallConfig(clusterID(c))
	return answer(c, http.StatusOK, text, err)
}

// updateInstallConfig reads the override from a JSON string that contains JSON.
func (s *Service) updateInstallConfig(c echo.Context) error {
	override, err := decode[string](c)
	if err != nil {
		return err
	}
	return created(c, s.Engine.SetInstallConfigOverride(c.Request().Context(), clusterID(c), *override))
}

func (s *Service) listOperators(c echo.Context) error {
	cluster, err := s.Engine.Cluster(clusterID(c))
	if err != nil {
		return err
	}
	operators, name := []*models.MonitoredOperator{}, c.QueryParam("operator_name")
	for _, operator := range cluster.MonitoredOperators {
		if name == "" || name == operator.Name {
			operators = append(operators, operator)
		}
	}
	if name != "" && len(operators) == 0 {
		return problem.NotFound("cluster %s has no monitored operator %q", cluster.Name, name)
	}
	return c.JSON(http.StatusOK, operators)
}

func (s *Service) reportOperator(c echo.Context) error {
	report, err := decode[models.OperatorMonitorReport](c)
	if err != nil {
		return err
	}
	if err := s.Engine.ReportOperator(c.Request().Context(), clusterID(c), report); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

func (s *Service) preflight(c echo.Context) error {
	requirements, err := s.Engine.Preflight(clusterID(c))
	return answer(c, http.StatusOK, requirements, err)
}

func (s *Service) finalizingProgress(c echo.Context) error {
	progress, err := decode[models.ClusterFinalizingProgress](c)
	if err != nil {
		return err
	}
	if err := s.Engine.RecordFinalizingProgress(c.Request().Context(), clusterID(c),
		progress.FinalizingStage); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

// ingressCert reads the certificate from a JSON string, as the controller in the cluster sends it.
func (s *Service) ingressCert(c echo.Context) error {
	certificate, err := decode[string](c)
	if err != nil {
		return err
	}
	if err := s.Engine.UploadIngressCert(c.Request().Context(), clusterID(c), *certificate); err != nil {
		return err
	}
	return c.NoContent(http.StatusCreated)
}
