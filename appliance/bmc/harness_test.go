package bmc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
	"landfall/store"
)

// clockSpeed is the factor by which the clocks of these tests run faster.
const clockSpeed = 1000

const (
	operator = "operator"
	secret   = "correct horse"
	infraEnv = "0a5d0f3e-0000-4000-8000-000000000001"
)

// testSite is the environment of a manager in tests: a store, an image server, and hosts.
type testSite struct {
	t       *testing.T
	clock   clockwork.Clock
	db      *store.DB
	manager *Manager
	images  *httptest.Server
	image   string // URL

	mu     sync.Mutex
	hosts  map[HostRef]Host
	broken int // number of the next reads of hosts that fail
}

func newTestSite(t *testing.T) *testSite {
	s := &testSite{t: t, clock: redfish.Accelerated(clockSpeed), hosts: map[HostRef]Host{}}
	disc := make([]byte, 64<<10)
	copy(disc[16*2048+1:], "CD001")
	s.images = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.iso", time.Unix(1, 0), bytes.NewReader(disc))
	}))
	t.Cleanup(s.images.Close)
	s.image = s.images.URL + "/i/abcdefghijklmnop.iso"
	s.open(t.TempDir())
	return s
}

// open opens the store and runs a manager until the test ends or stop is called.
func (s *testSite) open(dir string) (stop func()) {
	db, err := store.Open(context.Background(), dir, store.Options{NoSync: true, Clock: s.clock})
	require.NoError(s.t, err)
	s.db = db
	s.manager = New(Options{DB: db, Site: s, Clock: s.clock})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(s.t, s.manager.Run(ctx)) })
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			running.Wait()
			require.NoError(s.t, db.Close())
		})
	}
	s.t.Cleanup(stop)
	return stop
}

// ImageURL implements Site.
func (s *testSite) ImageURL(context.Context, string, string) (string, error) { return s.image, nil }

// ClusterName implements Site.
func (s *testSite) ClusterName(id string) (string, error) {
	return strings.TrimPrefix(id, "id of "), nil
}

// Hosts implements Site.
func (s *testSite) Hosts(fn func(Host) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail(); err != nil {
		return err
	}
	for _, host := range s.hosts {
		if err := fn(host); err != nil {
			return err
		}
	}
	return nil
}

// Host implements Site.
func (s *testSite) Host(ref HostRef) (Host, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail(); err != nil {
		return Host{}, false, err
	}
	host, ok := s.hosts[ref]
	return host, ok, nil
}

// fail returns the error of a read of hosts that fails. The caller holds mu.
func (s *testSite) fail() error {
	if s.broken == 0 {
		return nil
	}
	s.broken--
	return errors.New("the disk is full")
}

// setHost sets a host and changes its row in the store.
func (s *testSite) setHost(host Host) {
	s.mu.Lock()
	s.hosts[host.HostRef] = host
	s.mu.Unlock()
	type hostRow struct{ At time.Time }
	rows := store.NewBucket[hostRow]("hosts", 1)
	require.NoError(s.t, s.db.Update(context.Background(), func(tx *store.Tx) error {
		return rows.Put(tx, host.InfraEnvID+"/"+host.ID, &hostRow{s.clock.Now()})
	}))
}

// startBMC starts a simulated BMC.
func (s *testSite) startBMC(profile string, faults ...redfish.Fault) *redfish.BMC {
	p, ok := redfish.ProfileByName(profile)
	require.True(s.t, ok, profile)
	return s.startBMCWith(redfish.Options{Profile: p, Faults: faults}, nil)
}

func (s *testSite) startBMCWith(options redfish.Options, certificate *tls.Certificate) *redfish.BMC {
	options.Username, options.Password, options.Clock, options.Dir = operator, secret, s.clock, s.t.TempDir()
	options.Serial, options.UUID, options.MACs = "SN-7", "11111111-2222-4333-8444-555555555555",
		[]string{"52:54:00:00:00:07"}
	b := redfish.New(options)
	require.NoError(s.t, b.Listen("127.0.0.1:0", certificate))
	s.t.Cleanup(func() { require.NoError(s.t, b.Close()) })
	return b
}

// desired returns the initial desired state of the server of a simulated BMC.
func desired(b *redfish.BMC) Desired {
	return Desired{Name: "n1", Address: addressOf(b.URL()), Username: operator, Password: secret, InfraEnvID: infraEnv}
}

func addressOf(url string) string { return "redfish-virtualmedia+" + url }

// await waits until a server meets a condition.
func (s *testSite) await(id string, condition func(*Server) bool) *Server {
	s.t.Helper()
	var last *Server
	require.Eventually(s.t, func() bool {
		server, err := s.manager.Server(id)
		if err != nil {
			return false
		}
		last = server
		return condition(server)
	}, time.Minute, 2*time.Millisecond, "%s", serverText{&last})
	return last
}

type serverText struct{ server **Server }

func (d serverText) String() string {
	if *d.server == nil {
		return "the server does not exist"
	}
	s := *d.server
	text := string(s.State) + " " + string(s.Power)
	if s.Error != nil {
		text += ": " + s.Error.Message
	}
	for _, note := range s.History {
		text += "\n  " + note.Reason + ": " + note.Message
	}
	return text
}

func available(s *Server) bool   { return s.State == Available && s.CredentialsGood }
func provisioned(s *Server) bool { return s.State == Provisioned }
func failed(s *Server) bool      { return s.Error != nil }

// certificate returns a self-signed certificate.
func certificate(t *testing.T, expired bool) (*tls.Certificate, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "BMC"}, NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if expired {
		template.NotAfter = time.Now().Add(-time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
