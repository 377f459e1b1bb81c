package access

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/time/rate"

	"landfall/appliance/access"
	"landfall/appliance/access/oidc"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
)

// Anyone can send tokens that are refused. The log has the first ones, and some each minute.
const (
	loggedRefusals   = 10
	refusalsInterval = 6 * time.Second
)

// idTokens implements Bearers with the ID tokens of an OpenID Connect provider.
type idTokens struct {
	provider *oidc.Provider
	people   *people.People
	logged   *rate.Limiter
	clock    clockwork.Clock
	logger   *slog.Logger
}

// NewBearers returns the verifier of the ID tokens of a provider. A token never gives the rights or
// the name of somebody else's account. The log says why tokens are refused.
func NewBearers(provider *oidc.Provider, holders *people.People, clock clockwork.Clock, logger *slog.Logger) Bearers {
	return idTokens{provider, holders, rate.NewLimiter(rate.Every(refusalsInterval), loggedRefusals), clock, logger}
}

// VerifyBearer implements Bearers.
func (t idTokens) VerifyBearer(r *http.Request, token string) (access.Identity, error) {
	identity, err := t.verify(r, token)
	if err != nil && !errors.Is(err, oidc.ErrOtherToken) && t.logged.AllowN(t.clock.Now(), 1) {
		t.logger.WarnContext(r.Context(), "An ID token was refused.", "address", clientAddress(r), "reason", err)
	}
	return identity, err
}

func (t idTokens) verify(r *http.Request, token string) (access.Identity, error) {
	person, err := t.provider.VerifyBearer(r.Context(), token)
	if err != nil {
		return access.Identity{}, err
	}
	holder := people.External{Issuer: person.Issuer, Subject: person.Subject}
	identity, ok := t.people.External(holder, person.Identity())
	if !ok {
		return access.Identity{}, fault.New(fault.Forbidden, "the account of %s is disabled, or another person's "+
			"account has this name; ask an administrator", identity.Name)
	}
	return identity, nil
}
