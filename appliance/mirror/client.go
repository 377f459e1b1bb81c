package mirror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// ClientOptions tunes a Client. The zero value is a good start.
type ClientOptions struct {
	// DialTimeout bounds a connection's set-up and, again, its TLS handshake; 0 means 10 seconds.
	DialTimeout time.Duration
	// HeaderTimeout bounds the wait for the beginning of an answer; 0 means 30 seconds. Bodies are
	// bounded by the context alone.
	HeaderTimeout time.Duration
	// Proxy picks a proxy for a request, such as http.ProxyFromEnvironment; nil means that none is
	// used, whatever the environment says: a mirror is on site.
	Proxy func(*http.Request) (*url.URL, error)
	// Backoff spaces the attempts at an endpoint that answers with a passing error (429, 5xx); the
	// zero value means three, after 1 and 3 seconds.
	Backoff remote.Backoff
	// UserAgent names the program to registries.
	UserAgent string
	// DialContext makes connections; nil is the usual way.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client pulls images by the rules. It may be used by many goroutines and shares its connections
// among them.
type Client struct {
	options ClientOptions
	current atomic.Pointer[connections]
}

// connections are rules and how to speak with the registries that they lead to.
type connections struct {
	rules             *Rules
	verified, lenient *http.Transport
}

// NewClient returns a client that trusts the system's CAs and those of the rules; nil rules are
// fine.
func NewClient(rules *Rules, options ClientOptions) *Client {
	if options.DialTimeout == 0 {
		options.DialTimeout = 10 * time.Second
	}
	if options.HeaderTimeout == 0 {
		options.HeaderTimeout = 30 * time.Second
	}
	if options.Backoff.Steps == 0 {
		options.Backoff = remote.Backoff{Duration: time.Second, Factor: 3, Jitter: 0.1, Steps: 3}
	}
	c := &Client{options: options}
	c.Use(rules)
	return c
}

// Use has the client follow other rules from now on, with their CAs. Requests that were made before
// end by the earlier ones.
func (c *Client) Use(rules *Rules) {
	before := c.current.Swap(&connections{
		rules:    rules,
		verified: c.newTransport(&tls.Config{RootCAs: certPool(rules.CABundle())}),
		lenient:  c.newTransport(&tls.Config{InsecureSkipVerify: true}), // for what the rules call insecure
	})
	if before != nil {
		before.close()
	}
}

func (c *connections) close() {
	c.verified.CloseIdleConnections()
	c.lenient.CloseIdleConnections()
}

// certPool is the system's trust and the bundle. Without a trust of the system (a bare container)
// the bundle stands alone.
func certPool(bundle []byte) *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(bundle)
	return pool
}

func (c *Client) newTransport(config *tls.Config) *http.Transport {
	dial := c.options.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.options.DialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return &http.Transport{
		Proxy:                 c.options.Proxy,
		DialContext:           dial,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   c.options.DialTimeout,
		ResponseHeaderTimeout: c.options.HeaderTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
	}
}

// CloseIdleConnections lets go of connections that are kept for later.
func (c *Client) CloseIdleConnections() { c.current.Load().close() }

// Rules returns the rules that the client follows.
func (c *Client) Rules() *Rules { return c.current.Load().rules }

// Get asks the endpoints of ref in order for its manifest or list and returns the first answer and
// who gave it. A nil secret is anonymous; a *PullSecret is the usual one. What is read through the
// descriptor later comes from that endpoint, within ctx.
//
// If none has it, the error is an *ImageError with what each answered; a ref that is no pull spec
// gives a plain error.
func (c *Client) Get(ctx context.Context, ref string, secret authn.Keychain) (*remote.Descriptor, Endpoint, error) {
	return try(ctx, c, ref, secret, func(e Endpoint, options []remote.Option) (*remote.Descriptor, error) {
		return remote.Get(e.Ref, options...)
	})
}

// Image is like Get, and picks the image of a platform out of a list. Its config and layers are
// read when asked for, from the same endpoint, within ctx.
func (c *Client) Image(ctx context.Context, ref string, platform v1.Platform,
	secret authn.Keychain) (v1.Image, Endpoint, error) {
	return try(ctx, c, ref, secret, func(e Endpoint, options []remote.Option) (v1.Image, error) {
		return remote.Image(e.Ref, append(options, remote.WithPlatform(platform))...)
	})
}

// Layer finds a blob, given as repository@digest, at the first endpoint that has it. Its bytes are
// verified against the digest while they are read, within ctx.
func (c *Client) Layer(ctx context.Context, ref string, secret authn.Keychain) (v1.Layer, Endpoint, error) {
	return try(ctx, c, ref, secret, func(e Endpoint, options []remote.Option) (v1.Layer, error) {
		digest, ok := e.Ref.(name.Digest)
		if !ok {
			return nil, fmt.Errorf("the layer %s is not named by its digest", e.Ref)
		}
		layer, err := remote.Layer(digest, options...)
		if err != nil {
			return nil, err
		}
		exists, err := partial.Exists(layer)
		if err == nil && !exists {
			err = errNoBlob
		}
		return layer, err
	})
}

// try asks each endpoint until one has what is wanted.
func try[T any](ctx context.Context, c *Client, image string, secret authn.Keychain,
	get func(Endpoint, []remote.Option) (T, error)) (T, Endpoint, error) {
	var none T
	ref, err := name.ParseReference(image)
	if err != nil {
		return none, Endpoint{},
			fmt.Errorf("%q is no pull spec; it must look like registry/repository@sha256:… or registry/repository:tag",
				image)
	}
	rules := c.Rules()
	endpoints := rules.Endpoints(ref)
	if len(endpoints) == 0 {
		return none, Endpoint{}, &ImageError{Image: image, Forbidden: rules.forbidden(ref)}
	}
	failure := &ImageError{Image: image}
	for _, e := range endpoints {
		got, err := get(e, c.remoteOptions(ctx, e, secret))
		if err == nil {
			return got, e, nil
		}
		failure.Attempts = append(failure.Attempts, newAttempt(e, err, hasCredentials(secret, e.Ref.Context())))
		if ctx.Err() != nil {
			break
		}
	}
	return none, Endpoint{}, failure
}

func (c *Client) remoteOptions(ctx context.Context, e Endpoint, secret authn.Keychain) []remote.Option {
	options := []remote.Option{
		remote.WithContext(ctx),
		remote.WithTransport(c.Transport(e)),
		remote.WithRetryBackoff(c.options.Backoff),
		remote.WithRetryPredicate(worthRetrying),
	}
	if c.options.UserAgent != "" {
		options = append(options, remote.WithUserAgent(c.options.UserAgent))
	}
	if secret != nil {
		options = append(options, remote.WithAuthFromKeychain(secret))
	} else {
		options = append(options, remote.WithAuth(authn.Anonymous))
	}
	return options
}

// Transport returns how to speak with an endpoint: with the site's trust, and with plain HTTP only
// where its rule allows that. It does not authenticate.
func (c *Client) Transport(e Endpoint) http.RoundTripper {
	now := c.current.Load()
	if e.Insecure {
		return &schemeGuard{next: now.lenient, plain: true}
	}
	return &schemeGuard{next: now.verified}
}

// schemeGuard refuses plain HTTP to other machines unless the endpoint is insecure by its rule. The
// registry library would fall back to it for private addresses, where podman and CRI-O don't, and
// would send the credentials along.
type schemeGuard struct {
	next  http.RoundTripper
	plain bool
}

func (g *schemeGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" && !g.plain && !isLoopback(r.URL.Hostname()) {
		return nil, errPlainHTTP
	}
	return g.next.RoundTrip(r)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func hasCredentials(secret authn.Keychain, repository name.Repository) bool {
	if secret == nil {
		return false
	}
	auth, err := secret.Resolve(repository)
	return err == nil && auth != authn.Anonymous
}
