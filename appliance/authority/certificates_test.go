package authority_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
)

func TestCertificates_everyNameOfMachine(t *testing.T) {
	m := newMachine(t, today, nil)
	m.interfaces.add("2001:db8::7")
	served := m.served("", "2001:db8::7")
	names := []string{"landfall.site.test", "LANDFALL.site.test", "localhost", "127.0.0.1", "::1", "192.0.2.1",
		"2001:db8::7"}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	for _, name := range names {
		require.NoError(t, m.verify(served, name, today), name)
	}
	for _, name := range []string{"other.test", "192.0.2.2", "site.test"} {
		require.Error(t, m.verify(served, name, today), name)
	}
}

// TestCertificates_neverNamedByClient checks that a client cannot choose a name for a certificate.
func TestCertificates_neverNamedByClient(t *testing.T) {
	m := newMachine(t, today, nil)
	for _, name := range []string{"quay.io", "evil.test", "198.51.100.9"} {
		require.Error(t, m.verify(m.served(name, "192.0.2.1"), name, today))
	}
}

// TestCertificates_wrongClocks checks clocks of hosts and of the appliance.
func TestCertificates_wrongClocks(t *testing.T) {
	epoch := time.Unix(60, 0)
	for name, clocks := range map[string]struct{ appliance, host time.Time }{
		"both right":                       {today, today},
		"host in 1970":                     {today, epoch},
		"host a year ahead":                {today, today.AddDate(1, 0, 0)},
		"host years behind":                {today, today.AddDate(-9, 0, 0)},
		"appliance in 1970":                {epoch, today},
		"appliance in 1970, years later":   {epoch, today.AddDate(30, 0, 0)},
		"both in 1970":                     {epoch, epoch},
		"appliance a year ahead":           {today.AddDate(1, 0, 0), today},
		"appliance at the authority's end": {time.Date(2125, 12, 1, 0, 0, 0, 0, time.UTC), today},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, clocks.appliance, nil)
			require.NoError(t, m.verify(m.served("", "192.0.2.1"), "192.0.2.1", clocks.host))
		})
	}
}

func TestFault33_certificateRenewedInTime(t *testing.T) {
	m := newMachine(t, today, nil)
	first := m.served("", "192.0.2.1")
	m.clock.Advance(364 * 24 * time.Hour)
	require.Equal(t, first.SerialNumber, m.served("", "192.0.2.1").SerialNumber)
	m.clock.Advance(2 * 24 * time.Hour)
	second := m.served("", "192.0.2.1")
	require.NotEqual(t, first.SerialNumber, second.SerialNumber)
	require.NoError(t, m.verify(second, "192.0.2.1", m.clock.Now().AddDate(1, 0, 0)))
}

// TestFault36_clockCorrected checks that the validity follows a clock that was wrong at the
// start.
func TestFault36_clockCorrected(t *testing.T) {
	m := newMachine(t, time.Unix(0, 0), nil)
	require.Equal(t, 2125, m.served("", "192.0.2.1").NotAfter.Year())
	m.clock.Advance(today.Sub(m.clock.Now()))
	require.Equal(t, 2028, m.served("", "192.0.2.1").NotAfter.Year())
}

func TestFault34_addressOfConnection(t *testing.T) {
	m := newMachine(t, today, nil)
	require.NoError(t, m.verify(m.served("", "198.51.100.4"), "198.51.100.4", today))
	require.NoError(t, m.verify(m.served("", "198.51.100.4"), "192.0.2.1", today), "the other addresses remain")
}

// TestCertificates_addressAddedDuringDownload checks a whole server: a client with the authority
// verifies a new address without a restart, while an older connection continues.
func TestCertificates_addressAddedDuringDownload(t *testing.T) {
	m := newMachine(t, today, nil)
	rest := make(chan struct{})
	handler := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first")
		if r.URL.Path == "/image" {
			w.(http.Flusher).Flush()
			<-rest
			_, _ = io.WriteString(w, " rest")
		}
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(handler)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(tls.NewListener(listener, m.Config())) }()
	defer func() { require.NoError(t, server.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Certificates.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	get := func(name, path string) (*http.Response, error) {
		client := clientOf(t, m.authority.PEM())
		client.Transport.(*http.Transport).TLSClientConfig.Time = func() time.Time { return today }
		client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		}
		return client.Get("https://" + name + path)
	}
	download, err := get("192.0.2.1", "/image")
	require.NoError(t, err)
	_, err = get("198.51.100.4", "/")
	require.ErrorAs(t, err, new(x509.HostnameError))

	m.interfaces.add("198.51.100.4")
	require.NoError(t, m.clock.BlockUntilContext(t.Context(), 1))
	m.clock.Advance(10 * time.Second)
	require.Eventually(t, func() bool {
		response, err := get("198.51.100.4", "/")
		return err == nil && response.Body.Close() == nil
	}, time.Minute, time.Millisecond)
	close(rest)
	body, err := io.ReadAll(download.Body)
	require.NoError(t, err)
	require.NoError(t, download.Body.Close())
	require.Equal(t, "first rest", string(body))
}

func TestCertificates_modernTLSOnly(t *testing.T) {
	m := newMachine(t, today, nil)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = m.Config()
	server.StartTLS()
	defer server.Close()
	for name, client := range map[string]*tls.Config{
		"TLS 1.1": {MaxVersion: tls.VersionTLS11},
		"CBC": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
			tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}},
		"no forward secrecy": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{
			tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384}},
	} {
		t.Run(name, func(t *testing.T) {
			client.InsecureSkipVerify = true
			_, err := tls.Dial("tcp", server.Listener.Addr().String(), client)
			require.Error(t, err)
		})
	}
	for version, limits := range map[string]*tls.Config{"TLS 1.2": {MaxVersion: tls.VersionTLS12}, "TLS 1.3": {}} {
		limits.InsecureSkipVerify, limits.NextProtos = true, []string{"h2"}
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), limits)
		require.NoError(t, err, version)
		require.Equal(t, "h2", conn.ConnectionState().NegotiatedProtocol, version)
		require.NoError(t, conn.Close())
	}
}

func TestFiles_usedForTheirNames(t *testing.T) {
	ca, files := newSiteCA(t), newFiles(t)
	ca.write(t, files, today.AddDate(1, 0, 0), "landfall.site.test")
	m := newMachine(t, today, func(o *authority.Options) { o.Files, o.CA = files, ca.pem() })
	named := m.served("landfall.site.test", "192.0.2.1")
	require.Equal(t, "CA of the site", named.Issuer.CommonName)
	require.NoError(t, m.verify(named, "landfall.site.test", today), "the images contain the site's CA")
	byAddress := m.served("", "192.0.2.1")
	require.NoError(t, byAddress.CheckSignatureFrom(own(t, m)), "the own authority serves what the file lacks")
	require.NotContains(t, m.log.String(), "lacks names")
}

func own(t *testing.T, m *machine) *x509.Certificate {
	t.Helper()
	pair := decode(t, m.authority.PEM())
	certificate, err := x509.ParseCertificate(pair)
	require.NoError(t, err)
	return certificate
}

func TestFiles_missingNamesAreTold(t *testing.T) {
	ca, files := newSiteCA(t), newFiles(t)
	ca.write(t, files, today.AddDate(1, 0, 0), "other.site.test")
	m := newMachine(t, today, func(o *authority.Options) { o.Files, o.CA = files, ca.pem() })
	require.Contains(t, m.log.String(), "lacks names of the appliance's URLs")
	require.Contains(t, m.log.String(), "landfall.site.test")
	require.NoError(t, m.verify(m.served("landfall.site.test", "192.0.2.1"), "landfall.site.test", today))
}

// TestFiles_rereadWhenChanged replaces the files one after the other, as tools that renew
// certificates do.
func TestFiles_rereadWhenChanged(t *testing.T) {
	ca, files := newSiteCA(t), newFiles(t)
	ca.write(t, files, today.AddDate(1, 0, 0), "landfall.site.test")
	m := newMachine(t, today, func(o *authority.Options) { o.Files, o.CA = files, ca.pem() })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Certificates.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	serial := func() string { return m.served("landfall.site.test", "192.0.2.1").SerialNumber.String() }
	pass := func(done func() bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			require.NoError(t, m.clock.BlockUntilContext(t.Context(), 1))
			m.clock.Advance(10 * time.Second)
			return done()
		}, time.Minute, time.Millisecond)
	}
	first := serial()

	next := newFiles(t)
	ca.write(t, next, today.AddDate(2, 0, 0), "landfall.site.test")
	require.NoError(t, os.Rename(next.Certificate, files.Certificate))
	pass(func() bool { return m.logged("could not be updated") })
	require.Equal(t, first, serial(), "a certificate without its key is not used")
	require.NoError(t, os.Rename(next.Key, files.Key))
	pass(func() bool { return serial() != first })
	require.Equal(t, today.AddDate(-1, 0, 0), m.Validities()[1].From.UTC())

	second := serial()
	require.NoError(t, os.Remove(files.Key))
	pass(func() bool { return m.logged("no such file") })
	require.Equal(t, second, serial(), "missing files leave the last certificate in use")

	newSiteCA(t).write(t, files, today.AddDate(2, 0, 0), "landfall.site.test")
	pass(func() bool { return m.logged("Another CA signed the new certificate") })
	require.NotEqual(t, second, serial())
}

func TestFiles_rejectedAtStart(t *testing.T) {
	ca := newSiteCA(t)
	for name, rejected := range map[string]struct {
		prepare  func(t *testing.T, files *authority.Files)
		sentence string
	}{
		"missing": {func(*testing.T, *authority.Files) {}, "no such file"},
		"key of another certificate": {func(t *testing.T, files *authority.Files) {
			other := newFiles(t)
			ca.write(t, other, today.AddDate(1, 0, 0), "a.test")
			require.NoError(t, os.Rename(other.Key, files.Key))
		}, "the key must belong to the first certificate"},
		"expired": {func(t *testing.T, files *authority.Files) {
			ca.write(t, files, today.AddDate(0, -1, 0), "a.test")
		}, "expired on 2026-10-01"},
		"no names": {func(t *testing.T, files *authority.Files) {
			ca.write(t, files, today.AddDate(1, 0, 0))
		}, "no subject alternative names"},
		"not PEM": {func(t *testing.T, files *authority.Files) {
			require.NoError(t, os.WriteFile(files.Certificate, []byte{0x30, 0x82}, 0o600))
		}, "contains no certificate in PEM"},
		"encrypted key": {func(t *testing.T, files *authority.Files) {
			require.NoError(t, os.WriteFile(files.Key, inPEM("ENCRYPTED PRIVATE KEY", []byte("x")), 0o600))
		}, "contains an encrypted key"},
	} {
		t.Run(name, func(t *testing.T) {
			files := newFiles(t)
			if name != "missing" {
				ca.write(t, files, today.AddDate(1, 0, 0), "a.test")
			}
			rejected.prepare(t, files)
			_, err := tryMachine(t, today, func(o *authority.Options) { o.Files = files })
			require.ErrorContains(t, err, rejected.sentence)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// TestFiles_roots checks which certificates the hosts get to verify a certificate of the site.
func TestFiles_roots(t *testing.T) {
	ca := newSiteCA(t)
	for name, provided := range map[string]struct {
		prepare func(t *testing.T, files *authority.Files) (bundle []byte)
		warning string
	}{
		"CA given": {func(t *testing.T, files *authority.Files) []byte {
			ca.write(t, files, today.AddDate(1, 0, 0), "landfall.site.test")
			return ca.pem()
		}, ""},
		"CA in the chain": {func(t *testing.T, files *authority.Files) []byte {
			ca.write(t, files, today.AddDate(1, 0, 0), "landfall.site.test")
			leaf, err := os.ReadFile(files.Certificate)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files.Certificate, append(leaf, ca.pem()...), 0o600))
			return nil
		}, ""},
		"CA unknown": {func(t *testing.T, files *authority.Files) []byte {
			ca.write(t, files, today.AddDate(1, 0, 0), "landfall.site.test")
			return nil
		}, "set tls.ca_file"},
		"another CA given": {func(t *testing.T, files *authority.Files) []byte {
			ca.write(t, files, today.AddDate(1, 0, 0), "landfall.site.test")
			return newSiteCA(t).pem()
		}, "did not sign"},
	} {
		t.Run(name, func(t *testing.T) {
			files := newFiles(t)
			bundle := provided.prepare(t, files)
			m := newMachine(t, today, func(o *authority.Options) { o.Files, o.CA = files, bundle })
			err := m.verify(m.served("landfall.site.test", "192.0.2.1"), "landfall.site.test", today)
			if provided.warning == "" {
				require.NoError(t, err)
				require.NotContains(t, m.log.String(), "can't verify")
				return
			}
			require.Error(t, err)
			require.Contains(t, m.log.String(), provided.warning)
		})
	}
}
