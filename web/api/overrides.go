package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"
)

func (s *Service) installConfig(c echo.Context) error {
	text, err := s.Engine.InstallConfig(clusterID(c))
	return answer(c, http.StatusOK, text, err)
}

// updateInstallConfig takes the override as a JSON string that holds JSON.
func (s *Service) updateInstallConfig(c echo.Context) error {
	override, err := decode[string](c)
	if err != nil {
		return err
	}
	return created(c, s.Engine.SetInstallConfigOverride(c.Request().Context(), clusterID(c), *override))
}

func (s *Service) hostIgnition(c echo.Context) error {
	config, err := s.Engine.HostIgnitionText(infraEnvID(c), hostID(c))
	return answer(c, http.StatusOK, &models.HostIgnitionParams{Config: config}, err)
}

func (s *Service) updateHostIgnition(c echo.Context) error {
	params, err := decode[models.HostIgnitionParams](c)
	if err != nil {
		return err
	}
	return created(c, s.Engine.SetHostIgnition(c.Request().Context(), infraEnvID(c), hostID(c), params.Config))
}

func (s *Service) updateInstallerArgs(c echo.Context) error {
	params, err := decode[models.InstallerArgsParams](c)
	if err != nil {
		return err
	}
	host, err := s.Engine.SetInstallerArgs(c.Request().Context(), infraEnvID(c), hostID(c), params.Args)
	return answer(c, http.StatusCreated, host, err)
}
