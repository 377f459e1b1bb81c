package api

import (
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"
)

// Defaults completes requests with the settings of the site. Package settings implements it.
type Defaults interface {
	CompleteCluster(params *models.ClusterCreateParams) error
	CompleteInfraEnv(params *models.InfraEnvCreateParams) error
}

// decodeCluster decodes a request for a cluster and completes it with the settings of the site.
func (s *Service) decodeCluster(c echo.Context) (*ClusterCreateParams, error) {
	return decodeWithSecret(c, func(p *ClusterCreateParams) (**string, error) {
		if s.Defaults == nil {
			return &p.PullSecret, nil
		}
		return &p.PullSecret, s.Defaults.CompleteCluster(&p.ClusterCreateParams)
	})
}

// decodeInfraEnv is like decodeCluster for an infra-env.
func (s *Service) decodeInfraEnv(c echo.Context) (*InfraEnvCreateParams, error) {
	return decodeWithSecret(c, func(p *InfraEnvCreateParams) (**string, error) {
		if s.Defaults == nil {
			return &p.PullSecret, nil
		}
		return &p.PullSecret, s.Defaults.CompleteInfraEnv(&p.InfraEnvCreateParams)
	})
}

// decodeWithSecret decodes a request whose pull secret is required. complete returns the field of
// the pull secret. The error of a missing pull secret says that the site can have its own.
func decodeWithSecret[T any](c echo.Context, complete func(*T) (**string, error)) (*T, error) {
	missing := false
	params, err := decodeCompleted(c, func(params *T) error {
		secret, err := complete(params)
		if err == nil && *secret == nil {
			missing, *secret = true, new(string)
		}
		return err
	})
	if err == nil && missing {
		return nil, unfit("pull_secret in body is required, because the site has no pull secret; send pull_secret, " +
			"or set the site's pull secret in the settings (landfall settings set --pull-secret-file FILE)")
	}
	return params, err
}
