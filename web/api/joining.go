package api

import (
	"net/http"

	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"
)

func (s *Service) importCluster(c echo.Context) error {
	params, err := decode[models.ImportClusterParams](c)
	if err != nil {
		return err
	}
	cluster, err := s.Engine.ImportCluster(c.Request().Context(), params)
	return answer(c, http.StatusCreated, cluster, err)
}

func (s *Service) registerDisconnectedCluster(c echo.Context) error {
	params, err := decode[models.DisconnectedClusterCreateParams](c)
	if err != nil {
		return err
	}
	cluster, err := s.Engine.RegisterDisconnectedCluster(c.Request().Context(), conv.Value(params.Name),
		conv.Value(params.OpenshiftVersion))
	return answer(c, http.StatusCreated, cluster, err)
}

// allowAddHosts answers two operations: the one that names workers is the older.
func (s *Service) allowAddHosts(c echo.Context) error {
	cluster, err := s.Engine.AllowAddHosts(c.Request().Context(), clusterID(c))
	return answer(c, http.StatusAccepted, cluster, err)
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
