package authority_test

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
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/sitekey"
)

func newBox(t *testing.T, dir string) *sitekey.Box {
	t.Helper()
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	box, err := key.Box(authority.Purpose, nil)
	require.NoError(t, err)
	return box
}

// interfaces are the addresses of a machine.
type interfaces struct {
	mu        sync.Mutex
	addresses []netip.Addr
}

func (i *interfaces) add(address string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.addresses = append(i.addresses, netip.MustParseAddr(address))
}

func (i *interfaces) list() ([]netip.Addr, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.addresses), nil
}

// machine is an appliance's machine with certificates.
type machine struct {
	*testing.T
	*authority.Certificates
	authority  *authority.Authority
	interfaces *interfaces
	clock      *clockwork.FakeClock
	log        *syncBuffer
}

// syncBuffer is a log that tests read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

var today = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func newMachine(t *testing.T, now time.Time, change func(*authority.Options)) *machine {
	t.Helper()
	m, err := tryMachine(t, now, change)
	require.NoError(t, err)
	return m
}

func tryMachine(t *testing.T, now time.Time, change func(*authority.Options)) (_ *machine, err error) {
	t.Helper()
	dir := t.TempDir()
	m := &machine{T: t, interfaces: new(interfaces), clock: clockwork.NewFakeClockAt(now), log: new(syncBuffer)}
	if m.authority, err = authority.LoadOrCreate(dir, newBox(t, dir)); err != nil {
		return nil, err
	}
	m.interfaces.add("192.0.2.1")
	options := authority.Options{Authority: m.authority, Names: []string{"landfall.site.test"},
		Addresses: m.interfaces.list, Clock: m.clock, Logger: slog.New(slog.NewTextHandler(m.log, nil))}
	if change != nil {
		change(&options)
	}
	m.Certificates, err = authority.NewCertificates(options)
	return m, err
}

// served returns the certificate for a connection with a server name, which may be "", and a local
// address.
func (m *machine) served(name, local string) *x509.Certificate {
	m.Helper()
	hello := &tls.ClientHelloInfo{ServerName: name, SupportedVersions: []uint16{tls.VersionTLS13},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		SupportedCurves:  []tls.CurveID{tls.CurveP256}, CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256}}
	if local != "" {
		hello.Conn = connection{local: &net.TCPAddr{IP: net.ParseIP(local), Port: 8090}}
	}
	got, err := m.Get(hello)
	require.NoError(m, err)
	return got.Leaf
}

// connection is a connection with a local address.
type connection struct {
	net.Conn
	local net.Addr
}

func (c connection) LocalAddr() net.Addr { return c.local }

// verify verifies a certificate by the roots of a machine, as a client whose clock shows a time.
func (m *machine) verify(certificate *x509.Certificate, name string, now time.Time) error {
	roots := x509.NewCertPool()
	require.True(m, roots.AppendCertsFromPEM(m.Roots()))
	_, err := certificate.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now})
	return err
}

// siteCA is a CA of the site.
type siteCA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newSiteCA(t *testing.T) *siteCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of the site"},
		NotBefore: today.AddDate(-1, 0, 0), NotAfter: today.AddDate(20, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &siteCA{certificate, key}
}

func (ca *siteCA) pem() []byte { return inPEM("CERTIFICATE", ca.certificate.Raw) }

func inPEM(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}

// sign returns a server certificate of the CA.
func (ca *siteCA) sign(t *testing.T, public any, until time.Time, names ...string) []byte {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: serial,
		NotBefore: today.AddDate(-1, 0, 0), NotAfter: until, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca.certificate, public, ca.key)
	require.NoError(t, err)
	return der
}

// write writes a certificate of the CA and its key.
func (ca *siteCA) write(t *testing.T, files *authority.Files, until time.Time, names ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	leaf := ca.sign(t, key.Public(), until, names...)
	require.NoError(t, os.WriteFile(files.Certificate, inPEM("CERTIFICATE", leaf), 0o600))
	require.NoError(t, os.WriteFile(files.Key, inPEM("PRIVATE KEY", secret), 0o600))
}

func newFiles(t *testing.T) *authority.Files {
	t.Helper()
	dir := t.TempDir()
	return &authority.Files{Certificate: filepath.Join(dir, "site.crt"), Key: filepath.Join(dir, "site.key")}
}

// clientOf returns a client that verifies servers with the given roots, and uses new connections.
func clientOf(t *testing.T, roots []byte) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(roots))
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		DisableKeepAlives: true}}
}

// logged reports whether the log contains a text.
func (m *machine) logged(text string) bool { return strings.Contains(m.log.String(), text) }

// decode returns the content of the first block.
func decode(t *testing.T, text []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	return block.Bytes
}
