// Package pki creates the certificates of simulated clusters.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Validity of certificates, as in the output of openshift-install.
const (
	Day      = 24 * time.Hour
	Year     = 365 * Day
	TenYears = 10 * Year
)

// Pair is a certificate with its key, in PEM.
type Pair struct {
	Cert []byte
	Key  []byte
}

func NewCA(commonName, unit string, validity time.Duration) (*Pair, error) {
	return newCert(&x509.Certificate{
		Subject: pkix.Name{CommonName: commonName, OrganizationalUnit: []string{unit}}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}, validity, nil)
}

func NewClient(commonName, organization string, validity time.Duration, ca *Pair) (*Pair, error) {
	return newCert(&x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName, Organization: []string{organization}},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, validity, ca)
}

func NewServer(commonName string, names []string, ips []net.IP, validity time.Duration,
	ca *Pair) (*Pair, error) {
	return newCert(&x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, DNSNames: names, IPAddresses: ips,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, validity, ca)
}

// newCert creates a certificate that is valid from now, signed by ca. Without ca, the certificate
// is self-signed. The keys are elliptic for speed; openshift-install uses RSA keys.
func newCert(template *x509.Certificate, validity time.Duration, ca *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().UTC()
	template.NotAfter = template.NotBefore.Add(validity)
	parent, signer := template, key
	if ca != nil {
		if parent, signer, err = ca.parse(); err != nil {
			return nil, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("create certificate %s: %w", template.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func (c *Pair) parse() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certBlock, _ := pem.Decode(c.Cert)
	keyBlock, _ := pem.Decode(c.Key)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, errors.New("the state file's root CA is not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("the key of the state file's root CA has an unsupported type")
	}
	return cert, key, nil
}
