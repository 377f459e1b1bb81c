package image

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"landfall/web/problem"
)

// infraEnvOf returns the ID of the infra-env in a token of a path. An API key of local
// authentication contains the ID as "infra_env_id", an image token of single sign-on as "sub". The
// signature is ignored. The function is for an appliance that does not authenticate clients, which
// serves these paths for scripts that were written for services with authentication.
func infraEnvOf(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "",
			problem.BadRequest("the token in the path is not a JSON Web Token of three parts; use the download " +
				"URL as the API returns it")
	}
	// RFC 7515, section 2: base64url without padding. Padding is accepted as well.
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return "",
			problem.BadRequest("the token in the path is not base64url; use the download URL as the API returns it")
	}
	var claims struct {
		InfraEnvID string `json:"infra_env_id"`
		Subject    string `json:"sub"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return "",
			problem.BadRequest("the token in the path contains no JSON; use the download URL as the API returns it")
	}
	for _, id := range []string{claims.InfraEnvID, claims.Subject} {
		if uuid.Validate(id) == nil {
			return id, nil
		}
	}
	return "",
		problem.BadRequest("the token in the path contains no infra-env; use the download URL as the API returns it")
}
