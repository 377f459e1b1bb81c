// Package passkeytest makes the keys of virtual authenticators for tests.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"

	"github.com/descope/virtualwebauthn"
)

// NewCredential returns a credential with a new key of P-256. The virtual authenticator encodes the
// coordinates without leading zeros, but COSE requires all 32 bytes (RFC 9053, 7.1.1). One key in
// 128 has such a zero, so NewCredential makes keys until one has none.
func NewCredential() (virtualwebauthn.Credential, error) {
	for {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return virtualwebauthn.Credential{}, fmt.Errorf("make the key of a passkey: %w", err)
		}
		point, err := key.PublicKey.Bytes() // 4, X, Y (SEC 1, 2.3.3)
		if err != nil {
			return virtualwebauthn.Credential{}, fmt.Errorf("encode the public key of a passkey: %w", err)
		}
		if x, y := point[1], point[33]; x == 0 || y == 0 {
			continue
		}
		encoded, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return virtualwebauthn.Credential{}, fmt.Errorf("encode the key of a passkey: %w", err)
		}
		return virtualwebauthn.NewCredentialWithImportedKey(virtualwebauthn.KeyTypeEC2, encoded), nil
	}
}
