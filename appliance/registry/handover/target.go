package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"landfall/appliance/mirror"
)

// place is the site's registry: host:port and the path below which all repositories lie.
type place struct {
	host, prefix string
	parsed       name.Registry
}

func parsePlace(to string) (place, error) {
	host, prefix, _ := strings.Cut(to, "/")
	if host == "" || strings.Contains(to, "://") {
		return place{}, errors.New("it has a scheme or no host")
	}
	parsed, err := name.NewRegistry(host, name.StrictValidation)
	if err != nil {
		return place{}, errors.New("its host is invalid")
	}
	if prefix != "" {
		if _, err := name.NewRepository(to, name.StrictValidation); err != nil {
			return place{}, errors.New("its path is invalid")
		}
	}
	return place{host, prefix, parsed}, nil
}

func (p place) port() string {
	_, port := splitHost(p.host)
	return port
}

// repository returns the name of a repository there.
func (p place) repository(of string) string { return strings.TrimPrefix(p.prefix+"/"+of, "/") }

// refusal is an error that does not go away by itself.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// target is the connection to the site's registry.
type target struct {
	place
	client *mirror.Client
	secret authn.Keychain // may push

	mu           sync.Mutex
	repositories map[string]*http.Client // authenticated, by the scope of its token
}

// newTarget connects to a registry. dial leads the connections to another address; nil to that of
// the name.
func newTarget(at place, ca []byte, secret string, options mirror.ClientOptions) (*target, error) {
	t := &target{place: at, repositories: map[string]*http.Client{}, secret: authn.NewMultiKeychain()}
	if secret != "" {
		parsed, err := mirror.ParsePullSecret(secret)
		if err != nil {
			return nil, err
		}
		t.secret = parsed
	}
	// A registry may need minutes to assemble a large blob.
	options.HeaderTimeout = finishTimeout
	t.client = mirror.NewClient((*mirror.Rules)(nil).Trusting(ca), options)
	return t, nil
}

func (t *target) close() { t.client.CloseIdleConnections() }

// repositoryOf returns a repository as the library names it.
func (t *target) repositoryOf(repository string) (name.Repository, error) {
	return name.NewRepository(t.host+"/"+repository, name.StrictValidation)
}

// connect returns a client that may push to a repository, and mount blobs of another one; "" for
// none.
func (t *target) connect(ctx context.Context, repository, from string) (*http.Client, error) {
	key := repository + " " + from
	t.mu.Lock()
	defer t.mu.Unlock()
	if client := t.repositories[key]; client != nil {
		return client, nil
	}
	of, err := t.repositoryOf(repository)
	if err != nil {
		return nil, refused("the repository %s has no valid name for %s", repository, t.host)
	}
	scopes := []string{of.Scope(transport.PushScope)}
	if from != "" {
		other, err := t.repositoryOf(from)
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, other.Scope(transport.PullScope))
	}
	auth, err := t.secret.Resolve(of)
	if err != nil {
		return nil, err
	}
	base := t.client.Transport(mirror.Endpoint{Ref: of.Tag("latest")})
	through, err := transport.NewWithContext(ctx, of.Registry, auth, base, scopes)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: through}
	t.repositories[key] = client
	return client, nil
}

// answerLimit is the most of an answer that is read, in bytes.
const answerLimit = 8 << 20

// answer is an answer whose body was read.
type answer struct {
	*http.Response
	body []byte
}

// call is a request to the registry.
type call struct {
	method, repository string
	address            string // a path below the repository, or an absolute URL
	query              url.Values
	header             http.Header
	body               io.Reader
	size               int64
	from               string // repository of a mount
	want               []int
}

// do sends a request. A status that is not wanted is a *transport.Error.
func (t *target) do(ctx context.Context, c call) (answer, error) {
	client, err := t.connect(ctx, c.repository, c.from)
	if err != nil {
		return answer{}, err
	}
	address := c.address
	if !strings.Contains(address, "://") {
		address = (&url.URL{Scheme: t.parsed.Scheme(), Host: t.parsed.RegistryStr(),
			Path: "/v2/" + c.repository + "/" + c.address}).String()
	}
	if len(c.query) > 0 {
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		address += separator + c.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, c.method, address, c.body)
	if err != nil {
		return answer{}, err
	}
	if c.body != nil {
		request.ContentLength = c.size
	}
	for key, values := range c.header {
		request.Header[key] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	if err := transport.CheckError(response, c.want...); err != nil {
		return answer{Response: response}, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	return answer{response, body}, err
}

// statusOf returns the HTTP status of an error, or 0.
func statusOf(err error) int {
	if status, ok := errors.AsType[*transport.Error](err); ok {
		return status.StatusCode
	}
	return 0
}

// codeOf reports whether an error has a code of the distribution specification.
func codeOf(err error, codes ...transport.ErrorCode) bool {
	status, ok := errors.AsType[*transport.Error](err)
	if !ok {
		return false
	}
	for _, d := range status.Errors {
		for _, code := range codes {
			if d.Code == code {
				return true
			}
		}
	}
	return false
}

// explain turns an error of the registry into a refusal if it does not go away by itself, and into
// a sentence in any case.
func (t *target) explain(err error, repository string) error {
	var own *refusal
	if err == nil || errors.As(err, &own) || errors.Is(err, context.Canceled) {
		return err
	}
	of, nameErr := t.repositoryOf(repository)
	if nameErr != nil {
		return err
	}
	failed := mirror.Failed(of.Name(), mirror.Endpoint{Ref: of.Tag("latest")}, err, t.secret)
	attempt := failed.Attempts[0]
	switch attempt.Reason {
	case mirror.ReasonUnauthorized:
		return refused("%s does not let these credentials push (%s); give a pull secret with an entry that may push "+
			"to %s", t.host, attempt.Answer, of.Name())
	case mirror.ReasonUnknownAuthority:
		return refused("%s %s; give the CA that signed its certificate with --registry-ca", t.host, attempt.Answer)
	case mirror.ReasonCertificate, mirror.ReasonPlainHTTP, mirror.ReasonDenied:
		text := t.host + " " + attempt.Answer
		if advice := failed.Advice(); advice != "" {
			text += "; " + advice
		}
		return refused("%s", text)
	case mirror.ReasonUnreachable, mirror.ReasonTimeout:
		return fmt.Errorf("%s %s; check that it is running and reachable from this machine", t.host, attempt.Answer)
	}
	return fmt.Errorf("%s: %w", of.Name(), err)
}

// dialTo returns client options whose connections to a name lead to another address.
func dialTo(options mirror.ClientOptions, name, address string) mirror.ClientOptions {
	dial := options.Egress.Dialer(net.Dialer{Timeout: dialTimeout})
	host, port := splitHost(name)
	from := net.JoinHostPort(host, port)
	toHost, toPort := splitHost(address)
	to := net.JoinHostPort(toHost, toPort)
	options.Local = nil
	options.DialContext = func(ctx context.Context, network, wanted string) (net.Conn, error) {
		if wanted == from {
			wanted = to
		}
		return dial(ctx, network, wanted)
	}
	return options
}
