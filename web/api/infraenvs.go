package api

import (
	"net/http"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/web/problem"
)

func infraEnvID(c echo.Context) string { return c.Param("infra_env_id") }

func (s *Service) listInfraEnvs(c echo.Context) error {
	envs, err := s.Engine.InfraEnvs(c.QueryParam("cluster_id"))
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

func (s *Service) imageURL(c echo.Context) error {
	env, err := s.Engine.InfraEnv(infraEnvID(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, &models.PresignedURL{URL: &env.DownloadURL, ExpiresAt: strfmt.DateTime(time.Time{})})
}

// downloadInfraEnvFile serves the parts of an infra-env that are small; images have URLs of their own.
func (s *Service) downloadInfraEnvFile(c echo.Context) error {
	name := c.QueryParam("file_name")
	if name != "discovery.ign" {
		return problem.New(http.StatusNotImplemented, "this appliance does not have the file %q of an infra-env yet; it has discovery.ign", name)
	}
	discovery, err := s.Engine.Discovery(c.Request().Context(), infraEnvID(c))
	if err != nil {
		return err
	}
	attach(c, name)
	return c.Blob(http.StatusOK, echo.MIMEOctetStream, discovery.Ignition)
}
