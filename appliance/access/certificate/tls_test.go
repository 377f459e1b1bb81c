package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVerifier_asksOnTheListener uses certificates over HTTP/1.1 and HTTP/2. A wrong one gets an
// answer, not a failed handshake.
func TestVerifier_asksOnTheListener(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			s := newSite(t, nil)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if len(r.TLS.PeerCertificates) == 0 {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				found, err := s.Identify(r.TLS.PeerCertificates)
				if err != nil {
					w.WriteHeader(http.StatusUnauthorized)
				}
				_, _ = io.WriteString(w, found.Name+" "+r.Proto)
			}))
			server.EnableHTTP2 = version == "HTTP/2.0"
			server.StartTLS()
			server.TLS.GetConfigForClient = s.Ask(server.TLS).GetConfigForClient
			t.Cleanup(server.Close)
			ask := func(certificate *tls.Certificate) (int, string, *tls.CertificateRequestInfo) {
				t.Helper()
				var asked *tls.CertificateRequestInfo
				transport := server.Client().Transport.(*http.Transport).Clone()
				transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
				transport.TLSClientConfig.GetClientCertificate = func(
					request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
					asked = request
					if certificate == nil {
						return new(tls.Certificate), nil
					}
					return certificate, nil
				}
				client := &http.Client{Transport: transport}
				defer client.CloseIdleConnections()
				status, text := 0, ""
				for range 2 { // the second connection resumes the session of the first
					response, err := client.Get(server.URL)
					require.NoError(t, err)
					body, err := io.ReadAll(response.Body)
					require.NoError(t, err)
					require.NoError(t, response.Body.Close())
					if text != "" {
						require.Equal(t, text, string(body))
					}
					status, text = response.StatusCode, string(body)
					client.CloseIdleConnections()
				}
				return status, text, asked
			}
			good := s.pair("ci", []string{"crew"})
			status, text, asked := ask(&good)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "ci "+version, text)
			require.Equal(t, [][]byte{s.certificate.RawSubject}, asked.AcceptableCAs,
				"browsers offer certificates of these authorities only")
			status, _, _ = ask(nil)
			require.Equal(t, http.StatusNoContent, status)
			wrong := newAuthority(t, nil, "foreign").pair("ci", []string{"crew"})
			status, _, _ = ask(&wrong)
			require.Equal(t, http.StatusUnauthorized, status)
			expired := s.pair("ci", []string{"crew"}, func(c *x509.Certificate) {
				c.NotAfter = today.AddDate(0, 0,
					-1)
			})
			status, _, _ = ask(&expired)
			require.Equal(t, http.StatusUnauthorized, status)
		})
	}
}
