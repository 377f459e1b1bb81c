package mirror

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/egress"
	"landfall/appliance/roots"
	"landfall/appliance/stall"
	"landfall/appliance/tracing"
)

// ClientOptions configures a Client. The zero value has usable defaults.
type ClientOptions struct {
	// DialTimeout limits the connection setup and, separately, the TLS handshake; 0 means 10
	// seconds.
	DialTimeout time.Duration
	// HeaderTimeout limits the wait for response headers; 0 means 30 seconds. A body may take as
	// long as its bytes arrive: see stallLimit.
	HeaderTimeout time.Duration
	// Clock measures how long bodies stall; nil means the real clock.
	Clock clockwork.Clock
	// Proxy selects a proxy for a request, such as http.ProxyFromEnvironment. Nil uses no proxy
	// even if the environment defines one, because mirrors are on site.
	Proxy func(*http.Request) (*url.URL, error)
	// Backoff sets the waits between attempts at an endpoint with a temporary error (429, 5xx). The
	// zero value means three attempts with waits of 1 and 3 seconds.
	Backoff remote.Backoff
	// UserAgent is the user agent in requests to registries.
	UserAgent string
	// DialContext makes connections; nil uses the default dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Local returns the address of the listener of the appliance's own registry for its name
	// (host:port), and "" for other names. The appliance needs no name server for it, and Egress
	// does not apply. nil knows no registry.
	Local func(name string) string
	// Egress decides which addresses the default dialer may reach; nil allows all.
	Egress *egress.Rules
}

// Client pulls images by the rules. It is safe for concurrent use and shares its connections.
type Client struct {
	options ClientOptions
	current atomic.Pointer[connections]
}

// connections holds rules and the transports for their registries. The first pull makes a
// transport: the certificates of the system would take a start 20 ms.
type connections struct {
	rules             *Rules
	verified, lenient func() *http.Transport
	used              atomic.Bool // a transport was made
}

// NewClient returns a client that trusts the system's CAs and those of the rules. The rules may be
// nil.
func NewClient(rules *Rules, options ClientOptions) *Client {
	if options.DialTimeout == 0 {
		options.DialTimeout = 10 * time.Second
	}
	if options.HeaderTimeout == 0 {
		options.HeaderTimeout = 30 * time.Second
	}
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Backoff.Steps == 0 {
		options.Backoff = remote.Backoff{Duration: time.Second, Factor: 3, Jitter: 0.1, Steps: 3}
	}
	c := &Client{options: options}
	c.Use(rules)
	return c
}

// Use replaces the rules and their CAs. Requests that have started use the previous rules.
func (c *Client) Use(rules *Rules) {
	before := c.current.Swap(&connections{
		rules: rules,
		verified: sync.OnceValue(func() *http.Transport {
			trusted, _ := roots.With(rules.CABundle()) // it may be empty
			return c.newTransport(&tls.Config{RootCAs: trusted})
		}),
		// for endpoints that the rules mark as insecure
		lenient: sync.OnceValue(func() *http.Transport {
			return c.newTransport(&tls.Config{InsecureSkipVerify: true})
		}),
	})
	if before != nil {
		before.close()
	}
}

func (c *connections) close() {
	if !c.used.Load() {
		return
	}
	c.verified().CloseIdleConnections()
	c.lenient().CloseIdleConnections()
}

func (c *Client) newTransport(config *tls.Config) *http.Transport {
	dial := c.options.DialContext
	if dial == nil {
		dial = c.options.Egress.Dialer(net.Dialer{Timeout: c.options.DialTimeout, KeepAlive: 30 * time.Second})
	}
	return &http.Transport{
		Proxy:                 c.options.Proxy,
		DialContext:           c.options.dialer(dial),
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   c.options.DialTimeout,
		ResponseHeaderTimeout: c.options.HeaderTimeout,
		// only for requests that ask for it, such as trial uploads
		ExpectContinueTimeout: 2 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
	}
}

// dialer returns a dialer that connects the names of Local with their listeners.
func (o ClientOptions) dialer(others func(ctx context.Context, network, address string) (net.Conn, error)) func(
	ctx context.Context, network, address string) (net.Conn, error) {
	if o.Local == nil {
		return others
	}
	own := net.Dialer{Timeout: o.DialTimeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if listener := o.Local(address); listener != "" {
			return own.DialContext(ctx, network, listener)
		}
		return others(ctx, network, address)
	}
}

// CloseIdleConnections closes idle connections.
func (c *Client) CloseIdleConnections() { c.current.Load().close() }

// Rules returns the current rules of the client.
func (c *Client) Rules() *Rules { return c.current.Load().rules }

// Get requests the manifest or index of ref from its endpoints in order. It returns the first
// answer and its endpoint. A nil secret is anonymous; usually it is a *PullSecret. Later reads
// through the descriptor use the same endpoint and ctx.
//
// If no endpoint has it, the error is an *ImageError with all answers. For an invalid ref it is a
// plain error.
func (c *Client) Get(ctx context.Context, ref string, secret authn.Keychain) (*remote.Descriptor, Endpoint, error) {
	return try(ctx, c, ref, secret, func(e Endpoint, options []remote.Option) (*remote.Descriptor, error) {
		return remote.Get(e.Ref, options...)
	})
}

// Image is like Get and selects the image of a platform from an index. The config and the layers
// are read on demand from the same endpoint within ctx.
func (c *Client) Image(ctx context.Context, ref string, platform v1.Platform,
	secret authn.Keychain) (v1.Image, Endpoint, error) {
	return try(ctx, c, ref, secret, func(e Endpoint, options []remote.Option) (v1.Image, error) {
		return remote.Image(e.Ref, append(options, remote.WithPlatform(platform))...)
	})
}

// Layer returns a blob from the first endpoint that has it. ref has the form repository@digest.
// Reads within ctx verify the bytes against the digest.
func (c *Client) Layer(ctx context.Context, ref string, secret authn.Keychain) (v1.Layer, Endpoint, error) {
	return try(ctx, c, ref, secret, func(e Endpoint, options []remote.Option) (v1.Layer, error) {
		digest, ok := e.Ref.(name.Digest)
		if !ok {
			return nil, fmt.Errorf("the layer %s is not referenced by its digest", e.Ref)
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

// try calls get for each endpoint of the image until a call succeeds. It returns the result and the
// endpoint of that call.
func try[T any](ctx context.Context, c *Client, image string, secret authn.Keychain,
	get func(Endpoint, []remote.Option) (T, error)) (T, Endpoint, error) {
	var none T
	ref, err := name.ParseReference(image)
	if err != nil {
		return none, Endpoint{},
			fmt.Errorf("%q is not a pull spec; it must look like registry/repository@sha256:… or "+
				"registry/repository:tag",
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

// Transport returns the transport to an endpoint. It trusts the site's CAs and allows plain HTTP
// only if the rule of the endpoint does. It does not authenticate.
func (c *Client) Transport(e Endpoint) http.RoundTripper {
	now := c.current.Load()
	now.used.Store(true)
	if e.Insecure {
		return &schemeGuard{next: c.limited(now.lenient()), plain: true}
	}
	return &schemeGuard{next: c.limited(now.verified())}
}

// stallLimit is how long a registry may send no byte of a body.
const stallLimit = time.Minute

// limited returns a transport whose bodies fail with a *stall.Error if the registry stops in the
// middle of one.
func (c *Client) limited(next http.RoundTripper) http.RoundTripper {
	return &stallGuard{tracing.Transport(next), c.options.Clock}
}

type stallGuard struct {
	next  http.RoundTripper
	clock clockwork.Clock
}

// RoundTrip implements http.RoundTripper.
func (g *stallGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	response, err := g.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	stalled := &stall.Error{From: "the registry", Limit: stallLimit}
	response.Body = stall.NewBody(ctx, cancel, response.Body, stalled, g.clock)
	return response, nil
}

// schemeGuard rejects plain HTTP to other machines unless the rule of the endpoint is insecure.
// Without it, the registry library would use HTTP for private addresses and send the credentials
// unencrypted; podman and CRI-O do not.
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
