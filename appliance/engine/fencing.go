package engine

import (
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
)

// In a cluster of two nodes without an arbiter each node can turn the other one off. It needs the
// credentials of that node's management controller. The password is stored beside the part of a
// host that the API shows, and is only written to the install-config.

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
