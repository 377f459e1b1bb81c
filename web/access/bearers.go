package access

import (
	"net/http"

	"landfall/appliance/access"
	"landfall/appliance/access/oidc"
	"landfall/appliance/access/people"
)

// idTokens implements Bearers with the ID tokens of an OpenID Connect provider.
type idTokens struct {
	provider *oidc.Provider
	people   *people.People
}

// NewBearers returns the verifier of the ID tokens of a provider. A token never gives the rights or
// the name of somebody else's account.
func NewBearers(provider *oidc.Provider, holders *people.People) Bearers {
	return idTokens{provider, holders}
}

// VerifyBearer implements Bearers.
func (t idTokens) VerifyBearer(r *http.Request, token string) (access.Identity, bool) {
	person, err := t.provider.VerifyBearer(r.Context(), token)
	if err != nil {
		return access.Identity{}, false
	}
	return t.people.External(people.External{Issuer: person.Issuer, Subject: person.Subject}, person.Identity())
}
