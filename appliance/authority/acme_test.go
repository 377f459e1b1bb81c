package authority_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
)

// acmeCA is a CA with the ACME protocol (RFC 8555). It requires an external account binding and
// verifies names by tls-alpn-01 (RFC 8737). It does not verify the signatures of requests.
type acmeCA struct {
	*testing.T
	*httptest.Server
	ca       *siteCA
	binding  []byte                                    // HMAC key
	validate func(name, keyAuthorization string) error // of a challenge

	mu         sync.Mutex
	thumbprint string // of the account's key (RFC 7638)
	valid      bool
	name       string
	issued     []byte // PEM
	orders     int
}

const acmeToken = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ"

func newACMECA(t *testing.T, binding []byte, validate func(name, keyAuthorization string) error) *acmeCA {
	t.Helper()
	c := &acmeCA{T: t, ca: newSiteCA(t), binding: binding, validate: validate}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /directory", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"newNonce": c.URL + "/nonce", "newAccount": c.URL + "/account",
			"newOrder": c.URL + "/order", "meta": map[string]any{"externalAccountRequired": true}})
	})
	mux.HandleFunc("HEAD /nonce", func(w http.ResponseWriter, _ *http.Request) { nonce(w) })
	mux.HandleFunc("POST /account", c.account)
	mux.HandleFunc("POST /order", c.order)
	mux.HandleFunc("POST /order/1", func(w http.ResponseWriter, _ *http.Request) { c.answerOrder(w, http.StatusOK) })
	mux.HandleFunc("POST /authorization", c.authorization)
	mux.HandleFunc("POST /challenge", c.challenge)
	mux.HandleFunc("POST /finalize", c.finalize)
	mux.HandleFunc("POST /certificate", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		nonce(w)
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write(c.issued)
	})
	c.Server = httptest.NewTLSServer(mux)
	t.Cleanup(c.Close)
	return c
}

func nonce(w http.ResponseWriter) { w.Header().Set("Replay-Nonce", rand.Text()) }

func answer(w http.ResponseWriter, status int, body any) {
	nonce(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler) // the client has closed the connection
	}
}

func refuse(w http.ResponseWriter, status int, kind, detail string) {
	answer(w, status, map[string]any{"type": "urn:ietf:params:acme:error:" + kind, "detail": detail})
}

// signed is a JSON Web Signature (RFC 7515).
type signed struct{ Protected, Payload, Signature string }

// open decodes the payload and the protected header.
func (s signed) open(payload, header any) error {
	for _, part := range []struct {
		text string
		into any
	}{{s.Payload, payload}, {s.Protected, header}} {
		if part.text == "" || part.into == nil {
			continue
		}
		content, err := base64.RawURLEncoding.DecodeString(part.text)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(content, part.into); err != nil {
			return err
		}
	}
	return nil
}

func readSigned(r *http.Request, payload, header any) error {
	var request signed
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return err
	}
	return request.open(payload, header)
}

func (c *acmeCA) account(w http.ResponseWriter, r *http.Request) {
	var payload struct {
		ExternalAccountBinding *signed
		OnlyReturnExisting     bool
	}
	var header struct {
		JWK struct{ Crv, Kty, X, Y string }
	}
	if err := readSigned(r, &payload, &header); err != nil {
		refuse(w, http.StatusBadRequest, "malformed", err.Error())
		return
	}
	if binding := payload.ExternalAccountBinding; binding == nil {
		refuse(w, http.StatusForbidden, "externalAccountRequired", "no external account binding")
		return
	} else {
		mac := hmac.New(sha256.New, c.binding)
		mac.Write([]byte(binding.Protected + "." + binding.Payload))
		if binding.Signature != base64.RawURLEncoding.EncodeToString(mac.Sum(nil)) {
			refuse(w, http.StatusForbidden, "unauthorized", "the external account binding is wrong")
			return
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":%q,"kty":%q,"x":%q,"y":%q}`, header.JWK.Crv, header.JWK.Kty,
		header.JWK.X, header.JWK.Y))
	c.mu.Lock()
	c.thumbprint = base64.RawURLEncoding.EncodeToString(sum[:])
	c.mu.Unlock()
	w.Header().Set("Location", c.URL+"/account/1")
	answer(w, http.StatusCreated, map[string]any{"status": "valid"})
}

func (c *acmeCA) order(w http.ResponseWriter, r *http.Request) {
	var payload struct {
		Identifiers []struct{ Value string }
	}
	if err := readSigned(r, &payload, nil); err != nil || len(payload.Identifiers) != 1 {
		refuse(w, http.StatusBadRequest, "malformed", "one name is required")
		return
	}
	c.mu.Lock()
	c.name, c.valid, c.issued, c.orders = payload.Identifiers[0].Value, false, nil, c.orders+1
	c.mu.Unlock()
	c.answerOrder(w, http.StatusCreated)
}

func (c *acmeCA) answerOrder(w http.ResponseWriter, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	order := map[string]any{"status": "pending", "authorizations": []string{c.URL + "/authorization"},
		"identifiers": []map[string]string{{"type": "dns", "value": c.name}}, "finalize": c.URL + "/finalize"}
	if c.valid {
		order["status"] = "ready"
	}
	if c.issued != nil {
		order["status"], order["certificate"] = "valid", c.URL+"/certificate"
	}
	w.Header().Set("Location", c.URL+"/order/1")
	answer(w, status, order)
}

func (c *acmeCA) authorization(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := "pending"
	if c.valid {
		status = "valid"
	}
	answer(w, http.StatusOK, map[string]any{"status": status,
		"identifier": map[string]string{"type": "dns", "value": c.name},
		"challenges": []map[string]string{{"type": "tls-alpn-01", "url": c.URL + "/challenge", "token": acmeToken,
			"status": status}}})
}

func (c *acmeCA) challenge(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	name, key := c.name, acmeToken+"."+c.thumbprint
	c.mu.Unlock()
	if err := c.validate(name, key); err != nil {
		refuse(w, http.StatusForbidden, "unauthorized", err.Error())
		return
	}
	c.mu.Lock()
	c.valid = true
	c.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"type": "tls-alpn-01", "url": c.URL + "/challenge", "token": acmeToken,
		"status": "valid"})
}

func (c *acmeCA) finalize(w http.ResponseWriter, r *http.Request) {
	var payload struct{ CSR string }
	if err := readSigned(r, &payload, nil); err != nil {
		refuse(w, http.StatusBadRequest, "malformed", err.Error())
		return
	}
	der, err := base64.RawURLEncoding.DecodeString(payload.CSR)
	if err != nil {
		refuse(w, http.StatusBadRequest, "badCSR", err.Error())
		return
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		refuse(w, http.StatusBadRequest, "badCSR", err.Error())
		return
	}
	leaf := c.ca.sign(c.T, request.PublicKey, time.Now().AddDate(0, 3, 0), request.DNSNames...)
	c.mu.Lock()
	c.issued = append(inPEM("CERTIFICATE", leaf), c.ca.pem()...)
	c.mu.Unlock()
	// The CA signs after its answer, and does not repeat the URL of the order.
	answer(w, http.StatusOK, map[string]any{"status": "processing", "finalize": c.URL + "/finalize"})
}

// acmeSite is a machine with a TLS listener, and a CA that verifies it.
type acmeSite struct {
	*machine
	ca    *acmeCA
	cache string
}

// newACMESite runs a machine whose certificate comes from a CA. bindingOfMachine is the HMAC key
// that the machine has.
func newACMESite(t *testing.T, bindingOfCA, bindingOfMachine string) *acmeSite {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "eab")
	require.NoError(t, os.WriteFile(keyFile, []byte(base64.URLEncoding.EncodeToString([]byte(bindingOfMachine))+"\n"),
		0o600))
	s := &acmeSite{cache: filepath.Join(dir, "acme")}
	s.ca = newACMECA(t, []byte(bindingOfCA), func(name, keyAuthorization string) error {
		return checkALPN(t.Context(), listener.Addr().String(), name, keyAuthorization)
	})
	s.machine = newMachine(t, time.Now(), func(o *authority.Options) {
		o.CA = s.ca.ca.pem()
		o.ACME = &authority.ACME{Directory: s.ca.URL + "/directory", CABundle: inPEM("CERTIFICATE",
			s.ca.Certificate().Raw), KeyID: "site", KeyFile: keyFile, Names: o.Names, Cache: s.cache,
			Box: newBox(t, dir)}
	})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.NotFoundHandler()}
	go func() { _ = server.Serve(tls.NewListener(listener, s.Config())) }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Certificates.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, server.Close())
	})
	return s
}

// checkALPN verifies a name by the challenge tls-alpn-01 (RFC 8737, section 3).
func checkALPN(ctx context.Context, address, name, keyAuthorization string) error {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: name, NextProtos: []string{"acme-tls/1"},
		InsecureSkipVerify: true}} // the challenge's certificate is self-signed
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if err := conn.Close(); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(keyAuthorization))
	want, err := asn1.Marshal(sum[:])
	if err != nil {
		return err
	}
	for _, extension := range shown.Extensions {
		if extension.Id.String() == "1.3.6.1.5.5.7.1.31" && bytes.Equal(extension.Value, want) &&
			shown.VerifyHostname(name) == nil {
			return nil
		}
	}
	return errors.New("the certificate does not answer the challenge")
}

func TestACME_certificateOfSite(t *testing.T) {
	s := newACMESite(t, "secret", "secret")
	require.Eventually(t, func() bool {
		return s.served("landfall.site.test", "192.0.2.1").Issuer.CommonName == "CA of the site"
	}, time.Minute, 5*time.Millisecond, "%s", s.log)
	got := s.served("landfall.site.test", "192.0.2.1")
	require.NoError(t, s.verify(got, "landfall.site.test", time.Now()), "the images contain the CA")
	require.NoError(t, s.served("", "192.0.2.1").CheckSignatureFrom(own(t, s.machine)),
		"the own authority serves addresses")
	require.Equal(t, 1, s.ca.orders)

	files, err := os.ReadDir(s.cache)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(s.cache, file.Name()))
		require.NoError(t, err)
		require.NotContains(t, string(content), "PRIVATE KEY", file.Name())
	}
}

func TestACME_lateRenewalIsTold(t *testing.T) {
	s := newACMESite(t, "secret", "secret")
	require.Eventually(t, func() bool { return len(s.Validities()) == 2 }, time.Minute, 5*time.Millisecond)
	until := s.Validities()[1].Until
	require.Equal(t, today.AddDate(-1, 0, 0), s.Validities()[1].From.UTC())
	const problem = "has not renewed a certificate"
	for _, c := range []struct {
		before time.Duration
		late   bool
	}{{16 * 24 * time.Hour, false}, {14 * 24 * time.Hour, true}, {13 * 24 * time.Hour, true}} {
		s.clock.Advance(until.Add(-c.before).Sub(s.clock.Now()))
		require.Equal(t, c.late, s.Validities()[1].Late)
		if c.late {
			require.Eventually(t, func() bool { return s.logged(problem) }, time.Minute, 5*time.Millisecond)
		}
	}
	require.Equal(t, 1, strings.Count(s.log.String(), problem), "the log says it once")
}

// TestACME_refusedByCA checks that the own authority serves the names while the CA gives no
// certificate.
func TestACME_refusedByCA(t *testing.T) {
	s := newACMESite(t, "secret", "another secret")
	require.Eventually(t, func() bool { return s.logged("the external account binding is wrong") }, time.Minute,
		5*time.Millisecond)
	require.NoError(t, s.verify(s.served("landfall.site.test", "192.0.2.1"), "landfall.site.test", time.Now()))
}

// TestACME_stopsWhileCAIsSilent checks that a CA which never answers does not delay the end.
func TestACME_stopsWhileCAIsSilent(t *testing.T) {
	asked, release := make(chan struct{}, 9), make(chan struct{})
	ca := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer ca.Close()
	defer close(release)
	m := newMachine(t, today, func(o *authority.Options) {
		o.ACME = &authority.ACME{Directory: ca.URL, CABundle: inPEM("CERTIFICATE", ca.Certificate().Raw),
			Names: o.Names, Cache: t.TempDir(), Box: newBox(t, t.TempDir())}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Certificates.Run(ctx) }()
	<-asked
	cancel()
	require.NoError(t, <-ended)
}
