package console

import (
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/agents"
	"landfall/appliance/engine/recipe"
	"landfall/ignition"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
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
		{ID: "getSealedImage", Method: http.MethodGet, Path: infraEnvPath + "/sealed-image",
			Access: operation.For(access.Viewer), Handler: m.showSealed,
			Summary: "Show whether the images of an infra-env are sealed, and which addresses fetched their config",
			Status:  http.StatusOK, Answer: agents.Sealed{}, Errors: []int{404}},
		{ID: "sealImage", Method: http.MethodPut, Path: infraEnvPath + "/sealed-image",
			Access: operation.For(access.Operator), Handler: m.seal,
			Summary: "Seal the images of an infra-env, or open sealed images again for some seconds",
			Body:    sealRequest{},
			Status:  http.StatusOK, Answer: agents.Sealed{}, Errors: []int{400, 404, 409}},
		{ID: "closeSealedImage", Method: http.MethodPost, Path: infraEnvPath + "/sealed-image/close",
			Access: operation.For(access.Operator), Handler: m.closeSealed,
			Summary: "End the time in which machines may fetch the config of an infra-env's sealed images",
			Status:  http.StatusOK, Answer: agents.Sealed{}, Errors: []int{404, 409}},
		{ID: "unsealImage", Method: http.MethodDelete, Path: infraEnvPath + "/sealed-image",
			Access: operation.For(access.Operator), Handler: m.unseal,
			Summary: "End the sealing of an infra-env's images: later images contain their config",
			Status:  http.StatusOK, Answer: agents.Sealed{}, Errors: []int{404, 409}},
		{ID: "fetchSealedConfig", Method: http.MethodGet, Path: recipe.ConfigPath(":infra_env_id"),
			Access: operation.CheckedBy("the token in the header " + ignition.TokenHeader).WithSecret().Admitting(),
			Quiet:  true, Handler: m.fetchConfig,
			Summary: "Download the discovery config, for a machine that booted a sealed image",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{401, 403, 503}},
	}
}

// sealRequest is the body of a request to seal images.
type sealRequest struct {
	// Seconds is the time for which machines may fetch the config; without it, a day.
	Seconds *int64 `json:"seconds"`
	// Machines is the largest number of machines that may fetch the config; 0 means no limit.
	Machines int `json:"machines"`
}

func (m machines) showSealed(c echo.Context) error {
	sealed, err := m.agents.Sealed(c.Param("infra_env_id"))
	return answer(c, sealed, err)
}

func (m machines) seal(c echo.Context) error {
	var wanted sealRequest
	if err := readOptional(c, &wanted); err != nil {
		return err
	}
	during, err := wanted.during()
	if err != nil {
		return err
	}
	sealed, err := m.agents.Seal(c.Request().Context(), c.Param("infra_env_id"), during, wanted.Machines)
	return answer(c, sealed, err)
}

func (r sealRequest) during() (time.Duration, error) {
	if r.Seconds == nil {
		return 0, nil
	}
	if *r.Seconds <= 0 || *r.Seconds > math.MaxInt64/int64(time.Second) {
		return 0, problem.BadRequest("seconds is %d; send a number of seconds above 0, or leave it out for a day",
			*r.Seconds)
	}
	return time.Duration(*r.Seconds) * time.Second, nil
}

func (m machines) closeSealed(c echo.Context) error {
	sealed, err := m.agents.Close(c.Request().Context(), c.Param("infra_env_id"))
	return answer(c, sealed, err)
}

func (m machines) unseal(c echo.Context) error {
	sealed, err := m.agents.Unseal(c.Request().Context(), c.Param("infra_env_id"))
	return answer(c, sealed, err)
}

// fetchConfig answers a machine. The fetch is stored and recorded before the config is sent.
func (m machines) fetchConfig(c echo.Context) error {
	r := c.Request()
	identity := access.Identity{Kind: access.Agent, InfraEnv: c.Param("infra_env_id"),
		Address: access.From(r.Context()).Address}
	config, err := m.agents.FetchConfig(r.Context(), agents.FetchRequest{Token: r.Header.Get(ignition.TokenHeader),
		InfraEnvID: identity.InfraEnv, Address: identity.Address})
	if err != nil {
		return err
	}
	if err := recording.Admit(access.With(r.Context(), identity)); err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(http.StatusOK, "application/vnd.coreos.ignition+json", config)
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
	if err := readOptional(c, &wanted); err != nil {
		return 0, err
	}
	if wanted.Seconds == nil {
		return 0, nil
	}
	if *wanted.Seconds < 0 || *wanted.Seconds > math.MaxInt64/int64(time.Second) {
		return 0, problem.BadRequest("seconds is %d; send a number of seconds from 0", *wanted.Seconds)
	}
	return time.Duration(*wanted.Seconds) * time.Second, nil
}
