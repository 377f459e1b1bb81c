package api

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/web/api/description"
	"landfall/web/problem"
)

func clusterID(c echo.Context) string { return c.Param("cluster_id") }

func (s *Service) listClusters(c echo.Context) error {
	id, err := uuid(c, "openshift_cluster_id")
	if err != nil {
		return err
	}
	owner, subscriptions := c.QueryParam("owner"), list(c, "ams_subscription_ids")
	var wanted func(*models.Cluster) bool
	if id != "" || owner != "" || len(subscriptions) > 0 {
		wanted = func(cluster *models.Cluster) bool {
			return (id == "" || cluster.OpenshiftClusterID.String() == id) && (owner == "" ||
				cluster.UserName == owner) &&
				(len(subscriptions) == 0 || slices.ContainsFunc(subscriptions,
					func(id string) bool { return hasSubscription(cluster, id) }))
		}
	}
	clusters, err := s.Engine.ClusterList(flag(c, "with_hosts"), wanted)
	return answerRendered(c, clusters, err)
}

// hasSubscription tells whether a cluster has a subscription of that id, or had it before AMS gave
// it one.
func hasSubscription(cluster *models.Cluster, id string) bool {
	return cluster.AmsSubscriptionID.String() == id || outbox.ClusterOf(id) == cluster.ID.String()
}

func (s *Service) registerCluster(c echo.Context) error {
	params, err := decode[description.ClusterCreateParams](c)
	if err != nil {
		return err
	}
	single := conv.Value(params.ControlPlaneCount) == 1 ||
		conv.Value(params.HighAvailabilityMode) == models.ClusterHighAvailabilityModeNone
	if params.OlmOperators, err = withBundles(params.OlmOperators, params.OperatorBundles, single); err != nil {
		return err
	}
	cluster, err := s.Engine.RegisterCluster(c.Request().Context(), &params.ClusterCreateParams)
	return answer(c, http.StatusCreated, cluster, err)
}

func (s *Service) getCluster(c echo.Context) error {
	withoutHosts := c.Request().Header.Get("exclude-hosts") == "true" || flag(c, "exclude-hosts")
	cluster, err := s.Engine.ClusterJSON(clusterID(c), !withoutHosts)
	return answerRendered(c, cluster, err)
}

func (s *Service) updateCluster(c echo.Context) error {
	params, err := decode[description.V2ClusterUpdateParams](c)
	if err != nil {
		return err
	}
	if params.OperatorBundles != nil {
		current, err := s.Engine.Cluster(clusterID(c))
		if err != nil {
			return err
		}
		single := conv.Value(params.ControlPlaneCount) == 1 || params.ControlPlaneCount == nil &&
			current.ControlPlaneCount == 1
		if params.OlmOperators, err = withBundles(params.OlmOperators, params.OperatorBundles, single); err != nil {
			return err
		}
	}
	cluster, err := s.Engine.UpdateCluster(c.Request().Context(), clusterID(c), &params.V2ClusterUpdateParams)
	return answer(c, http.StatusCreated, cluster, err)
}

func (s *Service) deregisterCluster(c echo.Context) error {
	return done(c, s.Engine.DeregisterCluster(c.Request().Context(), clusterID(c)))
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

func (s *Service) listClusterHosts(c echo.Context) error {
	inventory, connectivity := flag(c, "with-inventory"), flag(c, "with-connectivity")
	hosts, err := s.Engine.ClusterHosts(clusterID(c), inventory || connectivity)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		if !inventory {
			host.Inventory = ""
		}
		if !connectivity {
			host.Connectivity = ""
		}
	}
	role, status := c.QueryParam("role"), c.QueryParam("status")
	hosts = slices.DeleteFunc(hosts, func(h *models.Host) bool {
		return role != "" && string(h.Role) != role || status != "" && *h.Status != status
	})
	return c.JSON(http.StatusOK, hosts)
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
		return problem.NotFound("cluster %s has no operator %q that is watched", cluster.Name, name)
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

func (s *Service) finalizingProgress(c echo.Context) error {
	progress, err := decode[models.ClusterFinalizingProgress](c)
	if err != nil {
		return err
	}
	if err := s.Engine.FinalizingProgress(c.Request().Context(), clusterID(c), progress.FinalizingStage); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

// ingressCert takes the certificate as a JSON string, as the controller in the cluster sends it.
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

func (s *Service) preflight(c echo.Context) error {
	requirements, err := s.Engine.Preflight(clusterID(c))
	return answer(c, http.StatusOK, requirements, err)
}

func (s *Service) uiSettings(c echo.Context) error {
	settings, err := s.Engine.UISettings(clusterID(c))
	return answer(c, http.StatusOK, settings, err)
}

// setUISettings keeps what the browser sends: a JSON string, or bare text from older ones.
func (s *Service) setUISettings(c echo.Context) error {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return err
	}
	settings := string(body)
	var text string
	if json.Unmarshal(body, &text) == nil {
		settings = text
	}
	if err := s.Engine.SetUISettings(c.Request().Context(), clusterID(c), settings); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, settings)
}

func (s *Service) credentials(c echo.Context) error {
	credentials, err := s.Engine.Credentials(clusterID(c))
	return answer(c, http.StatusOK, credentials, err)
}

func (s *Service) clusterLogsProgress(c echo.Context) error {
	params, err := decode[models.LogsProgressParams](c)
	if err != nil {
		return err
	}
	return done(c, s.Engine.LogsProgress(c.Request().Context(), clusterID(c), "", "", *params.LogsState))
}
