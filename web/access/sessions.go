package access

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Names of the cookie with a session's secret. Browsers accept the prefix __Host- only from HTTPS,
// for the whole host and without a domain, so that no other site can set the cookie (RFC 6265bis,
// section 4.1.3).
const (
	secureCookie = "__Host-landfall"
	plainCookie  = "landfall" // for plain HTTP from the loopback
)

// sessionCookie returns the secret in the cookie of a request, or "".
func sessionCookie(r *http.Request) string {
	name := plainCookie
	if r.TLS != nil {
		name = secureCookie
	}
	if cookie, err := r.Cookie(name); err == nil {
		return cookie.Value
	}
	return ""
}

// newCookie returns the cookie with a session's secret. An empty secret deletes the cookie.
func newCookie(r *http.Request, secret string, ends time.Duration) *http.Cookie {
	cookie := &http.Cookie{Name: plainCookie, Value: secret, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(ends / time.Second)}
	if r.TLS != nil {
		cookie.Name, cookie.Secure = secureCookie, true
	}
	if secret == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// Whoami describes the caller.
type Whoami struct {
	Kind      access.Kind `json:"kind"`
	Name      string      `json:"name"`
	Role      access.Role `json:"role"`
	Clusters  []string    `json:"clusters,omitempty"`
	InfraEnvs []string    `json:"infra_envs,omitempty"`
}

func whoamiOf(identity access.Identity) Whoami {
	return Whoami{Kind: identity.Kind, Name: identity.Name, Role: identity.Role, Clusters: identity.Scope.Clusters,
		InfraEnvs: identity.Scope.InfraEnvs}
}

// Session describes a session in the list of sessions.
type Session struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Address   string    `json:"address"`
	UserAgent string    `json:"user_agent,omitempty"`
	StartedAt time.Time `json:"started_at"`
	LastUse   time.Time `json:"last_use"`
	ExpiresAt time.Time `json:"expires_at"`
	// Current marks the session of the request.
	Current bool `json:"current,omitempty"`
}

func (s *Service) sessionOperations() []operation.Operation {
	const path = BasePath + "/sessions"
	everybody := operation.For(access.Viewer).OfOwn()
	return []operation.Operation{
		{ID: "listSessions", Method: http.MethodGet, Path: path, Access: everybody, Handler: s.listSessions,
			Summary: "List the sessions: administrators see all, others their own",
			Status:  200, Answer: []Session{}, Errors: []int{401, 403}},
		{ID: "endSession", Method: http.MethodDelete, Path: path + "/:id", Access: everybody, Handler: s.endSession,
			Summary: "End a session: administrators end any, others their own",
			Status:  204, NoContent: true, Errors: []int{401, 403, 404}},
	}
}

// visible returns the sessions that the caller may see and end. A person without a session sees
// none: the name need not be that of an account.
func (s *Service) visible(caller access.Identity) []people.Session {
	switch {
	case caller.Role >= access.Administrator && !caller.Scope.Limited():
		return s.People.Sessions("")
	case caller.Session != "":
		return s.People.Sessions(caller.Name)
	}
	return nil
}

func (s *Service) listSessions(c echo.Context) error {
	caller := access.From(c.Request().Context())
	list := []Session{}
	for _, session := range s.visible(caller) {
		list = append(list, Session{ID: session.ID, Name: session.Account, Address: session.Address,
			UserAgent: session.UserAgent, StartedAt: session.StartedAt, LastUse: session.LastUse,
			ExpiresAt: session.EndsAt, Current: session.ID == caller.Session})
	}
	return answer(c, http.StatusOK, list, nil)
}

func (s *Service) endSession(c echo.Context) error {
	ctx, id := c.Request().Context(), c.Param("id")
	if !slices.ContainsFunc(s.visible(access.From(ctx)), func(s people.Session) bool { return s.ID == id }) {
		return problem.NotFound("there is no session %q; it may have ended", id)
	}
	if err := s.People.EndSession(ctx, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
