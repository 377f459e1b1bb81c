package ams

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall/appliance/roots"
)

// Limits contains the time limits of a call. A zero value means the default.
type Limits struct {
	Dial   time.Duration // connection, 10 s
	TLS    time.Duration // TLS handshake, 10 s
	Header time.Duration // first byte of the answer, 30 s
	Call   time.Duration // whole call, 60 s
}

const (
	defaultConnect = 10 * time.Second
	defaultHeader  = 30 * time.Second
	defaultCall    = 60 * time.Second
	maxAnswer      = 4 << 20 // bytes
)

func (l Limits) orDefaults() Limits {
	for _, limit := range []struct {
		value   *time.Duration
		instead time.Duration
	}{{&l.Dial, defaultConnect}, {&l.TLS, defaultConnect}, {&l.Header, defaultHeader}, {&l.Call, defaultCall}} {
		if *limit.value == 0 {
			*limit.value = limit.instead
		}
	}
	return l
}

// NewTransport returns an HTTP transport for AMS. It uses the given proxy, if any, and trusts the
// extra certificates (PEM) in addition to the system's.
func NewTransport(proxy string, extraCA []byte, limits Limits) (*http.Transport, error) {
	limits = limits.orDefaults()
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: limits.Dial, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   limits.TLS,
		ResponseHeaderTimeout: limits.Header,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if proxy != "" {
		address, err := url.Parse(proxy)
		if err != nil || address.Host == "" {
			return nil,
				errors.New("the proxy for AMS is not a URL with a host; expected a URL such as " +
					"http://proxy.example.com:3128")
		}
		transport.Proxy = http.ProxyURL(address)
	}
	if len(extraCA) > 0 {
		pool, ok := roots.With(extraCA)
		if !ok {
			return nil, errors.New("the CA bundle of AMS has no certificate; expected certificates in PEM")
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return transport, nil
}

// Class is the class of a failed call.
type Class string

// Classes of failed calls.
const (
	Unreachable  Class = "unreachable"  // no connection, or a broken connection
	Intercepted  Class = "intercepted"  // another server answered
	Unauthorized Class = "unauthorized" // AMS rejects the credentials
	Forbidden    Class = "forbidden"
	Missing      Class = "missing"
	Conflict     Class = "conflict"
	Throttled    Class = "throttled"
	Failing      Class = "failing" // a failure of AMS; another attempt may succeed
	Refused      Class = "refused" // AMS rejects the request
	Unsupported  Class = "strange" // AMS does not support the call
	// the credentials of the session were replaced or removed; nothing was sent
	CredentialsChanged Class = "credentials-changed"
)

// CallError is the error of a failed call.
type CallError struct {
	Class       Class
	Op          string // get, search, create, update, delete, account, token
	HTTP        int    // 0 if there was no answer
	Code        string // AMS's error code
	Text        string // a sentence
	OperationID string
	RetryAfter  time.Duration // 0 if AMS sent none
	Quota       bool          // AMS rejects the request because of a quota
	Banned      bool
	Err         error
}

func (e *CallError) Error() string { return e.Text }

func (e *CallError) Unwrap() error { return e.Err }

// Settled reports whether AMS has certainly not executed the request.
func (e *CallError) Settled() bool {
	switch e.Class {
	case Unreachable, Intercepted, Failing:
		return false
	}
	return true
}

// exchange sends a request and reads the answer. It reads at most maxAnswer bytes and follows no
// redirect.
type exchange struct {
	client http.Client
	agent  string
	limit  time.Duration
}

func newExchange(transport http.RoundTripper, agent string, limits Limits) *exchange {
	return &exchange{agent: agent, limit: limits.orDefaults().Call, client: http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type answer struct {
	status int
	header http.Header
	body   []byte
	object bool // the body is a JSON object
}

func (x *exchange) send(ctx context.Context, op, method, address string, header http.Header,
	body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, x.limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create the request to AMS: %w", err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("User-Agent", x.agent)
	request.Header.Set("Accept", "application/json")
	response, err := x.client.Do(request)
	if err != nil {
		return nil, unreachable(op, request.URL.Host, err)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, unreachable(op, request.URL.Host, fmt.Errorf("the answer was cut off: %w", err))
	}
	if len(text) > maxAnswer {
		return nil, &CallError{Class: Unreachable, Op: op,
			Text: fmt.Sprintf("%s sends more than %d bytes in one answer.", request.URL.Host, maxAnswer)}
	}
	got := &answer{status: response.StatusCode, header: response.Header, body: text}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err == nil &&
		strings.HasSuffix(kind, "json") {
		got.object = bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Valid(text)
	}
	return got, nil
}

// unreachable returns the error for a missing answer, with a remedy. The error contains addresses
// and never the content of the request.
func unreachable(op, host string, err error) *CallError {
	failure := &CallError{Class: Unreachable, Op: op, Err: err}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		failure.Text = fmt.Sprintf("The certificate of %s is not trusted (%v); if a proxy of the site presents it, "+
			"add the proxy's CA to ams.ca_bundle.", host, certificate.Err)
		if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
			failure.Text = fmt.Sprintf("The certificate of %s is not valid at this machine's time; check the "+
				"machine's clock.",
				host)
		}
	case errors.As(err, &dns):
		failure.Text = fmt.Sprintf("The name %s cannot be resolved; check the network connection and the "+
			"DNS server.", dns.Name)
	case strings.Contains(err.Error(), "Proxy Authentication Required"):
		failure.Text = "The proxy requires a password; add it to ams.proxy."
	case errors.Is(err, context.DeadlineExceeded):
		failure.Text = fmt.Sprintf("%s did not answer in time.", host)
	default:
		failure.Text = fmt.Sprintf("%s cannot be reached (%v).", host, err)
	}
	return failure
}
