// Package authority has the certificates of the appliance's TLS listeners: an own certificate
// authority that is made at the first start, the server certificates that it issues by itself, and
// certificates that the site provides (files, or a CA with the ACME protocol).
//
// Design: docs/design.md#an-own-certificate-authority.
package authority

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"landfall/appliance/durable"
	"landfall/appliance/sitekey"
)

// Files in the data directory.
const (
	// FileName is the authority's certificate in PEM. Everybody may read it.
	FileName = "ca.crt"
	// KeyFileName contains the certificate and the private key, sealed with the site's key.
	KeyFileName = "ca.key"
)

// Purpose is the purpose with which the site's key seals the authority's private key.
const Purpose sitekey.Purpose = "tls authority"

const (
	certificateType = "CERTIFICATE"
	keyType         = "PRIVATE KEY"
)

// The validity of the authority's certificate. It begins in 1970, because the clock of a host or of
// the appliance may be reset to that year, and a site may have no time server. It ends long after
// the use of any appliance.
var (
	notBefore = time.Unix(0, 0).UTC()
	notAfter  = time.Date(2125, 12, 31, 23, 59, 59, 0, time.UTC)
)

// ErrUnusable is the error for unusable files of the authority. They are not replaced, because
// hosts and people trust the certificate.
var ErrUnusable = errors.New("the appliance's certificate authority can't be used")

// Authority is the appliance's own certificate authority.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// LoadOrCreate reads the authority of a data directory, and creates a missing one. The caller must
// have locked the directory.
//
// The file with the key is written first and contains the certificate as well. After a crash, the
// authority is thus either complete or missing.
func LoadOrCreate(dir string, box *sitekey.Box) (*Authority, error) {
	return loadOrCreate(dir, FileName, KeyFileName, x509.ExtKeyUsageServerAuth, box)
}

func loadOrCreate(dir, fileName, keyFileName string, usage x509.ExtKeyUsage, box *sitekey.Box) (*Authority, error) {
	public, keyFile := filepath.Join(dir, fileName), filepath.Join(dir, keyFileName)
	sealed, err := os.ReadFile(keyFile)
	var a *Authority
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(public); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s is missing, but %s exists; restore the missing file from a backup, or "+
				"remove %s to get a new authority, which all hosts and people must then trust", ErrUnusable,
				keyFile, fileName, fileName)
		}
		if a, err = create(keyFile, usage, box); err != nil {
			return nil, fmt.Errorf("create the appliance's certificate authority: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("read the appliance's certificate authority: %w", err)
	default:
		if a, err = parse(sealed, box); err != nil {
			return nil, fmt.Errorf("%w: %s: %w; restore the file from a backup, or remove it and %s to get a new "+
				"authority, which all hosts and people must then trust", ErrUnusable, keyFile, err, fileName)
		}
	}
	if present, err := os.ReadFile(public); err == nil && bytes.Equal(present, a.PEM()) {
		return a, nil
	}
	if err := durable.WriteFile(public, a.PEM(), 0o644); err != nil {
		return nil, fmt.Errorf("write the certificate of the appliance's authority: %w", err)
	}
	return a, nil
}

// create creates an authority and writes the file with its key.
//
// The certificate may sign certificates of one usage only, and no other authorities. It has no name
// constraints: the addresses and names of a site change, and a constraint could not be widened on
// the hosts that already trust the certificate.
func create(keyFile string, usage x509.ExtKeyUsage, box *sitekey.Box) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	name, err := authorityName(key)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: name, NotBefore: notBefore, NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	a := &Authority{certificate, key}
	content, err := box.SealBytes(append(pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: secret}), a.PEM()...))
	if err != nil {
		return nil, err
	}
	return a, durable.WriteFile(keyFile, content, 0o600)
}

// authorityName returns a name that differs between appliances, so that a browser can hold the
// certificates of several.
func authorityName(key *ecdsa.PrivateKey) (pkix.Name, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return pkix.Name{}, err
	}
	sum := sha256.Sum256(public)
	return pkix.Name{Organization: []string{"Landfall"}, CommonName: fmt.Sprintf("Landfall %X", sum[:4])}, nil
}

// newSerial returns a random serial number of 127 bits (RFC 5280, section 4.1.2.2: positive, at
// most 20 bytes).
func newSerial() *big.Int {
	var b [16]byte
	rand.Read(b[:])
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

func parse(sealed []byte, box *sitekey.Box) (*Authority, error) {
	content, err := box.OpenBytes(sealed)
	if err != nil {
		return nil, err
	}
	a := new(Authority)
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case certificateType:
			if a.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
				return nil, fmt.Errorf("invalid certificate (%w)", err)
			}
		case keyType:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("invalid private key (%w)", err)
			}
			a.key, _ = key.(crypto.Signer)
		}
	}
	if a.certificate == nil || a.key == nil {
		return nil, errors.New("the file does not contain a private key and a certificate")
	}
	if !samePublicKey(a.certificate, a.key) {
		return nil, errors.New("the private key does not belong to the certificate")
	}
	return a, nil
}

// samePublicKey reports whether a private key belongs to a certificate.
func samePublicKey(certificate *x509.Certificate, key crypto.Signer) bool {
	public, ok := certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return encode(a.certificate) }

func encode(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: certificate.Raw})
}

// Fingerprint returns the SHA-256 of the authority's certificate, for comparison by people. The
// format is that of openssl x509 -fingerprint -sha256, and of browsers.
func (a *Authority) Fingerprint() string { return Fingerprint(a.certificate) }

// Fingerprint returns the SHA-256 of a certificate in the same format.
func Fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	parts := make([]string, 0, len(sum))
	for _, b := range sum {
		parts = append(parts, fmt.Sprintf("%02X", b))
	}
	return strings.Join(parts, ":")
}
