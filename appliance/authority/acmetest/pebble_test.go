package acmetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/sitekey"
)

const (
	name  = "landfall.site.test"
	keyID = "landfall"
)

// pebble is a CA that requires an external account binding. It resolves all names to 127.0.0.1, and
// connects there to the port of the appliance.
type pebble struct {
	*httptest.Server
	root   *x509.Certificate
	orders atomic.Int64
}

func startPebble(t *testing.T, key []byte, port int) *pebble {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	quiet := log.New(io.Discard, "", 0)
	memory := db.NewMemoryStore()
	require.NoError(t, memory.AddExternalAccountKeyByID(keyID, base64.RawURLEncoding.EncodeToString(key)))
	issuer := ca.New(quiet, memory, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {}})
	validator := va.New(quiet, 0, port, true, startDNS(t), memory)
	frontend := wfe.New(quiet, memory, validator, issuer, []string{"ca.site.test"}, true, true, 1, 1)
	block, _ := pem.Decode(issuer.GetRootCert(0).PEM())
	root, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	p := &pebble{root: root}
	handler := frontend.Handler()
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/order-plz" {
			p.orders.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	p.Config.ErrorLog = quiet
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

// startDNS starts a server that resolves all names to 127.0.0.1, and returns its address.
func startDNS(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // Pebble asks over TCP
	require.NoError(t, err)
	server := &dns.Server{Listener: listener, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		answer := new(dns.Msg).SetReply(r)
		if question := r.Question[0]; question.Qtype == dns.TypeA {
			answer.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypeA,
				Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)}}
		}
		_ = w.WriteMsg(answer) // without an answer, the validation fails
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

// site is a data directory, and the port on which the appliance serves TLS.
type site struct {
	*testing.T
	dir      string
	listener net.Listener
	log      *syncBuffer
}

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

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir(), log: new(syncBuffer)}
	var err error
	s.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return s
}

func (s *site) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// start serves TLS with certificates of the CA until the returned function is called.
func (s *site) start(p *pebble, key []byte) (stop func()) {
	s.Helper()
	siteKey, err := sitekey.LoadOrCreate(s.dir)
	require.NoError(s, err)
	box, err := siteKey.Box("acmetest", nil)
	require.NoError(s, err)
	own, err := authority.LoadOrCreate(s.dir, box)
	require.NoError(s, err)
	keyFile := filepath.Join(s.dir, "eab")
	require.NoError(s, os.WriteFile(keyFile, []byte(base64.RawURLEncoding.EncodeToString(key)+"\n"), 0o600))
	certificates, err := authority.NewCertificates(authority.Options{Authority: own, Names: []string{name},
		Addresses: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil },
		Clock:     clockwork.NewRealClock(), Logger: slog.New(slog.NewTextHandler(s.log, nil)),
		ACME: &authority.ACME{Directory: p.URL + wfe.DirectoryPath, Email: "crew@site.test", KeyID: keyID,
			KeyFile:  keyFile,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}),
			Names:    []string{name}, Cache: filepath.Join(s.dir, "acme"), Box: box}})
	require.NoError(s, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	ctx, cancel := context.WithCancel(s.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(tls.NewListener(s.listener, certificates.Config())) })
	group.Go(func() { _ = certificates.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		_ = server.Close()
		group.Wait()
	})
	s.Cleanup(stop)
	return stop
}

// served returns the certificates that a client gets for the name.
func (s *site) served() []*x509.Certificate {
	conn, err := tls.Dial("tcp", s.listener.Addr().String(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		s.Log(err)
		return nil
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates
}

// verify verifies the served certificates as a client of the CA.
func (s *site) verify(p *pebble) error {
	served := s.served()
	if len(served) == 0 {
		return io.ErrUnexpectedEOF
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(p.root)
	for _, certificate := range served[1:] {
		between.AddCert(certificate)
	}
	_, err := served[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between})
	return err
}

// TestPebble_certificateWithExternalAccount gets a certificate by tls-alpn-01, and keeps it over a
// restart.
func TestPebble_certificateWithExternalAccount(t *testing.T) {
	key := []byte(rand.Text() + rand.Text())
	s := newSite(t)
	p := startPebble(t, key, s.port())
	stop := s.start(p, key)
	require.Eventually(t, func() bool { return s.verify(p) == nil }, time.Minute, 10*time.Millisecond, "%s", s.log)
	first, orders := s.served()[0], p.orders.Load()
	require.Positive(t, orders)
	address := s.listener.Addr().String()
	stop()

	var err error
	s.listener, err = net.Listen("tcp", address)
	require.NoError(t, err)
	s.start(p, key)
	require.Eventually(t, func() bool { return s.verify(p) == nil }, time.Minute, 10*time.Millisecond, "%s", s.log)
	require.Equal(t, first.SerialNumber, s.served()[0].SerialNumber)
	require.Equal(t, orders, p.orders.Load(), "the certificate is stored")
}

// TestPebble_wrongAccountKey checks that the own authority serves the name when the CA refuses the
// account.
func TestPebble_wrongAccountKey(t *testing.T) {
	s := newSite(t)
	p := startPebble(t, []byte(rand.Text()+rand.Text()), s.port())
	s.start(p, []byte(rand.Text()+rand.Text()))
	require.Eventually(t, func() bool {
		return bytes.Contains([]byte(s.log.String()), []byte("gave no certificate for "+name))
	}, time.Minute, 10*time.Millisecond)
	require.Error(t, s.verify(p))
	require.Equal(t, "Landfall", s.served()[0].Subject.CommonName)
	require.Zero(t, p.orders.Load())
}
