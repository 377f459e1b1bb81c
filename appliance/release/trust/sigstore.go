package trust

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/mirror"
	"landfall/store"
)

// sigstoreType is the type of the text that a Sigstore signature signs.
const sigstoreType = "cosign container image signature"

// minRSA is the smallest accepted RSA key in bits.
const minRSA = 2048

// publicKey is a key for Sigstore signatures.
type publicKey struct {
	*Key
	public crypto.PublicKey
}

// addPEM adds the public keys of a PEM file.
func (k *Keys) addPEM(file string, data []byte) error {
	for found := 0; ; found++ {
		block, rest := pem.Decode(data)
		if block == nil {
			if found == 0 {
				return errors.New("the PEM text is damaged")
			}
			return nil
		}
		public, err := parsePublicKey(block)
		if err != nil {
			return err
		}
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(der)
		key := &Key{File: file, Fingerprint: hex.EncodeToString(sum[:]), Owner: filepath.Base(file)}
		k.keys = append(k.keys, *key)
		k.public = append(k.public, publicKey{key, public})
		data = rest
	}
}

func parsePublicKey(block *pem.Block) (public crypto.PublicKey, err error) {
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return nil, fmt.Errorf("it contains a block %q instead of %q", block.Type, "PUBLIC KEY")
	}
	if err != nil {
		return nil, err
	}
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return key, nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA {
			return nil, fmt.Errorf("the RSA key has %d bits; use one with at least %d", bits, minRSA)
		}
		return key, nil
	}
	return nil, fmt.Errorf("the key is neither an ECDSA key nor an RSA key (%T)", public)
}

// verifySigstore returns the key that made a Sigstore signature of a release, and the name under
// which the release was signed. The signature is over the SHA-256 of the text: ECDSA, or RSA with
// PKCS #1 v1.5 or PSS. Transparency logs and the certificates of keyless signatures do not count.
func (k *Keys) verifySigstore(signature mirror.SigstoreSignature, digest string) (*Key, string, error) {
	sum := sha256.Sum256(signature.Payload)
	for _, key := range k.public {
		if !signedBy(key.public, sum[:], signature.Signature) {
			continue
		}
		reference, err := checkText(signature.Payload, sigstoreType, digest)
		return key.Key, reference, err
	}
	return nil, "", errors.New("no key of the configuration made the signature")
}

func signedBy(public crypto.PublicKey, sum, signature []byte) bool {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum, signature) == nil ||
			rsa.VerifyPSS(key, crypto.SHA256, sum, signature, nil) == nil
	}
	return false
}

// releaseRepository is the repository of OpenShift's releases.
const releaseRepository = "quay.io/openshift-release-dev/ocp-release"

// fetchTimeout limits the time to read the signatures of a release from its registries.
const fetchTimeout = 30 * time.Second

// signedRow is a verified signature.
type signedRow struct {
	Signature mirror.SigstoreSignature `json:"signature"`
}

// signed is a valid signature of a release.
type signed struct {
	key       *Key
	reference string // the name of the release in the signature
}

// known returns a signature of a release that needs no registry, or nil.
func (p *Policy) known(digest string) (*signed, error) {
	if p.Signatures != nil && len(p.Keys.ring) > 0 {
		for _, signature := range p.Signatures(digest) {
			if key, reference, err := p.Keys.verify(signature, digest, p.Clock.Now()); err == nil {
				return &signed{key, reference}, nil
			}
		}
	}
	var row *signedRow
	err := p.DB.View(func(tx *store.Tx) (err error) {
		row, err = signedRows.Get(tx, digest)
		return ignoreNotFound(err)
	})
	if err != nil || row == nil {
		return nil, err
	}
	return p.verifySigstore(row.Signature, digest), nil
}

// fetch reads the Sigstore signatures of a release from its registries and stores a valid one. It
// returns nil if there is none.
func (p *Policy) fetch(ctx context.Context, pullSpec, digest string, secret authn.Keychain) (*signed, error) {
	if p.Sigstore == nil || len(p.Keys.public) == 0 {
		return nil, nil
	}
	ref, err := name.ParseReference(pullSpec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	signatures, err := p.Sigstore(ctx, ref.Context().Name()+"@"+digest, secret)
	if err != nil {
		return nil, err
	}
	for _, signature := range signatures {
		if found := p.verifySigstore(signature, digest); found != nil {
			return found, p.DB.Update(ctx, func(tx *store.Tx) error {
				return signedRows.Put(tx, digest, &signedRow{signature})
			})
		}
	}
	return nil, nil
}

// verifySigstore returns nil unless a key of the configuration signed the release under the name of
// a repository of releases.
func (p *Policy) verifySigstore(signature mirror.SigstoreSignature, digest string) *signed {
	key, reference, err := p.Keys.verifySigstore(signature, digest)
	if err != nil {
		return nil
	}
	ref, err := name.ParseReference(reference)
	if err != nil || !slices.Contains(p.repositories, ref.Context().Name()) {
		return nil
	}
	return &signed{key, reference}
}

// SignatureCheck returns a function that reports whether a key of the configuration signed a
// release, or nil if the configuration has no keys.
func (p *Policy) SignatureCheck() func(ctx context.Context, pullSpec, digest string,
	secret authn.Keychain) (bool, error) {
	if len(p.Keys.keys) == 0 {
		return nil
	}
	return func(ctx context.Context, pullSpec, digest string, secret authn.Keychain) (bool, error) {
		found, err := p.known(digest)
		if err == nil && found == nil {
			found, err = p.fetch(ctx, pullSpec, digest, secret)
		}
		return found != nil, err
	}
}

func (p *Policy) signedRows() (map[string]*signedRow, error) {
	rows := map[string]*signedRow{}
	return rows, p.DB.View(func(tx *store.Tx) error {
		return signedRows.Each(tx, "", func(digest string, row *signedRow) error {
			rows[digest] = row
			return nil
		})
	})
}
