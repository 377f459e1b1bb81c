package machine

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/google/uuid"
)

// Use is what a token is for.
type Use string

// Uses of tokens, as in the claim auth_scheme of the agent-based installer's tokens. An agent's
// token has no such claim.
const (
	ForAgent Use = ""
	ForImage Use = "urlAuth" // a token in an image URL
	// ForConfig is a token in a sealed image, with which a machine fetches its config.
	ForConfig Use = "configAuth"
)

const (
	algorithm     = "ES256" // RFC 7518, section 3.4
	scalarSize    = 32      // of P-256, in bytes
	maxTokenBytes = 1024    // the tokens of this package have less than 400
)

// header is the header of a token.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`
}

// claims are the claims of a token. They contain no time, because the clocks of a site may be wrong
// by years.
type claims struct {
	Use        Use    `json:"auth_scheme,omitempty"`
	InfraEnvID string `json:"infra_env_id"`
	// Image is the revision of the image for which a URL was made, if URLs of different revisions
	// must differ.
	Image string `json:"image,omitempty"`
}

// Token returns the current token of an infra-env with the given keys. The signature is
// deterministic (RFC 6979), so that equal keys result in equal images.
func (i *Issuer) Token(keys *Keys, infraEnvID string, use Use) (string, error) {
	return i.sign(keys, claims{Use: use, InfraEnvID: infraEnvID})
}

// RevisionToken returns a token for the URL of one revision of an infra-env's image. It differs for
// each revision, but is valid for all of them.
func (i *Issuer) RevisionToken(keys *Keys, infraEnvID, revision string) (string, error) {
	return i.sign(keys, claims{Use: ForImage, InfraEnvID: infraEnvID, Image: revision})
}

func (i *Issuer) sign(keys *Keys, content claims) (string, error) {
	if keys.Current == nil {
		return "", fmt.Errorf("sign a token: infra-env %s has no signing key", content.InfraEnvID)
	}
	pair, err := keys.Current.open(i.box)
	if err != nil {
		return "", err
	}
	text, err := encode(header{algorithm, keys.Current.ID, "JWT"}, content)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256([]byte(text))
	coded, err := pair.Sign(nil, digest[:], crypto.SHA256) // nil: deterministic
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	var points struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(coded, &points); err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	signature := make([]byte, 2*scalarSize)
	points.R.FillBytes(signature[:scalarSize])
	points.S.FillBytes(signature[scalarSize:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func encode(parts ...any) (string, error) {
	var coded []string
	for _, part := range parts {
		text, err := json.Marshal(part)
		if err != nil {
			return "", fmt.Errorf("encode a token: %w", err)
		}
		coded = append(coded, base64.RawURLEncoding.EncodeToString(text))
	}
	return strings.Join(coded, "."), nil
}

// parsed is a token whose signature has not been checked.
type parsed struct {
	header    header
	claims    claims
	signed    string // the part that is signed
	signature []byte
}

// parse reads a token. It accepts only the headers and claims that this package writes, so that a
// token for another purpose is never mistaken for one of a machine.
func parse(token string) (*parsed, error) {
	if len(token) > maxTokenBytes {
		return nil, refuse("the token is longer than %d bytes", maxTokenBytes)
	}
	if strings.ContainsAny(token, "\r\n") { // package base64 ignores line ends
		return nil, refuse("the token has several lines")
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, refuse("the token is not a JSON Web Token of three parts")
	}
	p := &parsed{signed: token[:len(parts[0])+1+len(parts[1])]}
	if err := decode(parts[0], &p.header); err != nil {
		return nil, refuse("the header of the token is invalid")
	}
	if p.header.Algorithm != algorithm {
		return nil, refuse("the token is not signed with %s", algorithm)
	}
	if err := decode(parts[1], &p.claims); err != nil || uuid.Validate(p.claims.InfraEnvID) != nil {
		return nil, refuse("the token does not name an infra-env, or has other claims")
	}
	var err error
	if p.signature, err = base64.RawURLEncoding.Strict().DecodeString(parts[2]); err != nil ||
		len(p.signature) != 2*scalarSize {
		return nil, refuse("the signature of the token is invalid")
	}
	return p, nil
}

// decode decodes a part of a token, which must have known fields only.
func decode(part string, into any) error {
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("the part has more than one value")
	}
	return nil
}

// signedBy reports whether a key has signed the token.
func (p *parsed) signedBy(public []byte) bool {
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), public)
	if err != nil {
		return false
	}
	digest := sha256.Sum256([]byte(p.signed))
	return ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(p.signature[:scalarSize]),
		new(big.Int).SetBytes(p.signature[scalarSize:]))
}
