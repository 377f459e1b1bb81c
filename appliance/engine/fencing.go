package engine

import (
	"encoding/json"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

// A cluster of two nodes without an arbiter lets each node turn the other one off. What it needs
// for that are the credentials of the nodes' management controllers. The password is kept beside
// what the API shows of a host and leaves the store in the install-config only.

// setFencing keeps the credentials by which the host is turned off by its neighbour.
func (h *hostRecord) setFencing(asked *models.FencingCredentialsParams) error {
	if asked == nil {
		return nil
	}
	for _, field := range []struct {
		name  string
		value *string
	}{{"address", asked.Address}, {"username", asked.Username}, {"password", asked.Password}} {
		if strings.TrimSpace(conv.Value(field.value)) == "" {
			return invalid("The fencing credentials lack the %s of the host's management controller.", field.name)
		}
	}
	kept := *asked
	setDefault(&kept.CertificateVerification, models.FencingCredentialsParamsCertificateVerificationEnabled)
	h.Fencing = &kept
	shown, err := json.Marshal(map[string]string{
		"address": *kept.Address, "username": *kept.Username, "certificate_verification": *kept.CertificateVerification,
	})
	if err != nil {
		return err
	}
	h.API.FencingCredentials = string(shown)
	return nil
}
