package fleet

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"landfall/appliance/sitekey"
)

// serverName is the name that a member asks for when it connects to another member. It
// distinguishes their connections from those of clients on the same port. It is no name of DNS.
const serverName = "member.fleet.landfall.internal"

// purpose is the purpose with which the key of the fleet's authority is derived from the site's
// key.
const purpose sitekey.Purpose = "fleet members"

// The validity of the certificates of members. Clocks of members may differ, and may be wrong after
// a start. The key of a member exists only in memory, so the certificate ends with the process.
var (
	notBefore = time.Unix(0, 0).UTC()
	notAfter  = time.Date(2125, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Credential is the identity by which the members of a fleet trust each other. Every member derives
// the authority from the site's key, which all members have, and issues its own certificate.
type Credential struct {
	roots *x509.CertPool
	own   tls.Certificate
}

// NewCredential returns the credential of a member.
func NewCredential(key *sitekey.Key, member string) (*Credential, error) {
	seed, err := key.Derive(purpose)
	if err != nil {
		return nil, err
	}
	authority := ed25519.NewKeyFromSeed(seed)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"Landfall"}, CommonName: "Landfall " +
			"fleet"},
		NotBefore: notBefore, NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, authority.Public(), authority)
	if err != nil {
		return nil, fmt.Errorf("make the authority of the fleet's members: %w", err)
	}
	if root, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make the authority of the fleet's members: %w", err)
	}
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue the certificate of this member: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("issue the certificate of this member: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"Landfall"}, CommonName: member},
		NotBefore: notBefore, NotAfter: notAfter, BasicConstraintsValid: true, DNSNames: []string{serverName},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if der, err = x509.CreateCertificate(rand.Reader, leaf, root, secret.Public(), authority); err != nil {
		return nil, fmt.Errorf("issue the certificate of this member: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return &Credential{roots, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: secret}}, nil
}

// Listener returns the configuration of a listener for clients and members. Members must have a
// certificate of the fleet. Clients get the configuration that they get without a fleet.
func (c *Credential) Listener(clients *tls.Config) *tls.Config {
	members := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.own}, ClientCAs: c.roots,
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"http/1.1"}}
	both := clients.Clone()
	both.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName == serverName {
			return members, nil
		}
		if clients.GetConfigForClient != nil {
			return clients.GetConfigForClient(hello)
		}
		return nil, nil
	}
	return both
}

// Client returns the configuration of connections to other members.
func (c *Credential) Client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.own}, RootCAs: c.roots,
		ServerName: serverName, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
}

// sender returns the name of the member that sent a request, or "" if it is from a client.
func sender(r *http.Request) string {
	if r.TLS == nil || r.TLS.ServerName != serverName || len(r.TLS.VerifiedChains) == 0 {
		return ""
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName
}
