package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"landfall/appliance/fault"
	"landfall/appliance/sentence"
)

// maxBody limits the bodies of the provider's answers.
const maxBody = 1 << 20

// newClient returns the client for the provider. It follows no redirects, because the provider's
// description names all its URLs.
func newClient(authorities *x509.CertPool) *http.Client {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		DialContext:           (&net.Dialer{Timeout: requestTime}).DialContext,
		TLSHandshakeTimeout:   requestTime,
		ResponseHeaderTimeout: requestTime,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   2,
		ForceAttemptHTTP2:     true,
	}
	return &http.Client{
		Transport:     limited{transport},
		Timeout:       requestTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// limited is a transport that limits the bodies of answers.
type limited struct{ *http.Transport }

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &limitedBody{response.Body, maxBody}
	return response, nil
}

type limitedBody struct {
	io.ReadCloser
	left int
}

var errTooLong = fmt.Errorf("the answer has more than %d bytes", maxBody)

func (b *limitedBody) Read(to []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(to[:min(len(to), b.left)])
	b.left -= n
	return n, err
}

// context returns a context with the client and the time limit of one login.
func (p *Provider) context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(oidc.ClientContext(ctx, p.client), answerTime)
}

// discover reads the provider's description, unless it was read before. While the provider fails,
// it asks only every retryAfter, so that clients cannot make the appliance flood the provider.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.discovered != nil {
		return p.discovered, nil
	}
	if p.failed != nil && p.options.Clock.Since(p.failedAt) < retryAfter {
		return nil, p.failed
	}
	// One caller's request serves all callers, so it must not end with this caller's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	found, err := p.describe(ctx)
	if err != nil {
		p.failed, p.failedAt = err, p.options.Clock.Now()
		return nil, err
	}
	p.discovered, p.failed = found, nil
	return found, nil
}

// description is what this package needs of a provider's description beside what package oidc reads
// (OpenID Connect Discovery 1.0, section 3).
type description struct {
	AuthURL     string   `json:"authorization_endpoint"`
	TokenURL    string   `json:"token_endpoint"`
	KeysURL     string   `json:"jwks_uri"`
	InfoURL     string   `json:"userinfo_endpoint"`
	Methods     []string `json:"token_endpoint_auth_methods_supported"`
	Algorithms  []string `json:"id_token_signing_alg_values_supported"`
	NamesIssuer bool     `json:"authorization_response_iss_parameter_supported"`
}

func (p *Provider) describe(ctx context.Context) (*discovered, error) {
	provider, err := oidc.NewProvider(ctx, p.options.Issuer)
	if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return nil, p.wrongAnswer(fmt.Sprintf("it calls itself %q; if that is right, write it into oidc.issuer",
			mismatch.Discovered))
	}
	if err != nil {
		return nil, p.unavailable(err)
	}
	var about description
	if err := provider.Claims(&about); err != nil {
		return nil, p.wrongAnswer("its description is not as OpenID Connect Discovery defines it")
	}
	for name, text := range map[string]string{"authorization_endpoint": about.AuthURL,
		"token_endpoint": about.TokenURL, "jwks_uri": about.KeysURL} {
		if endpoint, err := url.Parse(text); err != nil || endpoint.Host == "" || !secure(endpoint) {
			return nil, p.wrongAnswer(fmt.Sprintf("its %s is %q, not an https:// URL", name, text))
		}
	}
	if endpoint, err := url.Parse(about.InfoURL); about.InfoURL != "" && (err != nil || !secure(endpoint)) {
		return nil, p.wrongAnswer(fmt.Sprintf("its userinfo_endpoint is %q, not an https:// URL", about.InfoURL))
	}
	algorithms := slices.DeleteFunc(signatures(), func(a string) bool { return !slices.Contains(about.Algorithms, a) })
	if len(algorithms) == 0 {
		algorithms = []string{oidc.RS256} // mandatory for providers
	}
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default of OpenID Connect Discovery
	if p.options.ClientSecretFile == "" || len(about.Methods) > 0 &&
		!slices.Contains(about.Methods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &discovered{
		provider: provider,
		oauth:    oauth2.Config{ClientID: p.options.ClientID, Endpoint: endpoint, Scopes: p.options.requested()},
		keys:     &keySet{client: p.client, url: about.KeysURL, algorithms: algorithms, clock: p.options.Clock},
		issued:   about.NamesIssuer,
	}, nil
}

// signatures are the accepted algorithms of signatures. Those with a shared secret and "none" are
// not among them.
func signatures() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384,
		oidc.PS512, oidc.EdDSA}
}

// unavailable returns the error for a provider that does not answer properly.
func (p *Provider) unavailable(err error) error {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return fault.New(fault.Unavailable,
			"the certificate of the identity provider %s is valid from %s to %s, and the "+
				"appliance's clock says %s; correct the clock or renew the certificate, or log in with a local "+
				"account meanwhile",
			p.options.Issuer, stamp(invalid.Cert.NotBefore), stamp(invalid.Cert.NotAfter), stamp(time.Now()))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fault.New(fault.Unavailable,
			"the certificate of the identity provider %s is of an unknown authority; write "+
				"the authority's certificate into the file of oidc.ca_bundle", p.options.Issuer)
	}
	reason := sentence.Shorten(sentence.Clause(err.Error()), longestReason)
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		reason = fmt.Sprintf("no answer within %s", requestTime)
	}
	return &fault.Error{Kind: fault.Unavailable, Err: err,
		Reason: fmt.Sprintf("the identity provider %s cannot be used at "+
			"the moment (%s); try again later, or log in with a local account", p.options.Issuer, reason)}
}

// wrongAnswer returns the error for an answer of the provider that the appliance must not use.
func (p *Provider) wrongAnswer(problem string) error {
	return fault.New(fault.Unavailable, "the identity provider %s answered wrongly: %s", p.options.Issuer, problem)
}

// exchangeError returns the error for a code that the provider did not exchange.
func (p *Provider) exchangeError(err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return p.unavailable(err)
	}
	switch answer.ErrorCode {
	case "invalid_grant":
		return fault.New(fault.Forbidden, "the identity provider's code is no longer valid; begin the login again")
	case "invalid_client", "unauthorized_client":
		return fault.New(fault.Unavailable, "the identity provider %s does not accept the appliance (%s); correct "+
			"oidc.client_id and the content of oidc.client_secret_file", p.options.Issuer, answer.ErrorCode)
	case "":
		return p.unavailable(fmt.Errorf("status %d for the code", answer.Response.StatusCode))
	}
	return rejected(answer.ErrorCode, answer.ErrorDescription)
}
