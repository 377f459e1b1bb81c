package ams

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
)

// served starts the test server on a TCP listener and returns the site's configuration for it.
func (s *site) served(start func(http.Handler) *httptest.Server) *httptest.Server {
	server := start(s.ams)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // hides errors of rejected handshakes
	s.Cleanup(server.Close)
	return server
}

// over replaces the site's relay with a relay that has the given transport and URLs.
func (s *site) over(base string, transport http.RoundTripper, limits Limits) {
	s.restart()
	options := s.relay.options
	options.URL = base
	options.Client = NewClient(ClientOptions{
		URL: base, TokenURL: base + amstest.TokenPath, Transport: transport, Credentials: s.secret,
		UserAgent: "landfall/test",
		Clock:     s.clock, Logger: options.Logger, Limits: limits,
	})
	s.relay = New(options)
	require.NoError(s, s.scan())
}

// byHost sends requests to the handlers of hosts, in memory.
type byHost map[string]http.Handler

func (h byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	handler, ok := h[r.URL.Host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: r.URL.Hostname(), IsNotFound: true}
	}
	return amstest.Transport{Handler: handler}.RoundTrip(r)
}

func TestRelay_interceptedConnections(t *testing.T) {
	runFaults(t, []faultCase{
		{22, "captive portal", func(s *site) {
			forwarded := 0
			s.wire = byHost{"ams.test": s.ams, "sso.test": s.ams,
				"portal.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					forwarded++
					amstest.Answer(200, "application/json",
						`{"id": "1", "kind": "Subscription", "username": "you", "items": []}`)(w, nil, nil)
				})}
			s.restart()
			id := s.reserved("one")
			for i, portal := range []func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)){
				amstest.HTML(), amstest.Redirect(302, "https://portal.test/login"),
				amstest.Redirect(307, "https://portal.test/login"),
				amstest.Answer(200, "application/json", `{"status": "welcome"}`),
				amstest.Answer(200, "application/json", `[]`),
				amstest.Answer(511, "text/html", "<html>"), amstest.Answer(403, "text/html",
					"<html>forbidden by the proxy"),
				amstest.Empty(404), amstest.Empty(403), amstest.Empty(409), amstest.Empty(400),
				amstest.Answer(404, "application/json", `{"message": "no Route matched"}`),
				amstest.Answer(403, "application/json", `{"message": "forbidden"}`),
				amstest.Answer(422, "application/json", `{"kind": "Other"}`),
			} {
				s.ams.Break(amstest.Fault{Do: portal})
				name := fmt.Sprintf("name%d", i)
				s.rename(id, name)
				s.settle(10 * time.Minute)
				require.Equal(s, Offline, s.state(), name)
				require.Equal(s, ClusterWaiting, s.line(id).State)
				status, err := s.relay.Status(s.Context(), Selection{})
				require.NoError(s, err)
				require.Contains(s, status.Problem, "captive portal")
				s.ams.Heal()
				s.settle(soon)
				s.requireRow(id, "Reserved", map[string]any{"display_name": name})
			}
			s.ams.Break(amstest.Fault{Op: "delete", Times: 1, Do: amstest.HTML()})
			s.delete(id)
			s.settle(soon)
			s.requireGone(id)
			require.Zero(s, forwarded, "no other host saw a request")
		}},
		{57, "a gateway answers 404 to a deletion", func(s *site) {
			for _, op := range []string{"get", "delete"} {
				for _, gateway := range []func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)){
					amstest.Empty(404), amstest.Answer(404, "application/json", `{"message": "no Route matched"}`),
				} {
					id := s.reserved("one")
					s.ams.Break(amstest.Fault{Op: op, Do: gateway})
					s.delete(id)
					s.settle(10 * time.Minute)
					require.Equal(s, Offline, s.state())
					s.requireRow(id, "Reserved", nil)
					require.Empty(s, s.recorded(id).Closed)
					s.ams.Heal()
					s.settle(soon)
					s.requireGone(id)
				}
			}
		}},
		{58, "404 to a search or a POST", func(s *site) {
			for _, op := range []string{"search", "create"} {
				s.ams.Break(amstest.Fault{Op: op, Do: amstest.Status(404, 7, "there is no such path")})
				id := s.register(op)
				s.settle(10 * time.Minute)
				require.Equal(s, Offline, s.state())
				require.Equal(s, ClusterWaiting, s.line(id).State)
				s.ams.Heal()
				s.settle(soon)
				s.requireSent(id)
			}
		}},
		{23, "unknown CA, and a proxy that requires a password", func(s *site) {
			server := s.served(httptest.NewTLSServer)
			transport, err := NewTransport("", nil, Limits{})
			require.NoError(s, err)
			id := s.register("one")
			s.over(server.URL, transport, Limits{})
			s.settle(time.Minute)
			status, err := s.relay.Status(s.Context(), Selection{})
			require.NoError(s, err)
			require.Equal(s, Offline, status.State)
			require.Contains(s, status.Problem, "ams.ca_bundle")

			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
				_ *http.Request) {
				w.WriteHeader(http.StatusProxyAuthRequired)
			}))
			s.Cleanup(proxy.Close)
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			transport, err = NewTransport(proxy.URL, ca, Limits{})
			require.NoError(s, err)
			s.over(server.URL, transport, Limits{})
			s.settle(time.Minute)
			status, err = s.relay.Status(s.Context(), Selection{})
			require.NoError(s, err)
			require.Contains(s, status.Problem, "ams.proxy")

			transport, err = NewTransport("", ca, Limits{})
			require.NoError(s, err)
			s.over(server.URL, transport, Limits{})
			s.settle(soon)
			s.requireRow(id, "Reserved", nil)
			s.requireSent(id)
			for _, r := range s.ams.Requests("create") {
				require.Equal(s, "landfall/test", r.Header.Get("User-Agent"))
				require.NotEmpty(s, r.Header.Get("X-Operation-Id"))
			}
			transport.CloseIdleConnections()
		}},
		{26, "one byte a second", func(s *site) {
			server := s.served(httptest.NewServer)
			transport, err := NewTransport("", nil, Limits{})
			require.NoError(s, err)
			slow, quick := s.register("slow"), s.register("quick")
			s.ams.Break(amstest.Fault{Op: "search", Cluster: slow, Do: amstest.Drip(10 * time.Millisecond)})
			s.over(server.URL, transport, Limits{Call: 200 * time.Millisecond})
			start := time.Now()
			s.relay.step(s.Context())
			require.Less(s, time.Since(start), 5*time.Second)
			s.requireSent(quick)
			require.Contains(s, s.line(slow).Reason, "in time")
			s.ams.Heal()
			s.settle(soon)
			s.requireSent(slow)
			transport.CloseIdleConnections()
		}},
	})
}

// dnsGone runs fault 24: a name without an address, and an address of another server.
func (s *site) dnsGone() {
	s.wire = byHost{}
	s.restart()
	id := s.register("one")
	s.settle(time.Minute)
	status, err := s.relay.Status(s.Context(), Selection{})
	require.NoError(s, err)
	require.Equal(s, Offline, status.State)
	require.Contains(s, status.Problem, "sso.test cannot be resolved")

	// another server at this address with a certificate for another name
	server := s.served(httptest.NewTLSServer)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	transport, err := NewTransport("", ca, Limits{})
	require.NoError(s, err)
	s.over(strings.Replace(server.URL, "127.0.0.1", "localhost", 1), transport, Limits{})
	s.settle(time.Minute)
	status, err = s.relay.Status(s.Context(), Selection{})
	require.NoError(s, err)
	require.Equal(s, Offline, status.State)
	require.Contains(s, status.Problem, "certificate")
	require.Empty(s, s.ams.Requests(), "the server receives no request")

	s.wire = amstest.Transport{Handler: s.ams}
	s.restart()
	s.settle(soon)
	s.requireSent(id)
}
