package discovery

import (
	"landfall/appliance/engine/view"
	"landfall/appliance/osimage"
	"landfall/store"
)

// Users returns a function that lists the infra-envs of a store as the users of OS images.
func Users(db *store.DB) func() ([]osimage.User, error) {
	return func() ([]osimage.User, error) {
		envs, err := view.InfraEnvs(db, "")
		if err != nil {
			return nil, err
		}
		users := make([]osimage.User, 0, len(envs))
		for _, env := range envs {
			users = append(users, osimage.User{Name: *env.Name, OpenshiftVersion: env.OpenshiftVersion,
				CPUArchitecture: env.CPUArchitecture})
		}
		return users, nil
	}
}
