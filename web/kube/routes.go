package kube

import (
	"slices"

	"github.com/labstack/echo/v4"
)

// routes are the paths of Kubernetes. Other paths below /api belong to the product.
func routes() []string {
	return []string{
		"/api", "/api/v1", "/api/v1/*", "/apis", "/apis/*", "/openapi/*", "/version", "/version/",
		"/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*",
	}
}

// Register adds the routes of the API to a router.
func (s *Server) Register(router *echo.Echo) {
	for _, route := range routes() {
		router.Any(route, func(c echo.Context) error {
			s.ServeHTTP(notifying{c.Response()}, c.Request())
			return nil
		})
	}
}

// Quiet reports whether a route belongs to the API: programs call it so often that a log line for
// each request would hide the others.
func Quiet(_, route string) bool {
	return slices.Contains(routes(), route)
}

// notifying is a response with CloseNotify, which the API server requires for watches.
type notifying struct{ *echo.Response }

// CloseNotify never notifies: the API server uses the request's context.
func (notifying) CloseNotify() <-chan bool { return nil }
