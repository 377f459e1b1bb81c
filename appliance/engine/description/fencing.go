package description

import (
	"encoding/json"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

// Fencing checks the BMC credentials of a host in a two-node cluster. The other node uses them to
// power the host off. Fencing returns the credentials with their defaults, and the JSON text of the
// API, which omits the password.
func Fencing(requested *models.FencingCredentialsParams) (credentials *models.FencingCredentialsParams, shown string,
	err error) {
	for _, field := range []struct {
		name  string
		value *string
	}{{"address", requested.Address}, {"username", requested.Username}, {"password", requested.Password}} {
		if strings.TrimSpace(conv.Value(field.value)) == "" {
			return nil, "", invalid("The fencing credentials lack the %s of the host's BMC.",
				field.name)
		}
	}
	complete := *requested
	setDefault(&complete.CertificateVerification, models.FencingCredentialsParamsCertificateVerificationEnabled)
	text, err := json.Marshal(map[string]string{
		"address": *complete.Address, "username": *complete.Username,
		"certificate_verification": *complete.CertificateVerification,
	})
	return &complete, string(text), err
}
