package api

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/description"
	"landfall/web/operation"
	"landfall/web/recording"
)

func clusterID(c echo.Context) string { return c.Param("cluster_id") }

// clusterOperations returns the operations on the descriptions of clusters.
func (s *Service) clusterOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "v2ListClusters", Method: http.MethodGet, Path: "/v2/clusters",
			Access: operation.For(access.Viewer).OfOwn(), Handler: s.listClusters, FromCopy: true,
			Summary: "List the clusters",
			Parameters: []operation.Parameter{
				{Name: "get_unregistered_clusters", Type: operation.Flag, In: "header"},
				{Name: "openshift_cluster_id", Type: operation.UUID},
				{Name: "ams_subscription_ids", Type: operation.TextList},
				{Name: "with_hosts", Type: operation.Flag},
				{Name: "owner"},
			},
			Status: 200, Answer: models.ClusterList{}, Errors: []int{401, 403, 405, 500, 503}},
		{ID: "v2RegisterCluster", Method: http.MethodPost, Path: "/v2/clusters",
			Access: operation.For(access.Operator), Handler: s.registerCluster, DryRun: true,
			Summary: "Create a cluster",
			Body:    ClusterCreateParams{},
			Status:  201, Answer: models.Cluster{}, Errors: []int{400, 401, 403, 405, 500}},
		{ID: "V2GetClusterDefaultConfig", Method: http.MethodGet, Path: "/v2/clusters/default-config",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.defaultConfig, FromCopy: true,
			Summary: "Show the defaults of a new cluster",
			Status:  200, Answer: models.ClusterDefaultConfig{}, Errors: []int{401, 403, 500}},
		{ID: "v2RegisterDisconnectedCluster", Method: http.MethodPost, Path: "/v2/clusters/disconnected",
			Access: operation.For(access.Operator), Handler: s.registerDisconnectedCluster,
			Summary: "Import a cluster that was not installed by this service",
			Body:    models.DisconnectedClusterCreateParams{},
			Status:  201, Answer: models.Cluster{}, Errors: []int{400, 401, 403, 500}},
		{ID: "v2ImportCluster", Method: http.MethodPost, Path: "/v2/clusters/import",
			Access: operation.For(access.Operator), Handler: s.importCluster, DryRun: true,
			Summary: "Import an existing cluster so that hosts can join it",
			Body:    models.ImportClusterParams{},
			Status:  201, Answer: models.Cluster{}, Errors: []int{400, 401, 403, 500}},
		{ID: "v2GetCluster", Method: http.MethodGet, Path: clusterPath,
			Access: operation.For(access.Viewer).OrAgents(), Handler: s.getCluster, FromCopy: true,
			Summary: "Show a cluster with its hosts",
			Parameters: []operation.Parameter{
				{Name: "discovery_agent_version", In: "header"},
				{Name: "get_unregistered_clusters", Type: operation.Flag, In: "header"},
				{Name: "exclude-hosts", Type: operation.Flag},
			},
			Status: 200, Answer: models.Cluster{}, Errors: []int{401, 403, 404, 405, 500, 503}},
		{ID: "V2UpdateCluster", Method: http.MethodPatch, Path: clusterPath,
			Access: operation.For(access.Operator), Handler: s.updateCluster, DryRun: true,
			Summary: "Change a cluster; absent and null fields stay unchanged",
			Body:    V2ClusterUpdateParams{},
			Status:  201, Answer: models.Cluster{}, Errors: []int{400, 401, 403, 404, 405, 409, 500}},
		{ID: "v2DeregisterCluster", Method: http.MethodDelete, Path: clusterPath,
			Access: operation.For(access.Operator), Handler: s.deregisterCluster, DryRun: true,
			Summary:    "Delete a cluster; with force also one on which the control planes of hosted clusters run",
			Parameters: []operation.Parameter{{Name: "force", Type: operation.Flag}},
			Status:     204, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "TransformClusterToAddingHosts", Method: http.MethodPost, Path: clusterPath + "/actions/allow-add-hosts",
			Access: operation.For(access.Operator), Handler: s.allowAddHosts,
			Summary: "Permit more hosts to join an installed cluster",
			Status:  202, Answer: models.Cluster{}, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "TransformClusterToDay2", Method: http.MethodPost, Path: clusterPath + "/actions/allow-add-workers",
			Access: operation.For(access.Operator), Handler: s.allowAddHosts, DryRun: true,
			Summary: "Permit more hosts to join an installed cluster (older name)",
			Status:  202, Answer: models.Cluster{}, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "ListClusterHosts", Method: http.MethodGet, Path: clusterPath + "/hosts",
			Access: operation.For(access.Viewer).OrAgents(), Handler: s.listClusterHosts, FromCopy: true,
			Summary: "List the hosts of a cluster",
			Parameters: []operation.Parameter{
				{Name: "role", Values: []string{"master", "arbiter", "worker", "auto-assign"}},
				{Name: "status"},
				{Name: "with-inventory", Type: operation.Flag},
				{Name: "with-connectivity", Type: operation.Flag},
			},
			Status: 200, Answer: models.HostList{}, Errors: []int{401, 403, 404, 500}},
		{ID: "v2GetIgnoredValidations", Method: http.MethodGet, Path: clusterPath + "/ignored-validations",
			Access: operation.For(access.Viewer), Handler: s.ignoredValidations, FromCopy: true,
			Summary: "Show the ignored validations",
			Status:  200, Answer: models.IgnoredValidations{}, Errors: []int{400, 404}},
		{ID: "v2SetIgnoredValidations", Method: http.MethodPut, Path: clusterPath + "/ignored-validations",
			Access: operation.For(access.Operator), Handler: s.ignoreValidations, DryRun: true,
			Summary: "Set the ignored validations",
			Body:    models.IgnoredValidations{},
			Status:  201, Answer: models.IgnoredValidations{}, Errors: []int{400, 404, 401, 403, 500}},
		{ID: "V2GetClusterUISettings", Method: http.MethodGet, Path: clusterPath + "/ui-settings",
			Access: operation.For(access.Viewer), Handler: s.uiSettings, FromCopy: true,
			Summary: "Show the browser application's settings of a cluster",
			Status:  200, Answer: "", Errors: []int{400, 404, 401, 403, 500}},
		{ID: "V2UpdateClusterUISettings", Method: http.MethodPut, Path: clusterPath + "/ui-settings",
			Access: operation.For(access.Operator), Handler: s.setUISettings,
			Summary: "Replace the browser application's settings of a cluster",
			Body:    "",
			Status:  200, Answer: "", Errors: []int{400, 404, 401, 403, 500}},
	}
}

func (s *Service) listClusters(c echo.Context) error {
	id, err := uuid(c, "openshift_cluster_id")
	if err != nil {
		return err
	}
	owner, subscriptions := c.QueryParam("owner"), list(c, "ams_subscription_ids")
	var wanted func(*models.Cluster) bool
	scope := scopeOf(c)
	if id != "" || owner != "" || len(subscriptions) > 0 || scope.Limited() {
		wanted = func(cluster *models.Cluster) bool {
			return scope.Cluster(cluster.ID.String()) &&
				(id == "" || cluster.OpenshiftClusterID.String() == id) && (owner == "" ||
				cluster.UserName == owner) &&
				(len(subscriptions) == 0 || slices.ContainsFunc(subscriptions,
					func(id string) bool { return hasSubscription(cluster, id) }))
		}
	}
	clusters, err := s.Engine.ClusterList(flag(c, "with_hosts"), wanted)
	return answerRendered(c, clusters, err)
}

// hasSubscription reports whether a cluster has a subscription with that ID: either the ID that AMS
// assigned, or the preliminary one.
func hasSubscription(cluster *models.Cluster, id string) bool {
	return cluster.AmsSubscriptionID.String() == id || outbox.ClusterOf(id) == cluster.ID.String()
}

func (s *Service) registerCluster(c echo.Context) error {
	params, err := s.decodeCluster(c)
	if err != nil {
		return err
	}
	err = setTimeServers("additional_ntp_source", &params.AdditionalNtpSource, params.NtpSources)
	if err != nil {
		return err
	}
	single := conv.Value(params.ControlPlaneCount) == 1 ||
		conv.Value(params.HighAvailabilityMode) == models.ClusterHighAvailabilityModeNone
	if params.OlmOperators, err = withBundles(params.OlmOperators, params.OperatorBundles, single); err != nil {
		return err
	}
	cluster, err := s.Engine.RegisterCluster(c.Request().Context(), &params.ClusterCreateParams)
	if err != nil {
		return err
	}
	// Clients expect the state in which the Assisted Installer creates clusters, before it looks
	// for missing settings. The next request shows the result of the validations.
	cluster.Status, cluster.StatusInfo = conv.Pointer(models.ClusterStatusInsufficient),
		conv.Pointer("Cluster is not ready for install")
	return answerCreated(c, cluster, nil)
}

// answerCreated sends a new cluster, or returns the error.
func answerCreated(c echo.Context, cluster *models.Cluster, err error) error {
	if err != nil {
		return err
	}
	recording.Created(c.Request().Context(), "cluster_id", cluster.ID.String())
	return answer(c, http.StatusCreated, cluster, nil)
}

// defaultConfig returns the defaults of a new cluster. The appliance never deletes inactive
// clusters, so the field for that stays empty.
func (s *Service) defaultConfig(c echo.Context) error {
	v4 := &models.ClusterNetwork{Cidr: description.DefaultClusterNetwork,
		HostPrefix: description.DefaultClusterHostPrefix}
	v6 := &models.ClusterNetwork{Cidr: "fd01::/48", HostPrefix: 64}
	service := &models.ServiceNetwork{Cidr: description.DefaultServiceNetwork}
	return c.JSON(http.StatusOK, &models.ClusterDefaultConfig{
		ClusterNetworkCidr:       description.DefaultClusterNetwork,
		ClusterNetworkHostPrefix: description.DefaultClusterHostPrefix,
		ServiceNetworkCidr:       description.DefaultServiceNetwork,
		ClusterNetworksIPV4:      []*models.ClusterNetwork{v4}, ServiceNetworksIPV4: []*models.ServiceNetwork{service},
		ClusterNetworksDualstack: []*models.ClusterNetwork{v4, v6},
		ServiceNetworksDualstack: []*models.ServiceNetwork{service, {Cidr: "fd02::/112"}},
		NtpSource:                strings.Join(s.Engine.NTPSources(), ","), ForbiddenHostnames: []string{"localhost",
			"localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6"},
	})
}

func (s *Service) importCluster(c echo.Context) error {
	params, err := decode[models.ImportClusterParams](c)
	if err != nil {
		return err
	}
	cluster, err := s.Engine.ImportCluster(c.Request().Context(), params)
	return answerCreated(c, cluster, err)
}

func (s *Service) registerDisconnectedCluster(c echo.Context) error {
	params, err := decode[models.DisconnectedClusterCreateParams](c)
	if err != nil {
		return err
	}
	cluster, err := s.Engine.RegisterDisconnectedCluster(c.Request().Context(), conv.Value(params.Name),
		conv.Value(params.OpenshiftVersion))
	return answerCreated(c, cluster, err)
}

func (s *Service) getCluster(c echo.Context) error {
	withoutHosts := c.Request().Header.Get("exclude-hosts") == "true" || flag(c, "exclude-hosts")
	cluster, err := s.Engine.ClusterJSON(clusterID(c), !withoutHosts)
	return answerRendered(c, cluster, err)
}

func (s *Service) updateCluster(c echo.Context) error {
	params, err := decode[V2ClusterUpdateParams](c)
	if err != nil {
		return err
	}
	err = setTimeServers("additional_ntp_source", &params.AdditionalNtpSource, params.NtpSources)
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
	if err := s.restoreClusterProxies(clusterID(c), &params.V2ClusterUpdateParams); err != nil {
		return err
	}
	cluster, err := s.Engine.UpdateCluster(c.Request().Context(), clusterID(c), &params.V2ClusterUpdateParams)
	return answer(c, http.StatusCreated, cluster, err)
}

func (s *Service) deregisterCluster(c echo.Context) error {
	return done(c, s.Engine.DeregisterCluster(c.Request().Context(), clusterID(c), flag(c, "force")))
}

// allowAddHosts serves two equivalent operations. The operation whose name contains "workers" is
// the older one.
func (s *Service) allowAddHosts(c echo.Context) error {
	cluster, err := s.Engine.AllowAddHosts(c.Request().Context(), clusterID(c))
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

func (s *Service) ignoredValidations(c echo.Context) error {
	ignored, err := s.Engine.IgnoredValidations(clusterID(c))
	return answer(c, http.StatusOK, ignored, err)
}

func (s *Service) ignoreValidations(c echo.Context) error {
	wanted, err := decode[models.IgnoredValidations](c)
	if err != nil {
		return err
	}
	ignored, err := s.Engine.IgnoreValidations(c.Request().Context(), clusterID(c), wanted)
	return answer(c, http.StatusCreated, ignored, err)
}

func (s *Service) uiSettings(c echo.Context) error {
	settings, err := s.Engine.UISettings(clusterID(c))
	return answer(c, http.StatusOK, settings, err)
}

// setUISettings stores the browser application's settings. The body is a JSON string, or bare text
// from older versions.
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
