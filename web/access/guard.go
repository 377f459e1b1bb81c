// Package access finds the identity of each request and applies the access rules of operations
// (see web/operation). It serves the operations on accounts, sessions and tokens.
//
// A client authenticates with one of:
//
//   - the cookie of a session, for browsers
//   - the header Authorization: Bearer, with the secret of a session or a token
//   - the header X-Secret-Key, with the token of an agent
//   - the query parameter api_key, or a signed link, for operations that accept links
//
// Design: docs/design.md#one-identity-for-each-request.
package access

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/jonboulle/clockwork"
	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/access/oidc"
	"landfall/appliance/agents"
	"landfall/appliance/fault"
	"landfall/web/operation"
	"landfall/web/problem"
)

// headerAgent is the header in which agents send their token (facts of the Assisted Installer's
// agentAuth).
const headerAgent = "X-Secret-Key"

// Sessions finds the person of a session. Package people implements it.
type Sessions interface {
	// With isUse, the session's time without a use begins again.
	Session(secret string, isUse bool) (access.Identity, bool)
}

// Tokens finds the program of a token. Package tokens implements it.
type Tokens interface {
	Check(text string) (access.Identity, bool)
}

// Bearers verifies other bearer tokens, such as ID tokens of an OpenID provider.
type Bearers interface {
	// VerifyBearer returns the identity of a token. The error says why the token is refused. It is
	// [oidc.ErrOtherToken] for a token of another kind.
	VerifyBearer(r *http.Request, token string) (access.Identity, error)
}

// Certificates finds the program of a client certificate. Package certificate implements it.
type Certificates interface {
	// Identify returns the program of the certificates that a client has sent, its own first.
	Identify(presented []*x509.Certificate) (access.Identity, error)
}

// Agents identifies agents and knows what they may do. Package agents implements it.
type Agents interface {
	// Identify returns the identity of an agent that may call an operation, or why it may not.
	Identify(ctx context.Context, request agents.Request) (access.Identity, error)
	// VerifyImage returns the infra-env of the token in the URL of an image.
	VerifyImage(token string) (infraEnvID string, err error)
}

// Links checks signed links to operations.
type Links interface {
	// Signed reports whether a link has a signature that is valid and has not expired. It returns
	// an error for an invalid one.
	Signed(path string, query url.Values) (bool, error)
}

// Relations knows the clusters of infra-envs.
type Relations interface {
	// ClusterOf returns the ID of an infra-env's cluster, or "".
	ClusterOf(infraEnvID string) (string, error)
}

// Options configures a [Guard].
type Options struct {
	Sessions Sessions
	Tokens   Tokens
	Bearers  Bearers // nil without an OpenID provider
	// Certificates is nil if programs have no client certificates.
	Certificates Certificates
	Agents       Agents
	Links        Links
	Relations    Relations
	// Open permits every client to call every operation (auth: none).
	Open bool
	// Refused is called for each request that a rule forbids.
	Refused func(c echo.Context, o operation.Operation, status int)
	// LinksOnly is for a listener without TLS that other machines reach. It accepts agents' tokens
	// and links, but no credentials of people and programs.
	LinksOnly bool
	// Clock times the checks of endless responses; nil means the real clock.
	Clock clockwork.Clock
}

// Guard applies the access rules of operations.
type Guard struct{ options Options }

// New returns a guard.
func New(options Options) *Guard {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	return &Guard{options}
}

// Wrap returns the operation's handler behind the check of its access rule. The handler finds the
// identity in the context of its request.
func (g *Guard) Wrap(o operation.Operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		identity, err := g.admit(c, o)
		identity.Address = clientAddress(c.Request())
		if err != nil {
			return g.refuse(c, o, identity, err)
		}
		r := c.Request()
		ctx := access.With(r.Context(), identity)
		if isEndless(o, r) {
			var stop func()
			ctx, stop = g.whileValid(ctx, r, identity)
			defer stop()
		}
		c.SetRequest(r.WithContext(ctx))
		return o.Handler(c)
	}
}

// refuse reports a refused request, and returns the error for the client.
func (g *Guard) refuse(c echo.Context, o operation.Operation, identity access.Identity, err error) error {
	status := problem.From(err).Status
	if status == http.StatusUnauthorized {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Bearer realm="landfall"`)
	}
	if g.options.Refused != nil && status < http.StatusInternalServerError {
		r := c.Request()
		ctx := access.With(r.Context(), identity)
		if _, ok := bearer(r); ok && status == http.StatusUnauthorized {
			ctx = access.WithFailure(ctx, err)
		}
		c.SetRequest(r.WithContext(ctx))
		g.options.Refused(c, o, status)
	}
	return err
}

// admit returns the identity of a request, without its address. It returns an error if the rule of
// the operation forbids the request.
func (g *Guard) admit(c echo.Context, o operation.Operation) (access.Identity, error) {
	r, rule := c.Request(), o.Access
	if g.options.Open {
		return access.Identity{Kind: access.Open, Role: access.Administrator}, nil
	}
	identity, failure := g.identify(r, isUse(o, r))
	switch {
	case rule.Public, rule.CheckedBy != "":
		if failure != nil {
			c.SetRequest(r.WithContext(access.WithFailure(r.Context(), failure)))
			return access.Identity{}, nil
		}
		return identity, nil
	case rule.Agents && agentHeader(r) != nil:
		return g.options.Agents.Identify(r.Context(), agentRequest(c, o.ID))
	case failure != nil:
		return identity, failure
	case identity.Kind == access.Nobody && agentHeader(r) != nil:
		return identity, problem.Forbidden("agents may not call this operation; log in with an account, or use a " +
			"token of a program")
	case identity.Kind == access.Nobody && rule.Links:
		return g.admitLink(c)
	case identity.Kind == access.Nobody:
		return identity, g.unauthenticated()
	}
	return identity, g.admitRole(c, rule, identity)
}

func (g *Guard) unauthenticated() error {
	alternative := ""
	if g.options.Certificates != nil {
		alternative = ", or use a client certificate of an authority in tls.client_ca_file"
	}
	return problem.Unauthorized("this operation requires an account or a token; log in on the page or with "+
		"landfall login, or send a token in the header Authorization: Bearer%s", alternative)
}

// admitRole checks the role and the scope of a person or a program.
func (g *Guard) admitRole(c echo.Context, rule operation.Access, identity access.Identity) error {
	if wanted := rule.RoleFor(c.QueryParam); wanted == access.None || identity.Role < wanted {
		if wanted == access.None {
			return problem.Forbidden("only agents may call this operation")
		}
		return problem.Forbidden("this operation requires the role %s, but %s has the role %s; ask an administrator",
			wanted, identity, identity.Role)
	}
	if !identity.Scope.Limited() || rule.Scope != operation.OfPath {
		return nil
	}
	at := objectsOf(c)
	within := false
	switch {
	case at.Cluster != "":
		within = identity.Scope.Cluster(at.Cluster)
	case at.InfraEnv != "":
		cluster, err := g.options.Relations.ClusterOf(at.InfraEnv)
		if err != nil {
			return err
		}
		within = identity.Scope.InfraEnv(at.InfraEnv, cluster)
	}
	if !within {
		return problem.Forbidden("%s may use only some clusters and infra-envs, and this operation is about others; "+
			"ask an administrator", identity)
	}
	return nil
}

// admitLink checks the token or the signature in the query of a link.
func (g *Guard) admitLink(c echo.Context) (access.Identity, error) {
	r := c.Request()
	if token := r.URL.Query().Get("api_key"); token != "" {
		infraEnvID, err := g.options.Agents.VerifyImage(token)
		if err != nil {
			return access.Identity{}, err
		}
		if at := objectsOf(c); at.InfraEnv != infraEnvID || at.Cluster != "" {
			return access.Identity{},
				problem.NotFound("the token in this URL is for another infra-env; use the URL as " +
					"the API returns it")
		}
		return access.Identity{Kind: access.Link, InfraEnv: infraEnvID}, nil
	}
	signed, err := g.options.Links.Signed(r.URL.Path, r.URL.Query())
	if err != nil {
		return access.Identity{}, err
	}
	if !signed {
		return access.Identity{}, g.unauthenticated()
	}
	return access.Identity{Kind: access.Link}, nil
}

// identify returns the identity of a request's credentials. Without credentials, it is Nobody. A
// token precedes a session, and both precede a client certificate, which browsers and kubeconfigs
// send with every request. With isUse, the request is a use of its session.
func (g *Guard) identify(r *http.Request, isUse bool) (access.Identity, error) {
	if g.options.LinksOnly {
		return access.Identity{}, nil
	}
	if token, ok := bearer(r); ok {
		return g.bearerIdentity(r, token, isUse)
	}
	if secret := sessionCookie(r); secret != "" {
		if identity, ok := g.options.Sessions.Session(secret, isUse); ok {
			return identity, nil
		}
		return access.Identity{}, problem.Unauthorized("the session had ended, so nothing was done; log in " +
			"and try again")
	}
	if g.options.Certificates != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return g.options.Certificates.Identify(r.TLS.PeerCertificates)
	}
	return access.Identity{}, nil
}

func (g *Guard) bearerIdentity(r *http.Request, token string, isUse bool) (access.Identity, error) {
	if identity, ok := g.options.Tokens.Check(token); ok {
		return identity, nil
	}
	if identity, ok := g.options.Sessions.Session(token, isUse); ok {
		return identity, nil
	}
	if g.options.Bearers != nil {
		identity, err := g.options.Bearers.VerifyBearer(r, token)
		if err == nil {
			return identity, nil
		}
		if fault.KindOf(err) == fault.Unavailable { // the token may be valid
			return access.Identity{}, err
		}
		if !errors.Is(err, oidc.ErrOtherToken) {
			return access.Identity{}, problem.Unauthorized("the ID token in the header Authorization was refused: %v",
				err)
		}
	}
	return access.Identity{}, problem.Unauthorized("the token in the header Authorization is unknown, has expired or " +
		"was revoked; log in again with landfall login, or ask an administrator for a new token")
}

// bearer returns the token of the header Authorization. ok is false without such a header.
func bearer(r *http.Request) (token string, ok bool) {
	header := r.Header.Get(echo.HeaderAuthorization)
	scheme, token, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// agentHeader returns the header X-Secret-Key, or nil if the request has none. An agent that booted
// from an image without a token sends an empty header.
func agentHeader(r *http.Request) *string {
	values, ok := r.Header[headerAgent]
	if !ok || len(values) == 0 {
		return nil
	}
	return &values[0]
}

// IsTokenless reports whether a request is from a machine that booted from an image without a
// token, and has no other credentials. Such a machine may know only the appliance's URL from before
// TLS.
func IsTokenless(r *http.Request) bool {
	token := agentHeader(r)
	return token != nil && *token == "" && r.Header.Get(echo.HeaderAuthorization) == "" && sessionCookie(r) == ""
}

// objects are the IDs of the objects in a request's path, or "".
type objects struct{ Cluster, InfraEnv, Host string }

// objectsOf returns the objects in the path of a request. The path of a config image ends in
// {infra_env_id}.iso.
func objectsOf(c echo.Context) objects {
	return objects{Cluster: c.Param("cluster_id"), InfraEnv: strings.TrimSuffix(c.Param("infra_env_id"), ".iso"),
		Host: c.Param("host_id")}
}

func agentRequest(c echo.Context, operationID string) agents.Request {
	at := objectsOf(c)
	return agents.Request{Token: *agentHeader(c.Request()), Operation: operationID, Cluster: at.Cluster,
		InfraEnv: at.InfraEnv, Host: at.Host, Address: clientAddress(c.Request())}
}

// clientAddress returns the address of the client without its port. Headers of proxies are ignored,
// because every client can send them.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// IsAgent reports whether a request has the header of agents.
func IsAgent(r *http.Request) bool { return agentHeader(r) != nil }

// Used returns the secret of the session or the token that a request for an operation uses, or "".
// Requests that browsers send on their own use none.
func Used(o operation.Operation, r *http.Request) string {
	if !isUse(o, r) {
		return ""
	}
	if token, ok := bearer(r); ok {
		return token
	}
	return sessionCookie(r)
}
