package access

import (
	"context"
	"errors"
	"html"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access/external"
	"landfall/appliance/access/loginstate"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Paths of the login with an OpenID Connect provider.
const (
	oidcPath     = BasePath + "/login/oidc"
	oidcCallback = oidcPath + "/callback"
)

// oidcCookie holds the sealed state of a login that an OpenID Connect provider has not answered
// yet.
const oidcCookie = "landfall-oidc"

func (s *Service) providerOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "beginOIDCLogin", Method: http.MethodGet, Path: oidcPath, Access: operation.Public(),
			Handler: forBrowsers(s.beginOIDC),
			Summary: "Send the browser to the OpenID Connect provider", Status: http.StatusFound,
			Errors: []int{404, 503}},
		{ID: "finishOIDCLogin", Method: http.MethodGet, Path: oidcCallback, Access: operation.Public(),
			Handler: forBrowsers(s.finishOIDC),
			Summary: "Log in with the answer of the OpenID Connect provider", Status: http.StatusFound,
			Errors: []int{400, 401, 403, 404, 503}},
	}
}

// forBrowsers returns a handler of a path that the browser of a person opens. An error is a page
// then: the person would see a JSON object otherwise, and no way back.
func forBrowsers(handle echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := handle(c)
		if err == nil || c.Response().Committed ||
			!strings.Contains(c.Request().Header.Get(echo.HeaderAccept), echo.MIMETextHTML) {
			return err
		}
		failed := *problem.From(err) // others may have this error, too
		failed.Page = `<!doctype html><title>Landfall</title><p>The login failed: ` +
			html.EscapeString(failed.Reason) + `.</p><p><a href="/">Back to the login</a></p>`
		return &failed
	}
}

// originOf returns the origin of a request: the URL of the appliance that the client uses.
func originOf(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func (s *Service) beginOIDC(c echo.Context) error {
	if s.OIDC == nil {
		return problem.NotFound("this appliance has no OpenID Connect provider; set oidc.issuer in the configuration")
	}
	r := c.Request()
	start, err := s.OIDC.Begin(r.Context(), originOf(r)+oidcCallback)
	if err != nil {
		return err
	}
	c.SetCookie(&http.Cookie{Name: oidcCookie, Value: start.Cookie, Path: oidcPath, HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode, MaxAge: int(start.Lifetime.Seconds())})
	return c.Redirect(http.StatusFound, start.URL)
}

func (s *Service) finishOIDC(c echo.Context) error {
	if s.OIDC == nil {
		return problem.NotFound("this appliance has no OpenID Connect provider; set oidc.issuer in the configuration")
	}
	r := c.Request()
	cookie, err := c.Cookie(oidcCookie)
	if err != nil {
		return problem.BadRequest("this browser has not begun to log in here, or too long ago; log in again")
	}
	person, err := s.OIDC.Finish(r.Context(), cookie.Value, r.URL.Query())
	if !errors.Is(err, loginstate.ErrForeign) { // otherwise the cookie may be that of another tab
		c.SetCookie(&http.Cookie{Name: oidcCookie, Path: oidcPath, MaxAge: -1})
	}
	if err != nil {
		return err
	}
	account, err := s.logInExternal(r.Context(), person)
	if err != nil {
		return err
	}
	if _, _, err := s.session(c, "cookie", account); err != nil {
		return err
	}
	// The cookie of the session is SameSite=Strict. Browsers would not send it after a redirect
	// from another site, so this page opens the next one.
	c.Response().Header().Set("Refresh", "0; url=/")
	return c.HTML(http.StatusOK,
		`<!doctype html><title>Landfall</title><p>You are logged in. <a href="/">Continue</a></p>`)
}

// logInDirectory verifies a password with the directory, unless there is a local account with the
// name: passwords of local accounts do not leave the appliance.
func (s *Service) logInDirectory(ctx context.Context, name, password string) (people.Account, error) {
	if local, err := s.People.Account(name); err == nil && local.External == nil {
		return people.Account{}, people.ErrCredentials
	}
	person, err := s.Directory.LogIn(ctx, name, password)
	if err != nil {
		return people.Account{}, err
	}
	return s.logInExternal(ctx, person)
}

func (s *Service) logInExternal(ctx context.Context, person external.Person) (people.Account, error) {
	account, err := s.People.LogInExternal(ctx, people.External{Issuer: person.Issuer, Subject: person.Subject},
		people.NewAccount{Name: person.Name, Role: person.Role, Scope: person.Scope})
	if errors.Is(err, people.ErrCredentials) {
		return account, fault.New(fault.Forbidden, "the account of %s is disabled; ask an administrator", person.Name)
	}
	return account, err
}
