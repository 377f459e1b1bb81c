package api

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/engine/description"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

func infraEnvID(c echo.Context) string { return c.Param("infra_env_id") }

// infraEnvOperations returns the operations on infra-envs.
func (s *Service) infraEnvOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "ListInfraEnvs", Method: http.MethodGet, Path: "/v2/infra-envs",
			Access: operation.For(access.Viewer).OfOwn(), Handler: s.listInfraEnvs, FromCopy: true,
			Summary: "List the infra-envs",
			Parameters: []operation.Parameter{
				{Name: "cluster_id", Type: operation.UUID},
				{Name: "owner"},
			},
			Status: 200, Answer: models.InfraEnvList{}, Errors: []int{401, 403, 405, 500, 501, 503}},
		{ID: "RegisterInfraEnv", Method: http.MethodPost, Path: "/v2/infra-envs",
			Access: operation.For(access.Operator), Handler: s.registerInfraEnv, DryRun: true,
			Summary: "Create an infra-env",
			Body:    InfraEnvCreateParams{},
			Status:  201, Answer: models.InfraEnv{}, Errors: []int{400, 401, 403, 404, 405, 409, 500, 501}},
		{ID: "GetInfraEnv", Method: http.MethodGet, Path: infraEnvPath,
			Access: operation.For(access.Viewer).OrAgents().OrLinks(), Handler: s.getInfraEnv, FromCopy: true,
			Summary: "Show an infra-env",
			Status:  200, Answer: models.InfraEnv{}, Errors: []int{401, 403, 404, 405, 500, 501, 503}},
		{ID: "UpdateInfraEnv", Method: http.MethodPatch, Path: infraEnvPath,
			Access: operation.For(access.Operator), Handler: s.updateInfraEnv, DryRun: true,
			Summary: "Change an infra-env; absent and null fields stay unchanged",
			Body:    InfraEnvUpdateParams{},
			Status:  201, Answer: models.InfraEnv{}, Errors: []int{400, 401, 403, 404, 405, 409, 500, 501}},
		{ID: "DeregisterInfraEnv", Method: http.MethodDelete, Path: infraEnvPath,
			Access: operation.For(access.Operator), Handler: s.deregisterInfraEnv, DryRun: true,
			Summary: "Delete an infra-env",
			Status:  204, Errors: []int{401, 403, 404, 405, 409, 500, 501}},
	}
}

func (s *Service) listInfraEnvs(c echo.Context) error {
	cluster, err := uuid(c, "cluster_id")
	if err != nil {
		return err
	}
	envs, err := s.Engine.InfraEnvs(cluster) // all infra-envs have the same owner
	if envs = visible(scopeOf(c), envs); err == nil {
		err = s.addTokens(c, envs...)
	}
	return answer(c, http.StatusOK, envs, err)
}

func (s *Service) registerInfraEnv(c echo.Context) error {
	params, err := s.decodeInfraEnv(c)
	if err != nil {
		return err
	}
	if err := checkBodyID("cluster_id", params.ClusterID); err != nil {
		return err
	}
	err = setTimeServers("additional_ntp_sources", &params.AdditionalNtpSources, params.NtpSources)
	if err != nil {
		return err
	}
	if err := description.RestoreNetworkSecrets(params.StaticNetworkConfig, new(models.InfraEnv)); err != nil {
		return err
	}
	env, err := s.Engine.RegisterInfraEnv(c.Request().Context(), &params.InfraEnvCreateParams)
	if err != nil {
		return err
	}
	recording.Created(c.Request().Context(), "infra_env_id", env.ID.String())
	return answer(c, http.StatusCreated, env, s.addTokens(c, env))
}

// setTimeServers sets the field with the additional time servers to ntp_sources, if that is sent.
// ntp_sources replaces all other time servers. The additional servers do the same here.
func setTimeServers(additional string, field **string, sources *string) error {
	if sources == nil {
		return nil
	}
	if *sources != "" && conv.Value(*field) != "" {
		return problem.BadRequest("ntp_sources and %s cannot be set together; leave out one of them", additional)
	}
	if *sources != "" || *field == nil {
		*field = sources
	}
	return nil
}

func (s *Service) getInfraEnv(c echo.Context) error {
	env, err := s.Engine.InfraEnv(infraEnvID(c))
	if err == nil {
		err = s.addTokens(c, env)
	}
	return answer(c, http.StatusOK, env, err)
}

func (s *Service) updateInfraEnv(c echo.Context) error {
	params, err := decode[InfraEnvUpdateParams](c)
	if err != nil {
		return err
	}
	err = setTimeServers("additional_ntp_sources", &params.AdditionalNtpSources, params.NtpSources)
	if err != nil {
		return err
	}
	update := &params.InfraEnvUpdateParams
	if override := params.IgnitionConfigOverride; override != nil {
		update.IgnitionConfigOverride = cmp.Or(*override, description.Cleared)
	}
	if err := s.restoreInfraEnvProxies(infraEnvID(c), update); err != nil {
		return err
	}
	if err := s.restoreNetworkSecrets(infraEnvID(c), update); err != nil {
		return err
	}
	env, err := s.Engine.UpdateInfraEnv(c.Request().Context(), infraEnvID(c), update)
	if err == nil {
		err = s.addTokens(c, env)
	}
	return answer(c, http.StatusCreated, env, err)
}

// restoreNetworkSecrets restores the hidden secrets of static networks in an update.
func (s *Service) restoreNetworkSecrets(id string, params *models.InfraEnvUpdateParams) error {
	if len(params.StaticNetworkConfig) == 0 {
		return nil
	}
	current, err := s.Engine.InfraEnv(id)
	if err != nil {
		return err
	}
	return description.RestoreNetworkSecrets(params.StaticNetworkConfig, current)
}

// addTokens adds tokens to the image URLs of infra-envs, if the client may download images. Without
// a token, the URLs require the role of an operator.
func (s *Service) addTokens(c echo.Context, envs ...*models.InfraEnv) error {
	if access.From(c.Request().Context()).Role < access.Operator {
		return nil
	}
	for _, env := range envs {
		id := env.ID.String()
		path, err := s.Engine.ImagePath(id)
		if err != nil {
			return err
		}
		env.DownloadURL = strings.Replace(env.DownloadURL, "/byid/"+id, path, 1)
	}
	operation.HasSecret(c)
	return nil
}

func (s *Service) deregisterInfraEnv(c echo.Context) error {
	return done(c, s.Engine.DeregisterInfraEnv(c.Request().Context(), infraEnvID(c)))
}
