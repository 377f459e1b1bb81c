package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// startDNS serves DNS records by UDP, each a line of a zone file. "*" in a name matches any name.
// The answer for names in failing.test is SERVFAIL.
func startDNS(t *testing.T, records ...string) (address string) {
	t.Helper()
	var zone []dns.RR
	for _, record := range records {
		parsed, err := dns.NewRR(record)
		require.NoError(t, err)
		zone = append(zone, parsed)
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, request *dns.Msg) {
		answer := new(dns.Msg).SetReply(request)
		question := request.Question[0]
		for _, record := range zone {
			suffix, wild := strings.CutPrefix(record.Header().Name, "*")
			if record.Header().Rrtype == question.Qtype && (record.Header().Name == question.Name ||
				wild && strings.HasSuffix(question.Name, suffix)) {
				found := dns.Copy(record)
				found.Header().Name = question.Name
				answer.Answer = append(answer.Answer, found)
			}
		}
		if len(answer.Answer) == 0 {
			answer.Rcode = dns.RcodeNameError
		}
		if strings.HasSuffix(question.Name, ".failing.test.") {
			answer.Rcode = dns.RcodeServerFailure
		}
		if err := w.WriteMsg(answer); err != nil {
			t.Error(err)
		}
	})}
	stopped := make(chan error, 1)
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() { stopped <- server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-stopped)
	})
	return conn.LocalAddr().String()
}

// timeServer answers NTP (RFC 5905, section 7.3) with a clock that is ahead of this machine's.
type timeServer struct {
	ahead          time.Duration
	stratum, leap  byte
	rootDispersion time.Duration
	kiss           string
}

func (s timeServer) start(t *testing.T, now func() time.Time) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		packet := make([]byte, 512)
		for {
			_, client, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if _, err := conn.WriteTo(s.answer(packet, now().Add(s.ahead)), client); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		<-stopped
	})
	return conn.LocalAddr().String()
}

func (s timeServer) answer(request []byte, now time.Time) []byte {
	const version, server, epoch = 4, 4, 2_208_988_800 // seconds from 1900 to 1970
	answer := make([]byte, 48)
	answer[0] = s.leap<<6 | version<<3 | server
	answer[1] = s.stratum
	answer[2], answer[3] = 6, 0xec
	binary.BigEndian.PutUint32(answer[8:], uint32(s.rootDispersion*65536/time.Second))
	copy(answer[12:], s.kiss)
	stamp := uint64(now.Unix()+epoch)<<32 | uint64(now.Nanosecond())<<32/1e9
	binary.BigEndian.PutUint64(answer[16:], stamp)
	copy(answer[24:], request[40:48])
	binary.BigEndian.PutUint64(answer[32:], stamp)
	binary.BigEndian.PutUint64(answer[40:], stamp)
	return answer
}

// testAuthority signs the certificates of registries.
type testAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, now time.Time) *testAuthority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Site Authority"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             now.AddDate(-20, 0, 0), NotAfter: now.AddDate(20, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	text, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(text)
	require.NoError(t, err)
	return &testAuthority{certificate, key}
}

func (a *testAuthority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// startRegistry starts a registry. edit may change its certificate.
func (a *testAuthority) startRegistry(t *testing.T, now time.Time, handler http.HandlerFunc,
	edit func(*x509.Certificate)) (host string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "registry"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   now.AddDate(0, -1, 0), NotAfter: now.AddDate(1, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if edit != nil {
		edit(template)
	}
	text, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{text, a.certificate.Raw},
		PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}
