// Package accounts answers AMS's API from the site itself, for the ocm command and for browsers:
// subscriptions from the site's shadows of them, people and organization, labels and reviews from
// package local. It only reads, but for labels and tokens; what AMS must hear the appliance tells
// it by itself.
//
// Paths, shapes, codes and the language of searches are AMS's own, so whoever talks to it needs no
// change but the address:
//
//	ocm login --token "$(landfall ams token)" --url http://appliance:8090
package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams"
	"landfall/appliance/ams/local"
	"landfall/web/problem"
)

// Where the three APIs begin, and where tokens are exchanged.
const (
	Root           = "/api/accounts_mgmt/v1"
	Authorizations = "/api/authorizations/v1"
	TokenPath      = "/auth/realms/redhat-external/protocol/openid-connect/token"
)

// Subscriptions are those of the site's clusters, in AMS's own JSON, decoded.
type Subscriptions interface {
	// Subscriptions lists all of them, or only that of a cluster.
	Subscriptions(ctx context.Context, clusterID string) ([]map[string]any, error)
	// Subscription is the one of an id, AMS's or the one it had before; ams.ErrNoSubscription.
	Subscription(ctx context.Context, id string) (map[string]any, error)
}

// Options is what the API is made from.
type Options struct {
	Subscriptions Subscriptions
	Site          *local.Site
	// PullSecret is the site's own, or nil without one.
	PullSecret func() ([]byte, error)
}

type service struct{ Options }

// Register hangs the API into a router.
func Register(router *echo.Echo, options Options) {
	s := &service{options}
	router.POST(TokenPath, s.token)

	accounts := router.Group(Root, asAMS, s.authenticated)
	accounts.GET("/current_account", s.currentAccount)
	accounts.GET("/accounts", s.listAccounts)
	accounts.GET("/accounts/:id", s.getAccount)
	accounts.GET("/organizations", s.listOrganizations)
	accounts.GET("/organizations/:id", s.getOrganization)
	accounts.GET("/organizations/:id/quota_cost", empty("QuotaCostList"))
	accounts.GET("/organizations/:id/resource_quota", empty("ResourceQuotaList"))
	for _, bearer := range []string{"/organizations/:id/labels", "/accounts/:id/labels", "/subscriptions/:id/labels"} {
		accounts.GET(bearer, s.listLabels)
		accounts.POST(bearer, s.postLabel)
		accounts.GET(bearer+"/:key", s.getLabel)
		accounts.PATCH(bearer+"/:key", s.patchLabel)
		accounts.DELETE(bearer+"/:key", s.deleteLabel)
	}
	accounts.GET("/subscriptions", s.listSubscriptions)
	accounts.GET("/subscriptions/:id", s.getSubscription)
	for _, kind := range []struct{ path, list string }{
		{"/resource_quota", "ResourceQuotaList"}, {"/role_bindings", "RoleBindingList"}, {"/roles", "RoleList"},
		{"/skus", "SKUList"},
	} {
		accounts.GET(kind.path, empty(kind.list))
	}
	accounts.GET("/plans/:id", plan)
	accounts.POST("/feature_toggles/:id/query", s.featureToggle)
	accounts.POST("/access_token", s.accessToken)
	accounts.POST("/token_authorization", func(echo.Context) error {
		return notFound("no account here has that token")
	})
	own := func(echo.Context) error {
		return &failure{http.StatusForbidden, codeForbidden,
			"The appliance keeps subscriptions by itself as its clusters change; change the cluster"}
	}
	accounts.POST("/cluster_authorizations", own)
	accounts.POST("/subscriptions", own)
	accounts.PATCH("/subscriptions/:id", own)
	accounts.DELETE("/subscriptions/:id", own)
	nothing := func(c echo.Context) error {
		return notFound("there is no %s %s here", c.Request().Method, c.Request().URL.Path)
	}
	accounts.Any("/*", nothing)

	reviews := router.Group(Authorizations, asAMS, s.authenticated)
	reviews.POST("/access_review", s.accessReview)
	reviews.POST("/self_access_review", s.accessReview)
	reviews.POST("/capability_review", s.capabilityReview)
	reviews.POST("/feature_review", s.featureReview)
	reviews.POST("/self_feature_review", s.featureReview)
	reviews.POST("/terms_review", terms)
	reviews.POST("/self_terms_review", terms)
	reviews.Any("/*", nothing)
}

// failure is an error in AMS's own shape: its number is not the HTTP status.
type failure struct {
	status, code int
	reason       string
}

func (f *failure) Error() string { return f.reason }

// AMS's numbers of errors.
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

// asAMS writes the errors of the handlers behind it as AMS does.
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

const callerKey = "landfall caller"

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
		return next(c)
	}
}

func callerOf(c echo.Context) *local.Caller { return c.Get(callerKey).(*local.Caller) }
