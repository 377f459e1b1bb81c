package access

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/limit"
	"landfall/appliance/access/oidc"
	"landfall/appliance/access/passkey"
	"landfall/appliance/access/people"
	"landfall/appliance/access/tokens"
	"landfall/appliance/fault"
	"landfall/appliance/fleet/forwarding"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

// BasePath is the prefix of the paths of the operations.
const BasePath = "/api/landfall/v1"

// Service serves the operations on accounts, sessions and tokens.
type Service struct {
	People  *people.People
	Tokens  *tokens.Tokens
	Limiter *limit.Limiter
	// OIDC and Directory are nil if the configuration names no such provider.
	OIDC      *oidc.Provider
	Directory Directory
	Passkeys  *passkey.Passkeys
	Objects   Objects
	// Total is the longest time of a session, for its cookie.
	Total time.Duration
	// Open is set if clients do not authenticate (auth: none).
	Open bool
	// Member is the name of this machine, which leads a fleet, or "" for a single machine.
	Member string
	// Fingerprint is that of the appliance's certificate authority, or "" without TLS.
	Fingerprint string
	// Authority is the certificate (PEM) of that authority, or nil.
	Authority []byte
}

// Operations returns the operations.
func (s *Service) Operations() []operation.Operation {
	all := s.loginOperations()
	all = append(all, s.providerOperations()...)
	all = append(all, s.passkeyOperations()...)
	all = append(all, s.userOperations()...)
	all = append(all, s.sessionOperations()...)
	return append(all, s.tokenOperations()...)
}

// Directory verifies passwords of people whose accounts are in a directory. Package ldap implements
// it.
type Directory interface {
	LogIn(ctx context.Context, name, password string) (external.Person, error)
}

// Methods of a login, for the page.
type loginMethods struct {
	// Auth is local or none.
	Auth string `json:"auth"`
	// Setup is set while there is no account: the setup code makes the first administrator.
	Setup bool `json:"setup"`
	// OIDC is set if people can log in with an OpenID Connect provider.
	OIDC bool `json:"oidc,omitempty"`
	// Fingerprint is that of the certificate authority.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// LoginRequest is the body of a login.
type LoginRequest struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	// Kind is "cookie" for browsers, or "token" for the command line.
	Kind string `json:"kind,omitempty"`
}

// SetupRequest is the body of a login with the setup code.
type SetupRequest struct {
	Code string `json:"code"`
	LoginRequest
}

// Login is the response to a login.
type Login struct {
	Whoami
	// Token is the session's secret if the client asked for a token. A browser receives a cookie.
	Token     string    `json:"token,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Service) loginOperations() []operation.Operation {
	return []operation.Operation{
		methodsOperation(s.methods),
		{ID: "logIn", Method: http.MethodPost, Path: BasePath + "/login", Access: operation.Public(), Handler: s.logIn,
			Summary: "Log in with a name and a password",
			Body:    LoginRequest{}, Status: 200, Answer: Login{}, Errors: []int{400, 401, 429}},
		{ID: "setUp", Method: http.MethodPost, Path: BasePath + "/setup", Access: operation.Public(), Handler: s.setUp,
			Summary: "Create the first administrator with the setup code, and log in",
			Body:    SetupRequest{}, Status: 200, Answer: Login{}, Errors: []int{400, 401, 404, 409, 429}},
		{ID: "logOut", Method: http.MethodPost, Path: BasePath + "/logout",
			Access: operation.Public().Admitting(), Handler: s.logOut,
			Summary: "End the session of the request", Status: 204, NoContent: true},
		{ID: "getAuthority", Method: http.MethodGet, Path: "/ca.crt", Head: true, Access: operation.Public(),
			Handler: s.authority,
			Summary: "Download the certificate of the appliance's authority; compare its fingerprint " +
				"before you trust it",
			Status: 200, Answer: operation.File{}, Errors: []int{404}},
		whoamiOperation(),
	}
}

func methodsOperation(handler echo.HandlerFunc) operation.Operation {
	return operation.Operation{ID: "getLoginMethods", Method: http.MethodGet, Path: BasePath + "/login",
		Access: operation.Public(), Handler: handler, WithoutLeader: true,
		Summary: "Show how people log in", Status: 200, Answer: loginMethods{}}
}

func whoamiOperation() operation.Operation {
	return operation.Operation{ID: "whoami", Method: http.MethodGet, Path: BasePath + "/whoami",
		Access: operation.For(access.Viewer).OfAll(), FromCopy: true,
		Handler: func(c echo.Context) error {
			return answer(c, http.StatusOK, whoamiOf(access.From(c.Request().Context())), nil)
		},
		Summary: "Show the caller's name, role and scope", Status: 200, Answer: Whoami{}, Errors: []int{401}}
}

// FollowerOperations returns the operations by which the page on a follower of a fleet learns who
// uses it. Without a leader nobody can log in.
func FollowerOperations(open bool) []operation.Operation {
	methods := loginMethods{Auth: "local"}
	if open {
		methods.Auth = "none"
	}
	return []operation.Operation{
		methodsOperation(func(c echo.Context) error { return answer(c, http.StatusOK, methods, nil) }),
		whoamiOperation(),
	}
}

func (s *Service) methods(c echo.Context) error {
	methods := loginMethods{Auth: "local", Setup: s.People.SetupPending(), OIDC: s.OIDC != nil,
		Fingerprint: s.Fingerprint}
	if s.Open {
		methods.Auth, methods.Setup = "none", false
	}
	return answer(c, http.StatusOK, methods, nil)
}

func (s *Service) authority(c echo.Context) error {
	if len(s.Authority) == 0 {
		return problem.NotFound("this appliance has no certificate authority of its own, because TLS is disabled")
	}
	return c.Blob(http.StatusOK, "application/x-pem-file", s.Authority)
}

func (s *Service) logIn(c echo.Context) error {
	var body LoginRequest
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	keys := []string{limit.Account(body.Name)}
	return s.attempt(c, body.Kind, keys, func(ctx context.Context) (people.Account, error) {
		account, err := s.People.LogIn(ctx, body.Name, body.Password)
		if errors.Is(err, people.ErrCredentials) && s.Directory != nil {
			return s.logInDirectory(ctx, body.Name, body.Password)
		}
		return account, err
	})
}

func (s *Service) setUp(c echo.Context) error {
	var body SetupRequest
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	return s.attempt(c, body.Kind, nil, func(ctx context.Context) (people.Account, error) {
		account, err := s.People.SetUp(ctx, body.Code, body.Name, body.Password)
		if errors.Is(err, people.ErrNoCode) && forwarding.Of(ctx).Member != "" {
			return account, problem.Conflict("the member %s leads the fleet, and there is no setup code in its data "+
				"directory: run landfall user reset on the machine of %[1]s", s.Member)
		}
		return account, err
	})
}

// attempt logs a person in and starts a session.
func (s *Service) attempt(c echo.Context, kind string, keys []string,
	logIn func(context.Context) (people.Account, error)) error {
	if kind != "" && kind != "cookie" && kind != "token" {
		return problem.BadRequest("kind is %q; expected cookie or token", kind)
	}
	ctx := c.Request().Context()
	var account people.Account
	err := s.limited(c, keys, func() (err error) {
		account, err = logIn(ctx)
		return err
	})
	switch {
	case isWrong(err):
		return problem.Unauthorized("%s", fault.Reason(err))
	case err != nil:
		return err
	}
	if len(account.Passkeys) > 0 && c.Path() == BasePath+"/login" {
		return s.beginPasskeyLogin(c, kind, account)
	}
	return s.start(c, kind, account)
}

// limited calls a function that checks a password or a code, within the limits of attempts for the
// keys and the client's address.
func (s *Service) limited(c echo.Context, keys []string, check func() error) error {
	keys = append(keys, limit.Address(clientAddress(c.Request())))
	if wait, ok := s.Limiter.Allow(keys...); !ok {
		return tooMany(c, wait)
	}
	err := check()
	switch {
	case err == nil:
		s.Limiter.Succeeded(keys...)
	case isWrong(err):
		s.Limiter.Failed(keys...)
	default:
		s.Limiter.Withdrawn(keys...)
	}
	return err
}

// isWrong reports whether a password or a code is wrong.
func isWrong(err error) bool {
	return errors.Is(err, people.ErrCredentials) || errors.Is(err, people.ErrCode)
}

func tooMany(c echo.Context, wait time.Duration) error {
	seconds := int(math.Ceil(wait.Seconds()))
	c.Response().Header().Set("Retry-After", strconv.Itoa(seconds))
	unit := "seconds"
	if seconds == 1 {
		unit = "second"
	}
	return problem.New(http.StatusTooManyRequests, "there were too many failed attempts; try again in %d %s", seconds,
		unit)
}

// start starts a session and sends its secret, as a cookie or as a token.
func (s *Service) start(c echo.Context, kind string, account people.Account) error {
	secret, session, err := s.session(c, kind, account)
	if err != nil {
		return err
	}
	reply := Login{ExpiresAt: session.EndsAt, Whoami: Whoami{Kind: access.Person, Name: account.Name,
		Role: account.Role, Clusters: account.Scope.Clusters, InfraEnvs: account.Scope.InfraEnvs}}
	if kind == "token" {
		reply.Token = secret
	}
	return answer(c, http.StatusOK, reply, nil)
}

// session starts a session, and sets its cookie unless the kind is "token". It makes the person the
// identity of the request, so that the audit trail names the person.
func (s *Service) session(c echo.Context, kind string, account people.Account) (string, people.Session, error) {
	r := c.Request()
	secret, session, err := s.People.StartSession(r.Context(), account, people.Client{
		Address: clientAddress(r), UserAgent: r.UserAgent(),
	})
	if err != nil {
		return "", session, err
	}
	if kind != "token" {
		c.SetCookie(newCookie(r, secret, s.Total))
	}
	c.SetRequest(r.WithContext(access.With(r.Context(), access.Identity{Kind: access.Person, Name: account.Name,
		Role: account.Role, Scope: account.Scope, Session: session.ID, Address: clientAddress(r)})))
	return secret, session, nil
}

// logOut ends the session of the request. It is public, so that a browser can also delete the
// cookie of a session that has ended. Only the end of a session is recorded.
func (s *Service) logOut(c echo.Context) error {
	r := c.Request()
	c.SetCookie(newCookie(r, "", 0))
	if identity := access.From(r.Context()); identity.Session != "" {
		if err := recording.Admit(r.Context()); err != nil {
			return err
		}
		if err := s.People.EndSession(r.Context(), identity.Session); err != nil {
			return err
		}
	}
	return c.NoContent(http.StatusNoContent)
}

// answer sends a value, or returns the error.
func answer(c echo.Context, status int, value any, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(status, value)
}
