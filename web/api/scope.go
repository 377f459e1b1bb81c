package api

import (
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/web/problem"
)

// scopeOf returns the scope of the caller.
func scopeOf(c echo.Context) access.Scope { return access.From(c.Request().Context()).Scope }

// visible returns the infra-envs in a scope.
func visible(scope access.Scope, envs []*models.InfraEnv) []*models.InfraEnv {
	if !scope.Limited() {
		return envs
	}
	seen := []*models.InfraEnv{}
	for _, env := range envs {
		if scope.InfraEnv(env.ID.String(), env.ClusterID.String()) {
			seen = append(seen, env)
		}
	}
	return seen
}

// checkEvents returns an error if a list of events may contain events outside of the caller's
// scope.
func (s *Service) checkEvents(scope access.Scope, clusterID, infraEnvID string) error {
	switch {
	case !scope.Limited():
		return nil
	case clusterID == "" && infraEnvID == "":
		return problem.Forbidden("you may see the events of some clusters and infra-envs only; name one of them with " +
			"cluster_id or infra_env_id")
	case clusterID != "" && !scope.Cluster(clusterID):
		return problem.Forbidden("you may not see the events of cluster %s; ask an administrator", clusterID)
	case clusterID != "":
		return nil
	}
	env, err := s.Engine.InfraEnv(infraEnvID)
	if err != nil {
		return err
	}
	if !scope.InfraEnv(infraEnvID, env.ClusterID.String()) {
		return problem.Forbidden("you may not see the events of infra-env %s; ask an administrator", infraEnvID)
	}
	return nil
}
