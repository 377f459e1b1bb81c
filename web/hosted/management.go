package hosted

import (
	"net"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/hosted/readiness"
	"landfall/appliance/hosted/record"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

// Findings is what a cluster lacks as a management cluster.
type Findings struct {
	Findings []readiness.Finding `json:"findings"`
}

// Applied are the objects of the agent that were applied to a management cluster.
type Applied struct {
	Objects []string `json:"objects"`
}

// ChosenWorkers are the infra-envs whose hosts become workers; none: the management cluster's own
// assisted service has the workers.
type ChosenWorkers struct {
	Workers []record.Workers `json:"workers"`
}

// wantedManagement reads a request for a management cluster and fills in what it omits.
func (s consoleService) wantedManagement(c echo.Context) (wanted record.Management, err error) {
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return wanted, err
	}
	if wanted.AgentNamespace == "" {
		wanted.AgentNamespace = record.DefaultAgentNamespace
	}
	if err := complete(&wanted, s.clusters); err != nil {
		return wanted, err
	}
	s.ChooseLayout(c.Request().Context(), &wanted)
	return wanted, nil
}

func (s consoleService) checkManagement(c echo.Context) error {
	wanted, err := s.wantedManagement(c)
	if err != nil {
		return err
	}
	answer := Findings{[]readiness.Finding{}}
	answer.Findings = append(answer.Findings, s.CheckManagement(c.Request().Context(), &wanted)...)
	return c.JSON(http.StatusOK, answer)
}

// addManagement makes a cluster a management cluster. A cluster of the appliance must lack nothing
// that control planes need, unless the request has force.
func (s consoleService) addManagement(c echo.Context) error {
	wanted, err := s.wantedManagement(c)
	if err != nil {
		return err
	}
	force, err := operation.ReadFlag(c, "force")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if wanted.ClusterID != "" && !force {
		if missing := readiness.Errors(s.CheckManagement(ctx, &wanted)); len(missing) > 0 {
			return problem.Conflict("%s", strings.Join(missing, " ")+" Use force (landfall hcp consumers add --force) "+
				"to use the cluster all the same")
		}
	}
	if err := s.Workers.Check(ctx, &wanted); err != nil {
		return err
	}
	m, err := s.Provider.AddManagement(ctx, wanted)
	if err != nil {
		return err
	}
	recording.Created(ctx, "management_cluster", m.Consumer)
	return c.JSON(http.StatusCreated, m)
}

// brokerAddress returns the host by which the client knows the appliance, with the broker's port.
func (s consoleService) brokerAddress(c echo.Context) (string, error) {
	if s.Broker == nil {
		return "", problem.Conflict("the broker needs TLS, which tls.enabled: false disables")
	}
	host, _, err := net.SplitHostPort(c.Request().Host)
	if err != nil {
		host = c.Request().Host
	}
	_, port, err := net.SplitHostPort(s.Broker.Address().String())
	return net.JoinHostPort(host, port), err
}

// agent answers the manifests of an agent with a new certificate.
func (s consoleService) agent(c echo.Context) error {
	address, err := s.brokerAddress(c)
	if err != nil {
		return err
	}
	consumer := c.Param("consumer")
	text, err := s.AgentManifests(c.Request().Context(), consumer, address, c.QueryParam("image"))
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="agent-`+consumer+`.yaml"`)
	return c.Blob(http.StatusOK, "application/yaml", text)
}

// applyAgent applies the manifests of an agent with a new certificate to its management cluster.
func (s consoleService) applyAgent(c echo.Context) error {
	address, err := s.brokerAddress(c)
	if err != nil {
		return err
	}
	applied, err := s.ApplyAgent(c.Request().Context(), c.Param("consumer"), address, c.QueryParam("image"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, Applied{applied})
}

// workers answers which hosts of the appliance are offered to a management cluster.
func (s consoleService) workers(c echo.Context) error {
	answer, err := s.Workers.Overview(c.Param("consumer"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, answer)
}

// setWorkers chooses the infra-envs whose hosts are offered to a management cluster.
func (s consoleService) setWorkers(c echo.Context) error {
	var wanted ChosenWorkers
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	consumer := c.Param("consumer")
	if err := s.Workers.Set(c.Request().Context(), consumer, wanted.Workers); err != nil {
		return err
	}
	return s.workers(c)
}
