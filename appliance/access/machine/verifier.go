package machine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/access"
	"landfall/appliance/fault"
)

// maxVerified limits the tokens in the cache of a verifier. An entry has some 200 bytes.
const maxVerified = 4096

// Refusal is the error for a token that is not accepted. Agents end for good if their registration
// is answered with 401, so a refusal that may end by itself has the kind Unavailable (503).
type Refusal struct {
	// Temporary is true if the token may become valid without a change of the machine: its
	// infra-env comes back with a backup, a wrong clock is set, or a person accepts it.
	Temporary bool
	// InfraEnvID is the infra-env that the token names; it is not verified. It may be "".
	InfraEnvID string
	Reason     string
}

// Error returns the reason as a sentence with the remedy.
func (r *Refusal) Error() string { return r.Reason }

// FaultKind returns Unavailable for a temporary refusal, and Unauthenticated otherwise.
func (r *Refusal) FaultKind() fault.Kind {
	if r.Temporary {
		return fault.Unavailable
	}
	return fault.Unauthenticated
}

func refuse(format string, args ...any) *Refusal {
	return &Refusal{Reason: "The machine is not accepted: " + fmt.Sprintf(format, args...) +
		". Boot it from a new discovery image of this appliance."}
}

// KeysOf returns the committed keys of an infra-env, or an error of kind NotFound.
type KeysOf func(infraEnvID string) (Keys, error)

// Verifier verifies tokens and keeps the verified ones. Its methods are safe for concurrent use.
type Verifier struct {
	issuer *Issuer
	keysOf KeysOf
	clock  clockwork.Clock

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]entry // by the digest of the token
	drops    int                         // number of calls of Drop
}

// entry is a verified token.
type entry struct {
	infraEnvID string
	use        Use
	until      time.Time // zero: no end
}

// NewVerifier returns a verifier of the tokens of an issuer.
func NewVerifier(issuer *Issuer, keysOf KeysOf, clock clockwork.Clock) *Verifier {
	return &Verifier{issuer: issuer, keysOf: keysOf, clock: clock, verified: make(map[[sha256.Size]byte]entry)}
}

// Verify returns the identity of an agent's token, or a [*Refusal]. Other errors are failures of
// the store.
func (v *Verifier) Verify(token string) (access.Identity, error) {
	infraEnvID, err := v.verify(token, ForAgent)
	if err != nil {
		return access.Identity{}, err
	}
	return access.Identity{Kind: access.Agent, InfraEnv: infraEnvID}, nil
}

// VerifyImage returns the infra-env of a token in an image URL, or an error like Verify.
func (v *Verifier) VerifyImage(token string) (infraEnvID string, err error) {
	return v.verify(token, ForImage)
}

// VerifyConfig returns the infra-env of a token in a sealed image, or an error like Verify. It does
// not check the time limit of the image.
func (v *Verifier) VerifyConfig(token string) (infraEnvID string, err error) {
	return v.verify(token, ForConfig)
}

func (v *Verifier) verify(token string, use Use) (infraEnvID string, err error) {
	digest := sha256.Sum256([]byte(token))
	v.mu.RLock()
	known, ok := v.verified[digest]
	drops := v.drops
	v.mu.RUnlock()
	if ok && known.use == use && (known.until.IsZero() || v.clock.Now().Before(known.until)) {
		return known.infraEnvID, nil
	}
	found, err := v.check(token, use)
	if err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.drops != drops {
		return found.infraEnvID, nil // the keys may have changed since they were read
	}
	if len(v.verified) >= maxVerified {
		clear(v.verified)
	}
	v.verified[digest] = found
	return found.infraEnvID, nil
}

// Drop drops the verified tokens of an infra-env, because its keys have changed or it was deleted.
func (v *Verifier) Drop(infraEnvID string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drops++
	for digest, known := range v.verified {
		if known.infraEnvID == infraEnvID {
			delete(v.verified, digest)
		}
	}
}

// check verifies a token with the committed keys of its infra-env.
func (v *Verifier) check(token string, use Use) (entry, error) {
	p, err := parse(token)
	if err != nil {
		return entry{}, err
	}
	id := p.claims.InfraEnvID
	if p.claims.Use != use {
		refusal := refuse("the token is for another purpose")
		refusal.InfraEnvID = id
		return entry{}, refusal
	}
	keys, err := v.keysOf(id)
	if fault.KindOf(err) == fault.NotFound {
		keys, err = Keys{}, nil
	}
	if err != nil {
		return entry{}, fmt.Errorf("read the keys of infra-env %s: %w", id, err)
	}
	until, err := v.checkKey(p, &keys)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		refusal.InfraEnvID = id
	}
	return entry{id, use, until}, err
}

// checkKey returns the time until which a token is valid; zero means that it has no end.
func (v *Verifier) checkKey(p *parsed, k *Keys) (until time.Time, err error) {
	if k.Current != nil && p.header.KeyID == k.Current.ID {
		if !p.signedBy(k.Current.Public) {
			return time.Time{}, refuse("the signature of the token is invalid")
		}
		return time.Time{}, nil
	}
	if slices.Contains(k.Revoked, p.header.KeyID) {
		return time.Time{}, refuse("the token was revoked")
	}
	for _, retired := range k.Retired {
		switch {
		case p.header.KeyID != retired.ID:
			continue
		case !p.signedBy(retired.Public):
			return time.Time{}, refuse("the signature of the token is invalid")
		case p.claims.Use == ForImage:
			return time.Time{}, refuse("the image URL was renewed")
		case !v.clock.Now().Before(retired.Until):
			return time.Time{}, &Refusal{Temporary: true, Reason: "The machine is not accepted: the token was " +
				"renewed, and the previous one was valid until " + retired.Until.UTC().Format(time.RFC3339) +
				". Boot the machine from the current discovery image, and check the clock of the appliance."}
		}
		return retired.Until, nil
	}
	if !v.issuer.made(p.claims.InfraEnvID, p.header.KeyID) {
		return time.Time{}, refuse("this appliance has not issued the token")
	}
	return time.Time{}, &Refusal{Temporary: true, Reason: "The machine is not accepted: the infra-env or the signing " +
		"key of its token was deleted. Boot the machine from a new discovery image, or restore the latest backup of " +
		"the appliance."}
}
