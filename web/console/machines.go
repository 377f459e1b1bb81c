package console

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/agents"
	"landfall/web/operation"
	"landfall/web/problem"
)

// machines are the operations on the tokens of agents, installers and controllers.
type machines struct{ agents *agents.Service }

// tokenTime is the body of a request for a time in which a token, or no token, is accepted.
type tokenTime struct {
	Seconds *int64 `json:"seconds"`
}

// machinesAnswer lists the infra-envs with hosts that have no token.
type machinesAnswer struct {
	// Authenticated is true if the appliance authenticates machines. Otherwise the hosts are those
	// that it would refuse if it did.
	Authenticated bool            `json:"authenticated"`
	InfraEnvs     []agents.Tokens `json:"infra_envs"`
}

// MachineOperations returns the operations on the tokens of machines.
func MachineOperations(service *agents.Service) []operation.Operation {
	m := machines{service}
	return []operation.Operation{
		{ID: "listTokenlessHosts", Method: http.MethodGet, Path: BasePath + "/tokenless-hosts",
			Access: operation.For(access.Viewer), Handler: m.list,
			Summary: "List the hosts that booted an image without a token, by infra-env",
			Status:  http.StatusOK, Answer: machinesAnswer{}},
		{ID: "getAgentTokens", Method: http.MethodGet, Path: infraEnvPath + "/agent-tokens",
			Access: operation.For(access.Viewer), Handler: m.show,
			Summary: "Show since when and until when the tokens of an infra-env's hosts are valid",
			Status:  http.StatusOK, Answer: agents.Tokens{}, Errors: []int{404}},
		{ID: "renewAgentTokens", Method: http.MethodPost, Path: infraEnvPath + "/agent-tokens/renew",
			Access: operation.For(access.Operator), Handler: m.renew,
			Summary: "Renew the token of an infra-env's hosts; the previous one stays valid for some seconds",
			Body:    tokenTime{},
			Status:  http.StatusOK, Answer: agents.Change{}, Errors: []int{400, 404, 409}},
		{ID: "revokeAgentTokens", Method: http.MethodPost, Path: infraEnvPath + "/agent-tokens/revoke",
			Access: operation.For(access.Operator), Handler: m.revoke,
			Summary: "Revoke all tokens of an infra-env and name the hosts that need a new image",
			Status:  http.StatusOK, Answer: agents.Change{}, Errors: []int{404, 409}},
		{ID: "acceptTokenlessHosts", Method: http.MethodPost, Path: infraEnvPath + "/agent-tokens/accept-none",
			Access: operation.For(access.Administrator), Handler: m.accept,
			Summary: "Accept the hosts of an infra-env without a token for some seconds; 0 ends it",
			Body:    tokenTime{},
			Status:  http.StatusOK, Answer: agents.Tokens{}, Errors: []int{400, 404, 409}},
	}
}

func (m machines) list(c echo.Context) error {
	found, err := m.agents.Tokenless()
	return answer(c, machinesAnswer{m.agents.Enabled(), found}, err)
}

func (m machines) show(c echo.Context) error {
	tokens, err := m.agents.Tokens(c.Param("infra_env_id"))
	return answer(c, tokens, err)
}

func (m machines) renew(c echo.Context) error {
	grace, err := tokenSeconds(c)
	if err != nil {
		return err
	}
	change, err := m.agents.Renew(c.Request().Context(), c.Param("infra_env_id"), grace)
	return answer(c, change, err)
}

func (m machines) revoke(c echo.Context) error {
	change, err := m.agents.Revoke(c.Request().Context(), c.Param("infra_env_id"))
	return answer(c, change, err)
}

func (m machines) accept(c echo.Context) error {
	during, err := tokenSeconds(c)
	if err != nil {
		return err
	}
	tokens, err := m.agents.AcceptTokenless(c.Request().Context(), c.Param("infra_env_id"), during)
	return answer(c, tokens, err)
}

// tokenSeconds returns the time in the body, or 0 without one.
func tokenSeconds(c echo.Context) (time.Duration, error) {
	var wanted tokenTime
	if err := json.NewDecoder(c.Request().Body).Decode(&wanted); err != nil && !errors.Is(err, io.EOF) {
		return 0, problem.BadRequest("the body is invalid (%v); send {\"seconds\": 86400}", err)
	}
	if wanted.Seconds == nil {
		return 0, nil
	}
	if *wanted.Seconds < 0 || *wanted.Seconds > math.MaxInt64/int64(time.Second) {
		return 0, problem.BadRequest("seconds is %d; send a number of seconds from 0", *wanted.Seconds)
	}
	return time.Duration(*wanted.Seconds) * time.Second, nil
}
