package accounts

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams/local"
	"landfall/web/operation"
)

// tokenOperations returns the operation that issues tokens. It needs no token itself.
func (s *service) tokenOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "issueToken", Method: http.MethodPost, Path: TokenPath,
			Access:  operation.CheckedBy("the accounts API").Admitting(),
			Handler: s.token,
			Summary: "Exchange credentials for an access token (OAuth 2.0)", Status: http.StatusOK,
			Answer: operation.AnyObject{}, Errors: []int{400}},
	}
}

func bearer(r *http.Request) (string, bool) {
	kind, token, ok := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(kind, "Bearer") && token != ""
}

// token exchanges the credentials of a person or program for a token that is valid for an hour, by
// OAuth 2.0 (RFC 6749).
func (s *service) token(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	refuse := func(status int, kind, words string) error {
		return c.JSON(status, map[string]string{"error": kind, "error_description": words})
	}
	answer := map[string]any{"token_type": "Bearer", "scope": "openid", "expires_in": int(local.SessionLife.Seconds())}
	var access string
	var err error
	switch grant := c.FormValue("grant_type"); grant {
	case "refresh_token":
		refresh := c.FormValue("refresh_token")
		access, err = s.Site.Refresh(refresh)
		answer["refresh_token"] = refresh
	case "client_credentials":
		id, secret, ok := basic(c.Request())
		if !ok {
			id, secret = c.FormValue("client_id"), c.FormValue("client_secret")
		}
		access, err = s.Site.Login(id, secret)
	default:
		return refuse(http.StatusBadRequest, "unsupported_grant_type", "The grant type is "+grant+
			"; expected refresh_token or client_credentials")
	}
	if errors.Is(err, local.ErrToken) {
		return refuse(http.StatusBadRequest, "invalid_grant", err.Error())
	}
	if err != nil {
		return err
	}
	if err := s.admit(c.Request().Context()); err != nil {
		return err
	}
	answer["access_token"] = access
	return c.JSON(http.StatusOK, answer)
}

// basic reads the ID and the secret of a client from the Authorization header. OAuth requires them
// in form encoding (RFC 6749, section 2.3.1), but many clients send them unencoded.
func basic(r *http.Request) (id, secret string, ok bool) {
	id, secret, ok = r.BasicAuth()
	for _, part := range []*string{&id, &secret} {
		if plain, err := url.QueryUnescape(*part); err == nil {
			*part = plain
		}
	}
	return id, secret, ok
}

// accessToken sends the site's pull secret. AMS sends the account's pull secret.
func (s *service) accessToken(c echo.Context) error {
	if s.PullSecret == nil {
		return notFound("the appliance has no pull secret; set mirror.pull_secret in its configuration")
	}
	secret, err := s.PullSecret()
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, json.RawMessage(secret))
}
