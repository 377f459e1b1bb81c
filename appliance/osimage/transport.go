package osimage

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"landfall/appliance/egress"
	"landfall/appliance/roots"
)

const (
	setUp         = 10 * time.Second // for a connection and for its TLS handshake
	headerTimeout = 30 * time.Second
)

// NewTransport returns a transport to the site's web servers. It trusts the CAs of the system and
// the CAs (PEM) that bundle returns at each request. An empty proxy means the proxy in the
// environment variables. The rules decide which servers may be reached.
func NewTransport(proxy string, bundle func() []byte, rules *egress.Rules) (http.RoundTripper, error) {
	choose := http.ProxyFromEnvironment
	if proxy != "" {
		address, err := url.Parse(proxy)
		if err != nil {
			return nil, err
		}
		choose = http.ProxyURL(address)
	}
	return &transport{bundle: bundle, proxy: choose, rules: rules}, nil
}

// transport replaces its connections when the CA bundle changes.
type transport struct {
	bundle func() []byte
	proxy  func(*http.Request) (*url.URL, error)
	rules  *egress.Rules

	mu      sync.Mutex
	trusted string // the CA bundle of current
	current http.RoundTripper
	idle    func() // closes the idle connections of current
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.refreshed().RoundTrip(r)
}

func (t *transport) refreshed() http.RoundTripper {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bundle := t.bundle(); t.current == nil || string(bundle) != t.trusted {
		if t.current != nil {
			t.idle()
		}
		inner := trusting(bundle, t.proxy)
		t.trusted, t.idle = string(bundle), inner.CloseIdleConnections
		t.current = t.rules.Transport(inner, net.Dialer{Timeout: setUp})
	}
	return t.current
}

func trusting(bundle []byte, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	pool, _ := roots.With(bundle) // the rules may have no CA
	return &http.Transport{
		Proxy: proxy, TLSHandshakeTimeout: setUp, ResponseHeaderTimeout: headerTimeout,
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		DisableCompression: true,
	}
}
