package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/engine"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

func hostID(c echo.Context) string { return c.Param("host_id") }

// hostOperations returns the operations on hosts.
func (s *Service) hostOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "v2DownloadHostIgnition", Method: http.MethodGet,
			Path:   "/v2/infra-env/:infra_env_id/hosts/:host_id/downloads/ignition",
			Access: operation.For(access.Administrator).OrAgents().WithSecret(), Handler: s.downloadHostIgnition,
			Summary: "Download the ignition config of a host (for its installer)",
			Status:  200, Answer: operation.File{}, Errors: []int{401, 403, 404, 405, 409, 500, 503}},
		{ID: "v2ListHosts", Method: http.MethodGet, Path: hostsPath,
			Access: operation.For(access.Viewer).OrAgents(), Handler: s.listHosts, FromCopy: true,
			Summary: "List the hosts of an infra-env",
			Status:  200, Answer: models.HostList{}, Errors: []int{401, 403, 405, 500, 501, 503}},
		{ID: "v2RegisterHost", Method: http.MethodPost, Path: hostsPath,
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.registerHost,
			Summary: "Register a host (for its agent)",
			Parameters: []operation.Parameter{
				{Name: "discovery_agent_version", In: "header"},
			},
			Body:   models.HostCreateParams{},
			Status: 201, Answer: models.HostRegistrationResponse{}, Errors: []int{400, 401, 403, 404, 405, 409,
				500, 501, 503}},
		{ID: "v2GetHost", Method: http.MethodGet, Path: hostPath,
			Access: operation.For(access.Viewer), Handler: s.getHost, FromCopy: true,
			Summary: "Show a host",
			Status:  200, Answer: models.Host{}, Errors: []int{401, 403, 404, 405, 500, 501}},
		{ID: "v2UpdateHost", Method: http.MethodPatch, Path: hostPath,
			Access: operation.For(access.Operator), Handler: s.updateHost, DryRun: true,
			Summary: "Change a host's name, role, disks and labels",
			Body:    models.HostUpdateParams{},
			Status:  201, Answer: models.Host{}, Errors: []int{400, 401, 403, 404, 405, 409, 500}},
		{ID: "v2DeregisterHost", Method: http.MethodDelete, Path: hostPath,
			Access: operation.For(access.Operator), Handler: s.deregisterHost, DryRun: true,
			Summary: "Delete a host",
			Status:  204, Errors: []int{400, 401, 403, 404, 405, 500}},
		{ID: "BindHost", Method: http.MethodPost, Path: hostPath + "/actions/bind",
			Access: operation.For(access.Operator), Handler: s.bindHost, DryRun: true,
			Summary: "Bind a host to a cluster",
			Body:    models.BindHostParams{},
			Status:  200, Answer: models.Host{}, Errors: []int{400, 401, 403, 404, 405, 500, 501, 503}},
		{ID: "v2InstallHost", Method: http.MethodPost, Path: hostPath + "/actions/install",
			Access: operation.For(access.Operator), Handler: s.installHost, DryRun: true,
			Summary: "Install a host that joins an installed cluster",
			Status:  202, Answer: models.Host{}, Errors: []int{401, 403, 404, 409, 500}},
		{ID: "v2ResetHost", Method: http.MethodPost, Path: hostPath + "/actions/reset",
			Access: operation.For(access.Operator), Handler: s.resetHost, DryRun: true,
			Summary: "Reset a host that joins an installed cluster",
			Status:  200, Answer: models.Host{}, Errors: []int{401, 403, 404, 409, 500}},
		{ID: "v2ResetHostValidation", Method: http.MethodPatch, Path: hostPath +
			"/actions/reset-validation/:validation_id",
			Access: operation.For(access.Operator), Handler: s.resetHostValidation,
			Summary: "Repeat a one-time check",
			Status:  200, Answer: models.Host{}, Errors: []int{400, 401, 403, 404, 409, 500}},
		{ID: "UnbindHost", Method: http.MethodPost, Path: hostPath + "/actions/unbind",
			Access: operation.For(access.Operator), Handler: s.unbindHost, DryRun: true,
			Summary: "Unbind a host from its cluster",
			Status:  200, Answer: models.Host{}, Errors: []int{400, 401, 403, 404, 405, 409, 500, 501, 503}},
		{ID: "v2GetHostIgnition", Method: http.MethodGet, Path: hostPath + "/ignition",
			Access: operation.For(access.Administrator).WithSecret(), Handler: s.hostIgnition,
			Summary: "Show the ignition config of a host",
			Status:  200, Answer: models.HostIgnitionParams{}, Errors: []int{401, 403, 404, 405, 500, 501, 503}},
		{ID: "v2UpdateHostIgnition", Method: http.MethodPatch, Path: hostPath + "/ignition",
			Access: operation.For(access.Operator), Handler: s.updateHostIgnition, DryRun: true,
			Summary: "Override the ignition config of a host",
			Body:    models.HostIgnitionParams{},
			Status:  201, Errors: []int{400, 401, 403, 404, 405, 500, 501}},
		{ID: "v2UpdateHostInstallerArgs", Method: http.MethodPatch, Path: hostPath + "/installer-args",
			Access: operation.For(access.Operator), Handler: s.updateInstallerArgs, DryRun: true,
			Summary: "Set the arguments of a host's installer",
			Body:    models.InstallerArgsParams{},
			Status:  201, Answer: models.Host{}, Errors: []int{400, 401, 403, 404, 405, 409, 500, 501}},
		{ID: "v2GetNextSteps", Method: http.MethodGet, Path: hostPath + "/instructions",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.nextSteps, Quiet: true,
			Summary: "Get the next steps (for agents)",
			Parameters: []operation.Parameter{
				{Name: "timestamp", Type: operation.Number},
				{Name: "discovery_agent_version", In: "header"},
			},
			Status: 200, Answer: models.Steps{}, Errors: []int{401, 403, 404, 405, 500, 501, 503}},
		{ID: "v2PostStepReply", Method: http.MethodPost, Path: hostPath + "/instructions",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.stepReply, Quiet: true,
			Summary: "Reply to a step (for agents)",
			Parameters: []operation.Parameter{
				{Name: "discovery_agent_version", In: "header"},
			},
			Body:   models.StepReply{},
			Status: 204, Errors: []int{400, 401, 403, 404, 405, 500, 501, 503}},
		{ID: "v2UpdateHostInstallProgress", Method: http.MethodPut, Path: hostPath + "/progress",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.hostProgress,
			Summary: "Report the stage of a host's installation (for its installer and the controller)",
			Parameters: []operation.Parameter{
				{Name: "discovery_agent_version", In: "header"},
			},
			Body:   models.HostProgress{},
			Status: 200, Errors: []int{401, 403, 404, 405, 500, 503}},
	}
}

func (s *Service) listHosts(c echo.Context) error {
	hosts, err := s.Engine.HostList(infraEnvID(c))
	return answerRendered(c, hosts, err)
}

func (s *Service) getHost(c echo.Context) error {
	host, err := s.Engine.HostJSON(infraEnvID(c), hostID(c))
	return answerRendered(c, host, err)
}

// registerHost registers the host of an agent. It accepts unknown fields, because newer agents may
// send them, and an agent stops and does not try again if its registration fails.
func (s *Service) registerHost(c echo.Context) error {
	params, err := decodeLeniently[models.HostCreateParams](c)
	if err != nil {
		return err
	}
	if err := checkBodyID("host_id", params.HostID); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if s.Agents.Enabled() && params.HostID != nil {
		if err := s.Agents.CheckMove(ctx, access.From(ctx), infraEnvID(c), params.HostID.String()); err != nil {
			return err
		}
	}
	registration, err := s.Engine.RegisterHost(ctx, infraEnvID(c), params)
	if err != nil {
		return err
	}
	recording.Created(ctx, "host_id", registration.Host.ID.String())
	return c.JSON(http.StatusCreated, &registered{registration.Host, registration.Runner})
}

// registered is a models.HostRegistrationResponse for encoding only: the model's own MarshalJSON
// encodes the host twice.
type registered struct {
	*models.Host
	Runner *models.HostRegistrationResponseAO1NextStepRunnerCommand `json:"next_step_runner_command,omitempty"`
}

func (s *Service) updateHost(c echo.Context) error {
	params, err := decode[models.HostUpdateParams](c)
	if err != nil {
		return err
	}
	if s.HostChanges != nil {
		if err := s.HostChanges.CheckUpdate(infraEnvID(c), hostID(c), params); err != nil {
			return err
		}
	}
	host, err := s.Engine.UpdateHost(c.Request().Context(), infraEnvID(c), hostID(c), params)
	return answer(c, http.StatusCreated, host, err)
}

func (s *Service) deregisterHost(c echo.Context) error {
	return done(c, s.Engine.DeregisterHost(c.Request().Context(), infraEnvID(c), hostID(c)))
}

func (s *Service) bindHost(c echo.Context) error {
	params, err := decode[models.BindHostParams](c)
	if err != nil {
		return err
	}
	if err := checkBodyID("cluster_id", params.ClusterID); err != nil {
		return err
	}
	if scope := scopeOf(c); !scope.Cluster(params.ClusterID.String()) {
		return problem.Forbidden("you may not add hosts to cluster %s; ask an administrator", params.ClusterID)
	}
	if s.HostChanges != nil {
		if err := s.HostChanges.CheckBinding(infraEnvID(c), hostID(c), params.ClusterID.String()); err != nil {
			return err
		}
	}
	host, err := s.Engine.BindHost(c.Request().Context(), infraEnvID(c), hostID(c), params.ClusterID.String())
	return answer(c, http.StatusOK, host, err)
}

func (s *Service) unbindHost(c echo.Context) error {
	if s.HostChanges != nil {
		if err := s.HostChanges.CheckBinding(infraEnvID(c), hostID(c), ""); err != nil {
			return err
		}
	}
	host, err := s.Engine.UnbindHost(c.Request().Context(), infraEnvID(c), hostID(c))
	return answer(c, http.StatusOK, host, err)
}

func (s *Service) installHost(c echo.Context) error {
	host, err := s.Engine.InstallHost(c.Request().Context(), infraEnvID(c), hostID(c))
	return answer(c, http.StatusAccepted, host, err)
}

func (s *Service) resetHost(c echo.Context) error {
	host, err := s.Engine.ResetHost(c.Request().Context(), infraEnvID(c), hostID(c))
	return answer(c, http.StatusOK, host, err)
}

func (s *Service) resetHostValidation(c echo.Context) error {
	host, err := s.Engine.ResetHostValidation(c.Request().Context(), infraEnvID(c), hostID(c), c.Param("validation_id"))
	return answer(c, http.StatusOK, host, err)
}

// nextSteps returns the next steps of an agent. Agents send this request more often than any other,
// so its response comes from memory.
func (s *Service) nextSteps(c echo.Context) error {
	poll := engine.Poll{InfraEnvID: infraEnvID(c), HostID: hostID(c)}
	if c.Request().URL.RawQuery != "" {
		poll.AgentVersion = c.QueryParam("discovery_agent_version")
		if text := c.QueryParam("timestamp"); text != "" {
			timestamp, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return problem.BadRequest("the parameter timestamp is %q; expected the host's clock in seconds since "+
					"1970", text)
			}
			poll.Timestamp = timestamp
		}
	}
	body, err := s.Engine.Instructions(c.Request().Context(), poll)
	if err != nil {
		return err
	}
	// without the length, the response would be sent in chunks
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return c.JSONBlob(http.StatusOK, body)
}

func (s *Service) stepReply(c echo.Context) error {
	reply, err := decodeLeniently[models.StepReply](c)
	if err != nil {
		return err
	}
	return done(c, s.Engine.ApplyStepReply(c.Request().Context(), infraEnvID(c), hostID(c), reply))
}

func (s *Service) hostProgress(c echo.Context) error {
	progress, err := decodeLeniently[models.HostProgress](c)
	if err != nil {
		return err
	}
	if err := s.Engine.RecordHostProgress(c.Request().Context(), infraEnvID(c), hostID(c), progress); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

func (s *Service) downloadHostIgnition(c echo.Context) error {
	file, info, err := s.Engine.OpenHostIgnition(infraEnvID(c), hostID(c))
	if err != nil {
		return err
	}
	return send(c, hostID(c)+".ign", file, info)
}

func (s *Service) hostIgnition(c echo.Context) error {
	config, err := s.Engine.ReadHostIgnition(infraEnvID(c), hostID(c))
	return answer(c, http.StatusOK, &models.HostIgnitionParams{Config: config}, err)
}

func (s *Service) updateHostIgnition(c echo.Context) error {
	params, err := decode[models.HostIgnitionParams](c)
	if err != nil {
		return err
	}
	if s.HostChanges != nil {
		if err := s.HostChanges.CheckIgnition(infraEnvID(c), hostID(c), params.Config); err != nil {
			return err
		}
	}
	return created(c, s.Engine.SetHostIgnition(c.Request().Context(), infraEnvID(c), hostID(c), params.Config))
}

func (s *Service) updateInstallerArgs(c echo.Context) error {
	params, err := decode[models.InstallerArgsParams](c)
	if err != nil {
		return err
	}
	if s.HostChanges != nil {
		if err := s.HostChanges.CheckInstallerArgs(infraEnvID(c), hostID(c), params.Args); err != nil {
			return err
		}
	}
	host, err := s.Engine.SetInstallerArgs(c.Request().Context(), infraEnvID(c), hostID(c), params.Args)
	return answer(c, http.StatusCreated, host, err)
}
