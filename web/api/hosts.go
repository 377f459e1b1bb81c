package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/web/problem"
)

func hostID(c echo.Context) string { return c.Param("host_id") }

func (s *Service) listHosts(c echo.Context) error {
	hosts, err := s.Engine.HostList(infraEnvID(c))
	return answerRendered(c, hosts, err)
}

func (s *Service) getHost(c echo.Context) error {
	host, err := s.Engine.HostJSON(infraEnvID(c), hostID(c))
	return answerRendered(c, host, err)
}

// registerHost answers an agent. It takes the agent's body as it comes: newer agents may send
// fields that are not known here, and an agent that is refused is stopped for good.
func (s *Service) registerHost(c echo.Context) error {
	params, err := decodeLeniently[models.HostCreateParams](c)
	if err != nil {
		return err
	}
	registration, err := s.Engine.RegisterHost(c.Request().Context(), infraEnvID(c), params)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, &registered{registration.Host, registration.Runner})
}

// registered is models.HostRegistrationResponse for writing only: the model's own way renders the
// host twice.
type registered struct {
	*models.Host
	Runner *models.HostRegistrationResponseAO1NextStepRunnerCommand `json:"next_step_runner_command,omitempty"`
}

func (s *Service) updateHost(c echo.Context) error {
	params, err := decode[models.HostUpdateParams](c)
	if err != nil {
		return err
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
	host, err := s.Engine.BindHost(c.Request().Context(), infraEnvID(c), hostID(c), params.ClusterID.String())
	return answer(c, http.StatusOK, host, err)
}

func (s *Service) unbindHost(c echo.Context) error {
	host, err := s.Engine.UnbindHost(c.Request().Context(), infraEnvID(c), hostID(c))
	return answer(c, http.StatusOK, host, err)
}

// nextSteps answers a poll. It is the request that the appliance gets most often: the answer comes
// from memory.
func (s *Service) nextSteps(c echo.Context) error {
	poll := engine.Poll{InfraEnvID: infraEnvID(c), HostID: hostID(c)}
	if c.Request().URL.RawQuery != "" {
		poll.AgentVersion = c.QueryParam("discovery_agent_version")
		if text := c.QueryParam("timestamp"); text != "" {
			timestamp, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return problem.BadRequest("the parameter timestamp is %q; it takes the host's clock in seconds since "+
					"1970", text)
			}
			poll.Timestamp = timestamp
		}
	}
	body, err := s.Engine.Instructions(c.Request().Context(), poll)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body))) // else it is sent in chunks
	return c.JSONBlob(http.StatusOK, body)
}

func (s *Service) stepReply(c echo.Context) error {
	reply, err := decodeLeniently[models.StepReply](c)
	if err != nil {
		return err
	}
	return done(c, s.Engine.StepReply(c.Request().Context(), infraEnvID(c), hostID(c), reply))
}

func (s *Service) hostProgress(c echo.Context) error {
	progress, err := decodeLeniently[models.HostProgress](c)
	if err != nil {
		return err
	}
	if err := s.Engine.HostProgress(c.Request().Context(), infraEnvID(c), hostID(c), progress); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

func (s *Service) hostLogsProgress(c echo.Context) error {
	params, err := decode[models.LogsProgressParams](c)
	if err != nil {
		return err
	}
	return done(c, s.Engine.LogsProgress(c.Request().Context(), "", infraEnvID(c), hostID(c), *params.LogsState))
}

func (s *Service) downloadHostIgnition(c echo.Context) error {
	file, info, err := s.Engine.HostIgnition(infraEnvID(c), hostID(c))
	if err != nil {
		return err
	}
	return send(c, hostID(c)+".ign", file, info)
}
