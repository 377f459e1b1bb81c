//go:build etcd

package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority issues certificates for servers on 127.0.0.1 and for their clients.
type Authority struct {
	CAFile string
	dir    string
	root   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// NewAuthority returns an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir()}
	a.root = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd's authority"},
		NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.key = newKey(t)
	a.CAFile = a.write(t, "ca.pem", "CERTIFICATE", a.sign(t, a.root, a.key))
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func (a *Authority) sign(t testing.TB, certificate *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, certificate, a.root, &key.PublicKey, a.key)
	require.NoError(t, err)
	return der
}

func (a *Authority) write(t testing.TB, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// Issue writes a certificate and its key. They are for servers and for clients.
func (a *Authority) Issue(t testing.TB, name string, notAfter time.Time) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return a.write(t, name+".pem", "CERTIFICATE", a.sign(t, &x509.Certificate{SerialNumber: big.NewInt(2),
			Subject: pkix.Name{CommonName: name}, NotAfter: notAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, key)),
		a.write(t, name+".key", "EC PRIVATE KEY", der)
}
