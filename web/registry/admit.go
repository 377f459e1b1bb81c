package registry

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/fault"
)

// challenge asks clients for a name and a password.
const challenge = `Basic realm="landfall"`

// admit checks whether a client may send a request: pulls need no rights if everybody may pull, and
// otherwise those of a viewer; pushes and deletions need those of an operator of the whole site. If
// everybody may pull, credentials of pulls are not looked at: nodes send them a thousand times for
// a release.
func (h *handler) admit(c echo.Context) error {
	r := c.Request()
	base := r.URL.Path == "/v2" || r.URL.Path == "/v2/"
	pulls := isRead(r.Method) && !strings.Contains(r.URL.Path, "/blobs/uploads/")
	switch {
	case pulls && !base && h.Anonymous:
		return nil
	case pulls:
		return h.authorize(c, access.Viewer, base)
	}
	return h.authorize(c, access.Operator, base)
}

// authorize checks whether a client has the rights of a role.
func (h *handler) authorize(c echo.Context, needed access.Role, base bool) error {
	r := c.Request()
	identity := access.From(r.Context())
	name, password, ok := r.BasicAuth()
	// Clients of containers/image send empty ones if they have none.
	if ok = ok && name+password != ""; ok && identity.Role == access.None {
		if h.Login == nil {
			return unauthorized("this registry knows no accounts")
		}
		from := identity.Address
		var err error
		if identity, err = h.Login(r.Context(), from, name, password); err != nil {
			if kind := fault.KindOf(err); kind == fault.Forbidden || kind == fault.Unauthenticated {
				return unauthorized(fault.Reason(err))
			}
			return err
		}
		identity.Address = from
		c.SetRequest(r.WithContext(access.With(r.Context(), identity)))
	} else if failure := access.Failure(r.Context()); fault.KindOf(failure) == fault.Unavailable {
		return failure // the token may be valid
	} else if failure != nil {
		return unauthorized("the token is unknown, has expired or was revoked")
	}
	switch {
	case base && h.Anonymous && identity.Role == access.None:
		// containers/image sends credentials, such as those of a push, only after a challenge.
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
		return nil
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
		header: map[string]string{echo.HeaderWWWAuthenticate: challenge}}
}
