package access

import (
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/fault"
)

// Objects reads the objects that a scope can name. Package engine implements it.
type Objects interface {
	Cluster(id string) (*models.Cluster, error)
	InfraEnv(id string) (*models.InfraEnv, error)
}

// newScope returns the scope of an account or a token. The appliance makes the IDs, so an ID
// without an object is a mistake. Only the objects of the held scope may have been deleted.
func (s *Service) newScope(clusters, infraEnvs []string, held access.Scope) (access.Scope, error) {
	scope, err := access.NewScope(clusters, infraEnvs)
	if err != nil {
		return access.Scope{}, err
	}
	for _, id := range scope.Clusters {
		if !slices.Contains(held.Clusters, id) {
			_, err := s.Objects.Cluster(id)
			if err := missing("cluster", id, err); err != nil {
				return access.Scope{}, err
			}
		}
	}
	for _, id := range scope.InfraEnvs {
		if !slices.Contains(held.InfraEnvs, id) {
			_, err := s.Objects.InfraEnv(id)
			if err := missing("infra-env", id, err); err != nil {
				return access.Scope{}, err
			}
		}
	}
	return scope, nil
}

// missing returns an error if the error of a read says that the object does not exist. A damaged
// object exists.
func missing(kind, id string, err error) error {
	if fault.KindOf(err) != fault.NotFound {
		return nil
	}
	return fault.New(fault.Invalid, "there is no %s %s; landfall %[1]s list -o wide shows the IDs", kind, id)
}
