package certificate_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/certificate"
	"landfall/appliance/access/external"
)

var today = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// signer is an authority.
type signer struct {
	testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// issue returns a certificate with a new key. A nil signer issues a self-signed one.
func issue(t testing.TB, by *signer, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	parent, signing := template, key
	if by != nil {
		parent, signing = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signing)
	require.NoError(t, err)
	made, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return made, key
}

func newAuthority(t testing.TB, by *signer, name string, change ...func(*x509.Certificate)) *signer {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: today.AddDate(-1, 0, 0), NotAfter: today.AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	for _, f := range change {
		f(template)
	}
	made, key := issue(t, by, template)
	return &signer{t, made, key}
}

// client returns a certificate of a program in groups. The changes are applied to its template.
func (s *signer) client(name string, groups []string, change ...func(*x509.Certificate)) *x509.Certificate {
	s.Helper()
	made, _ := issue(s, s, clientTemplate(name, groups, change...))
	return made
}

func clientTemplate(name string, groups []string, change ...func(*x509.Certificate)) *x509.Certificate {
	template := &x509.Certificate{SerialNumber: big.NewInt(0xbeef), Subject: pkix.Name{CommonName: name,
		Organization: groups}, NotBefore: today.AddDate(0, -1, 0), NotAfter: today.AddDate(0, 1, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, f := range change {
		f(template)
	}
	return template
}

// list returns the authority's revocation list of serial numbers.
func (s *signer) list(until time.Time, serials ...int64) []byte {
	s.Helper()
	template := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: today.AddDate(0, -1, 0), NextUpdate: until}
	for _, serial := range serials {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: big.NewInt(serial), RevocationTime: today.AddDate(0, 0, -1)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, s.certificate, s.key)
	require.NoError(s, err)
	return der
}

func inPEM(kind string, contents ...[]byte) []byte {
	var text bytes.Buffer
	for _, content := range contents {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	return text.Bytes()
}

func (s *signer) pem() []byte { return inPEM("CERTIFICATE", s.certificate.Raw) }

// site is a site with an authority of client certificates.
type site struct {
	*signer
	*certificate.Verifier
	clock   *clockwork.FakeClock
	log     *bytes.Buffer
	options certificate.Options
}

var rules = external.Rules{
	Administrators: []string{"landfall:admin"}, Operators: []string{"crew"}, Viewers: []string{"staff"},
	Scopes: []external.GroupScope{{Group: "deck 1", Scope: access.Scope{Clusters: []string{"a"}}}},
}

// newSite returns a site. The revocation list is DER or PEM; nil means that there is none.
func newSite(t testing.TB, lists func(*signer) []byte) *site {
	t.Helper()
	s := &site{signer: newAuthority(t, nil, "programs"), clock: clockwork.NewFakeClockAt(today), log: new(bytes.Buffer)}
	dir := t.TempDir()
	s.options = certificate.Options{CAFile: filepath.Join(dir, "ca.pem"), Rules: rules, Clock: s.clock,
		Logger: slog.New(slog.NewTextHandler(s.log, nil))}
	s.write(s.options.CAFile, s.pem())
	if lists != nil {
		s.options.CRLFile = filepath.Join(dir, "crl.pem")
		s.write(s.options.CRLFile, lists(s.signer))
	}
	var err error
	s.Verifier, err = certificate.New(s.options)
	require.NoError(t, err)
	return s
}

// write writes a file with a new time of change.
func (s *site) write(path string, content []byte) {
	s.Helper()
	require.NoError(s, os.WriteFile(path, content, 0o600))
	later := time.Now()
	if info, err := os.Stat(path); err == nil && s.Verifier != nil {
		later = info.ModTime().Add(time.Duration(s.clock.Now().UnixNano()%1000+1) * time.Second)
	}
	require.NoError(s, os.Chtimes(path, later, later))
}

// run runs the verifier until the test ends, and returns a function that lets it check its files.
func (s *site) run() (check func()) {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Run(s.Context()) }()
	s.Cleanup(func() { require.NoError(s, <-done) })
	require.NoError(s, s.clock.BlockUntilContext(s.Context(), 1))
	return func() {
		s.clock.Advance(10 * time.Second)
	}
}

// pair returns a certificate of a program, with its key, for a TLS client.
func (s *signer) pair(name string, groups []string, change ...func(*x509.Certificate)) tls.Certificate {
	s.Helper()
	made, key := issue(s, s, clientTemplate(name, groups, change...))
	return tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key}
}
