package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	"landfall/appliance/sitekey"
)

// Files in the data directory of the authority of clients.
const (
	clientsFileName    = "clients-ca.crt"
	clientsKeyFileName = "clients-ca.key"
)

// Clients is the authority of the certificates of clients, such as the agents of management
// clusters. It is another authority than that of the servers: a key that may sign one kind of
// certificate can't sign the other.
type Clients struct{ authority *Authority }

// LoadOrCreateClients reads the authority of clients of a data directory, and creates a missing
// one. See LoadOrCreate.
func LoadOrCreateClients(dir string, box *sitekey.Box) (*Clients, error) {
	a, err := loadOrCreate(dir, clientsFileName, clientsKeyFileName, x509.ExtKeyUsageClientAuth, box)
	if err != nil {
		return nil, err
	}
	return &Clients{a}, nil
}

// PEM returns the authority's certificate.
func (c *Clients) PEM() []byte { return c.authority.PEM() }

// Roots returns a pool with the authority's certificate.
func (c *Clients) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.authority.certificate)
	return pool
}

// Issue issues a certificate with a new key. It returns both as PEM. The validity begins in 1970,
// like that of server certificates.
func (c *Clients) Issue(name string, until time.Time) (certificate *x509.Certificate, chain, key []byte, err error) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("issue a client certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{Organization: []string{"Landfall"}, CommonName: name},
		NotBefore: notBefore, NotAfter: until.UTC(), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.authority.certificate, secret.Public(), c.authority.key)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("issue a client certificate: %w", err)
	}
	if certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, nil, nil, fmt.Errorf("issue a client certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("issue a client certificate: %w", err)
	}
	return certificate, encode(certificate), pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: pkcs8}), nil
}
