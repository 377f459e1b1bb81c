package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"
)

func infraEnvID(c echo.Context) string { return c.Param("infra_env_id") }

func (s *Service) listInfraEnvs(c echo.Context) error {
	cluster, err := uuid(c, "cluster_id")
	if err != nil {
		return err
	}
	envs, err := s.Engine.InfraEnvs(cluster) // all have the same owner
	return answer(c, http.StatusOK, envs, err)
}

func (s *Service) registerInfraEnv(c echo.Context) error {
	params, err := decode[models.InfraEnvCreateParams](c)
	if err != nil {
		return err
	}
	env, err := s.Engine.RegisterInfraEnv(c.Request().Context(), params)
	return answer(c, http.StatusCreated, env, err)
}

func (s *Service) getInfraEnv(c echo.Context) error {
	env, err := s.Engine.InfraEnv(infraEnvID(c))
	return answer(c, http.StatusOK, env, err)
}

func (s *Service) updateInfraEnv(c echo.Context) error {
	params, err := decode[models.InfraEnvUpdateParams](c)
	if err != nil {
		return err
	}
	env, err := s.Engine.UpdateInfraEnv(c.Request().Context(), infraEnvID(c), params)
	return answer(c, http.StatusCreated, env, err)
}

func (s *Service) deregisterInfraEnv(c echo.Context) error {
	return done(c, s.Engine.DeregisterInfraEnv(c.Request().Context(), infraEnvID(c)))
}
