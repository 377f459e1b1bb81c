package registry

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/fault"
)

// admit checks whether a client may send a request: pulls need no rights if everybody may pull, and
// otherwise those of a viewer; pushes and deletions need those of an operator of the whole site.
func (h *handler) admit(c echo.Context) error {
	r := c.Request()
	identity := access.From(r.Context())
	if name, password, ok := r.BasicAuth(); ok && identity.Role == access.None {
		if h.Login == nil {
			return unauthorized("this registry knows no accounts")
		}
		from := identity.Address
		var err error
		if identity, err = h.Login(r.Context(), from, name, password); err != nil {
			if limited, ok := errors.AsType[*refusal](err); ok {
				return limited
			}
			return unauthorized(fault.Reason(err))
		}
		identity.Address = from
		c.SetRequest(r.WithContext(access.With(r.Context(), identity)))
	} else if access.Failure(r.Context()) != nil {
		return unauthorized("the token is unknown, has expired or was revoked")
	}
	needed := access.Operator
	if isRead(r.Method) && !strings.Contains(r.URL.Path, "/blobs/uploads/") {
		needed = access.Viewer
		if h.Anonymous {
			return nil
		}
	}
	switch {
	case identity.Role == access.None:
		return unauthorized("log in with an account of the appliance, or with any name and a token as the password")
	case identity.Role < needed || needed == access.Operator && identity.Scope.Limited():
		return &refusal{status: http.StatusForbidden, code: codeDenied, text: "pushes need an operator of the whole " +
			"site"}
	}
	return nil
}

// unauthorized asks a client to log in.
func unauthorized(text string) error {
	return &refusal{status: http.StatusUnauthorized, code: codeUnauthorized, text: text,
		header: map[string]string{echo.HeaderWWWAuthenticate: `Basic realm="landfall"`}}
}
