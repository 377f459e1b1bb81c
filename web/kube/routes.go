package kube

import (
	"slices"

	"github.com/labstack/echo/v4"
)

// routes are the paths that belong to Kubernetes; what else lies below /api is the product's own.
func routes() []string {
	return []string{
		"/api", "/api/v1", "/api/v1/*", "/apis", "/apis/*", "/openapi/*", "/version", "/version/",
		"/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*",
	}
}

// Register hangs the API into a router.
func (s *Server) Register(router *echo.Echo) {
	for _, route := range routes() {
		router.Any(route, func(c echo.Context) error {
			s.ServeHTTP(notifying{c.Response()}, c.Request())
			return nil
		})
	}
}

// Quiet tells the API's routes: programs ask them so often that a line for each request would bury
// the others.
func Quiet(_, route string) bool {
	return slices.Contains(routes(), route)
}

// notifying is a response that also tells when its client has gone, without which the API server
// serves no watches.
type notifying struct{ *echo.Response }

// CloseNotify never tells anything: the request's context does, and the API server listens to that.
func (notifying) CloseNotify() <-chan bool { return nil }
