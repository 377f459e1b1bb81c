package engine

import (
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
)

// A cluster of two nodes without an arbiter lets each node turn the other one off. What it needs
// for that are the credentials of the nodes' management controllers. The password is kept beside
// what the API shows of a host and leaves the store in the install-config only.

// setFencing sets the credentials with which the other node turns the host off.
func (h *hostRecord) setFencing(requested *models.FencingCredentialsParams) error {
	if requested == nil {
		return nil
	}
	credentials, shown, err := description.Fencing(requested)
	if err != nil {
		return err
	}
	h.Fencing, h.API.FencingCredentials = credentials, shown
	return nil
}
