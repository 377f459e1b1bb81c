// Package machine signs and verifies the tokens of machines: of agents, installers and controllers,
// and of image URLs. A token is a JSON Web Token (RFC 7519) as in the local authentication of the
// Assisted Installer, so that its agents work unmodified. Each infra-env has its own key pair.
//
// Design: docs/design.md#tokens-of-machines.
package machine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"landfall/appliance/sitekey"
)

// maxRevoked limits the remembered IDs of revoked keys of one infra-env.
const maxRevoked = 64

// Keys are the keys of one infra-env. They are stored in its row.
type Keys struct {
	// Current signs all new tokens. It is nil until the infra-env has had a token.
	Current *Key `json:"current,omitempty"`
	// Retired are renewed keys, whose tokens agents may use for some time.
	Retired []Retired `json:"retired,omitempty"`
	// Revoked are the IDs of keys whose tokens were revoked, the newest last.
	Revoked []string `json:"revoked,omitempty"`
	// Since is the time since which images contain tokens. It is zero while they contain none.
	Since time.Time `json:"since,omitzero"`
	// Tokenless is true if machines may have booted images without a token: the appliance did not
	// authenticate machines when the image was made.
	Tokenless bool `json:"tokenless,omitempty"`
	// Requests without a token are accepted from TokenlessFrom until TokenlessUntil.
	TokenlessFrom  time.Time `json:"tokenless_from,omitzero"`
	TokenlessUntil time.Time `json:"tokenless_until,omitzero"`
	// Seal describes the sealed images of the infra-env. It is nil if the images are not sealed.
	Seal *Seal `json:"seal,omitempty"`
}

// Seal is the time limit of sealed images. A sealed image contains a token instead of the discovery
// config, and machines fetch the config with it.
type Seal struct {
	// Machines may fetch the config from Opened until Until.
	Opened time.Time `json:"opened"`
	Until  time.Time `json:"until"`
	// Machines is the largest number of machines that may fetch the config; 0 means no limit.
	Machines int `json:"machines,omitempty"`
}

// IsOpen reports whether machines may fetch the config. A clock that was set back to a time before
// the opening does not open the image again.
func (s *Seal) IsOpen(now time.Time) bool { return !now.Before(s.Opened) && now.Before(s.Until) }

// Key is a key pair.
type Key struct {
	// ID is unique. Tokens contain it as "kid". It proves that this site made the key for the
	// infra-env, see [Issuer.made].
	ID string `json:"id"`
	// Public is the uncompressed point (SEC 1, version 2.0, section 2.3.3).
	Public []byte `json:"public"`
	// Private is the private scalar in base64, sealed in the store.
	Private string    `json:"private_key"`
	Created time.Time `json:"created"`
}

// Retired is the public part of a renewed key.
type Retired struct {
	ID     string    `json:"id"`
	Public []byte    `json:"public"`
	Until  time.Time `json:"until"` // agents may use its tokens until then
}

// Issuer generates keys and signs tokens.
type Issuer struct {
	box    *sitekey.Box
	secret []byte // of the marks in the IDs of keys
}

// purpose is the purpose of the secret that an issuer derives from the site's key.
const purpose sitekey.Purpose = "machine tokens"

// NewIssuer returns the issuer of a site. The box seals the private keys.
func NewIssuer(key *sitekey.Key, box *sitekey.Box) (*Issuer, error) {
	secret, err := key.Derive(purpose)
	if err != nil {
		return nil, fmt.Errorf("prepare the tokens of machines: %w", err)
	}
	return &Issuer{box, secret}, nil
}

// markSize is the size of a mark in bytes, and of the random part of an ID.
const markSize = 8

// mark returns the part of a key's ID which proves that this site made the key for an infra-env.
// Other sites cannot compute it. A token with an unknown key and a valid mark is thus from a time
// that a restored backup does not know.
func (i *Issuer) mark(infraEnvID, id string) string {
	mac := hmac.New(sha256.New, i.secret)
	mac.Write([]byte(infraEnvID + "/" + id))
	return hex.EncodeToString(mac.Sum(nil)[:markSize])
}

// made reports whether the ID of a key shows that this site made it for an infra-env.
func (i *Issuer) made(infraEnvID, keyID string) bool {
	const size = 2 * markSize // in hex
	return len(keyID) == 2*size &&
		hmac.Equal([]byte(keyID[size:]), []byte(i.mark(infraEnvID, keyID[:size])))
}

// NewKey generates a key pair for an infra-env and seals its private part.
func (i *Issuer) NewKey(infraEnvID string, now time.Time) (*Key, error) {
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the signing key of an infra-env: %w", err)
	}
	public, err := pair.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("generate the signing key of an infra-env: %w", err)
	}
	scalar, err := pair.Bytes()
	if err != nil {
		return nil, fmt.Errorf("generate the signing key of an infra-env: %w", err)
	}
	private, err := i.box.Seal(base64.RawStdEncoding.EncodeToString(scalar))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(public)
	id := hex.EncodeToString(sum[:markSize])
	return &Key{ID: id + i.mark(infraEnvID, id), Public: public, Private: private, Created: now}, nil
}

// open returns the private key.
func (k *Key) open(box *sitekey.Box) (*ecdsa.PrivateKey, error) {
	text, err := box.Open(k.Private)
	if err != nil {
		return nil, fmt.Errorf("open the signing key of an infra-env: %w", err)
	}
	scalar, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode the signing key of an infra-env: %w", err)
	}
	pair, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	if err != nil {
		return nil, fmt.Errorf("read the signing key of an infra-env: %w", err)
	}
	return pair, nil
}

// Renew makes next the current key. Agents may use the tokens of the previous key until a time.
func (k *Keys) Renew(next *Key, until, now time.Time) {
	k.Retired = slices.DeleteFunc(slices.Clone(k.Retired), func(r Retired) bool { return !now.Before(r.Until) })
	if previous := k.Current; previous != nil {
		k.Retired = append(k.Retired, Retired{previous.ID, previous.Public, until})
	}
	k.Current = next
}

// Revoke makes next the current key. All other tokens become invalid at once, and so does the
// permission to use no token.
func (k *Keys) Revoke(next *Key) {
	revoked := slices.Clone(k.Revoked)
	for _, retired := range k.Retired {
		revoked = append(revoked, retired.ID)
	}
	if k.Current != nil {
		revoked = append(revoked, k.Current.ID)
	}
	if surplus := len(revoked) - maxRevoked; surplus > 0 {
		revoked = revoked[surplus:]
	}
	k.Current, k.Retired, k.Revoked = next, nil, revoked
	k.Tokenless = false
	k.AcceptTokenless(time.Time{}, time.Time{})
}

// AcceptTokenless accepts requests without a token for some time. Zero times end it.
func (k *Keys) AcceptTokenless(from, until time.Time) {
	k.TokenlessFrom, k.TokenlessUntil = from, until
}

// AcceptsTokenless reports whether requests without a token are accepted. If the clock was ahead
// when a person accepted them, its correction ends the permission and does not prolong it.
func (k *Keys) AcceptsTokenless(now time.Time) bool {
	return !now.Before(k.TokenlessFrom) && now.Before(k.TokenlessUntil)
}

// Embed records whether the images of the infra-env contain tokens from now on. existing is true if
// machines may have booted an earlier image.
func (k *Keys) Embed(tokens, existing bool, now time.Time) {
	switch {
	case !tokens:
		k.Since = time.Time{}
	case k.Since.IsZero():
		k.Since, k.Tokenless = now, k.Tokenless || existing
	}
}
