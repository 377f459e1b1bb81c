package osimage

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// NewTransport returns a transport to the site's web servers. It trusts the CAs of the system and
// the CAs (PEM) that bundle returns at each request. An empty proxy means the proxy in the
// environment variables.
func NewTransport(proxy string, bundle func() []byte) (http.RoundTripper, error) {
	choose := http.ProxyFromEnvironment
	if proxy != "" {
		address, err := url.Parse(proxy)
		if err != nil {
			return nil, err
		}
		choose = http.ProxyURL(address)
	}
	return &transport{bundle: bundle, proxy: choose}, nil
}

// transport replaces its connections when the CA bundle changes.
type transport struct {
	bundle func() []byte
	proxy  func(*http.Request) (*url.URL, error)

	mu      sync.Mutex
	trusted string // the CA bundle of current
	current *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.refreshed().RoundTrip(r)
}

func (t *transport) refreshed() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bundle := t.bundle(); t.current == nil || string(bundle) != t.trusted {
		if t.current != nil {
			t.current.CloseIdleConnections()
		}
		t.trusted, t.current = string(bundle), trusting(bundle, t.proxy)
	}
	return t.current
}

func trusting(bundle []byte, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	pool, err := x509.SystemCertPool()
	if err != nil { // a minimal container has no CA certificates
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(bundle)
	const setUp, header = 10 * time.Second, 30 * time.Second
	return &http.Transport{
		Proxy: proxy, DialContext: (&net.Dialer{Timeout: setUp}).DialContext, TLSHandshakeTimeout: setUp,
		ResponseHeaderTimeout: header,
		TLSClientConfig:       &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		DisableCompression: true,
	}
}
