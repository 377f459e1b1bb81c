// Package accounts serves the API of AMS, the account management service of OpenShift Cluster
// Manager, from the site's own data. Its clients are the ocm command and browsers. Subscriptions
// come from the site's stored copies; accounts, organization, labels and reviews come from package
// local. Clients can change only labels and tokens. The appliance itself reports changes of
// clusters to AMS.
//
// Paths, JSON, error codes and the search language are those of AMS, so clients change only the
// URL:
//
//	ocm login --token "$(landfall ams token)" --url https://appliance:8090
package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/ams"
	"landfall/appliance/ams/local"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Prefixes of the APIs, and the path at which tokens are issued.
const (
	Root           = "/api/accounts_mgmt/v1"
	Authorizations = "/api/authorizations/v1"
	Clusters       = "/api/clusters_mgmt/v1"
	TokenPath      = "/auth/realms/redhat-external/protocol/openid-connect/token"
)

// Subscriptions reads the subscriptions of the site's clusters, as decoded JSON of AMS.
type Subscriptions interface {
	// Subscriptions returns all subscriptions, or only that of a cluster.
	Subscriptions(ctx context.Context, clusterID string) ([]map[string]any, error)
	// Subscription returns a subscription by AMS's ID or by its provisional ID. It returns
	// ams.ErrNoSubscription if there is none.
	Subscription(ctx context.Context, id string) (map[string]any, error)
}

// Options configures the API.
type Options struct {
	Subscriptions Subscriptions
	Site          *local.Site
	// PullSecret returns the site's pull secret; nil if the site has none.
	PullSecret func() ([]byte, error)
	// Admit records that a client was accepted, with the client's identity in the context. After an
	// error, nothing is changed. nil: nothing is recorded.
	Admit func(ctx context.Context) error
}

type service struct{ Options }

// admit records an accepted client.
func (s *service) admit(ctx context.Context) error {
	if s.Admit == nil {
		return nil
	}
	return s.Admit(ctx)
}

// Operations returns the operations of the API.
func Operations(options Options) []operation.Operation {
	s := &service{options}
	accounts := slices.Concat(s.accountOperations(), s.labelOperations(), s.subscriptionOperations(),
		s.planOperations(), otherPaths())
	authorizations := slices.Concat(s.reviewOperations(), otherPaths())
	return slices.Concat(s.tokenOperations(), s.guarded(Root, accounts), s.guarded(Authorizations, authorizations),
		s.guarded(Clusters, clusterOperations()))
}

// guarded returns the operations with a prefix. They require a token and write errors in the format
// of AMS.
func (s *service) guarded(prefix string, operations []operation.Operation) []operation.Operation {
	guarded := operation.Below(prefix, operations)
	for i := range guarded {
		guarded[i].Access = operation.CheckedBy("the accounts API").Admitting()
		guarded[i].Handler = asAMS(s.authenticated(guarded[i].Handler))
	}
	return guarded
}

// otherPaths returns the routes that answer 404 in the format of AMS for all other paths with a
// prefix.
func otherPaths() []operation.Operation {
	return []operation.Operation{
		{Method: operation.Any, Path: "/*", Handler: func(c echo.Context) error {
			return notFound("this API has no operation %s %s", c.Request().Method, c.Request().URL.Path)
		}},
		{Method: operation.RouteNotFound, Path: "", Handler: echo.NotFoundHandler},
		{Method: operation.RouteNotFound, Path: "/*", Handler: echo.NotFoundHandler},
	}
}

// clusterOperations returns the routes of OCM's clusters service, which the site does not serve.
// Clients of OCM, such as "ocm list clusters", can only read errors in the format of OCM.
func clusterOperations() []operation.Operation {
	operations := otherPaths()
	operations[0].Handler = func(echo.Context) error {
		return notFound("this appliance does not serve OCM's clusters service; list its clusters with " +
			"ocm get subscriptions")
	}
	return operations
}

// failure is an error in the format of AMS, with an error number in addition to the HTTP status.
type failure struct {
	status, code int
	reason       string
}

func (f *failure) Error() string { return f.reason }

// Error numbers of AMS.
const (
	codeForbidden     = 4
	codeNotFound      = 7
	codeValidation    = 8
	codeGeneral       = 9
	codeUnauthorized  = 11
	codeAuthenticated = 15
	codeUnreadable    = 17
	codeBadRequest    = 21
	codeSearch        = 23
)

func notFound(format string, args ...any) error {
	return &failure{http.StatusNotFound, codeNotFound, fmt.Sprintf(format, args...)}
}

func badRequest(code int, format string, args ...any) error {
	return &failure{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// asAMS returns a handler that writes errors in the format of AMS.
func asAMS(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set("Cache-Control", "no-store")
		err := next(c)
		if err == nil || c.Response().Committed {
			return err
		}
		f, ok := errors.AsType[*failure](err)
		switch {
		case ok:
		case errors.Is(err, local.ErrUnknown), errors.Is(err, ams.ErrNoSubscription):
			f = &failure{http.StatusNotFound, codeNotFound, err.Error()}
		case errors.Is(err, local.ErrLabel):
			f = &failure{http.StatusBadRequest, codeValidation, err.Error()}
		default:
			if p := problem.From(err); p.Status < http.StatusInternalServerError {
				f = &failure{p.Status, codeBadRequest, p.Reason}
				break
			}
			return err
		}
		number := strconv.Itoa(f.code)
		return c.JSON(f.status, map[string]string{
			"kind": "Error", "id": number, "href": Root + "/errors/" + number, "code": "ACCT-MGMT-" + number,
			"reason":       f.reason,
			"operation_id": c.Response().Header().Get(echo.HeaderXRequestID),
		})
	}
}

// callerKey is the key of the caller in the context of a request.
const callerKey = "landfall caller"

// authenticated returns a handler that rejects requests without a valid token.
func (s *service) authenticated(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		token, ok := bearer(c.Request())
		if !ok {
			return &failure{http.StatusUnauthorized, codeAuthenticated,
				"The request has no bearer token; log in with ocm login and a token of landfall ams token"}
		}
		caller, err := s.Site.Authenticate(token)
		if errors.Is(err, local.ErrToken) {
			return &failure{http.StatusUnauthorized, codeAuthenticated, err.Error()}
		}
		if err != nil {
			return err
		}
		c.Set(callerKey, caller)
		ctx := c.Request().Context()
		if err := s.admit(access.With(ctx, access.Identity{Kind: access.Program, Name: caller.Account.Username,
			Address: access.From(ctx).Address})); err != nil {
			return err
		}
		return next(c)
	}
}

func callerOf(c echo.Context) *local.Caller { return c.Get(callerKey).(*local.Caller) }
