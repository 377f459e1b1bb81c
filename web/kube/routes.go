package kube

import (
	"github.com/labstack/echo/v4"

	"landfall/web/operation"
)

// routes returns the paths of the Kubernetes API. Other paths below /api belong to the product's
// own APIs.
func routes() []string {
	return []string{
		"/api", "/api/v1", "/api/v1/*", "/apis", "/apis/*", "/openapi/*", "/version", "/version/",
		"/healthz", "/healthz/*",
	}
}

// ownHealth returns the paths of the API's health on a listener of its own. On the appliance's main
// listener they report the health of the whole appliance.
func ownHealth() []string { return []string{"/livez", "/livez/*", "/readyz", "/readyz/*"} }

// Operations returns the routes of the API. Their requests are not logged, because programs send so
// many that other log lines would be hard to find. ownListener reports whether only the API uses
// the listener.
func (s *Server) Operations(ownListener bool) []operation.Operation {
	var all []operation.Operation
	paths := routes()
	if ownListener {
		paths = append(paths, ownHealth()...)
	}
	for _, path := range paths {
		all = append(all, operation.Operation{Method: operation.Any, Path: path,
			Access: operation.CheckedBy("the Kubernetes API"), Quiet: true, Endless: isWatch,
			Handler: func(c echo.Context) error {
				s.ServeHTTP(notifying{c.Response()}, c.Request())
				return nil
			}})
	}
	return all
}

// notifying adds CloseNotify to a response, which the API server requires for watches.
type notifying struct{ *echo.Response }

// CloseNotify never notifies: the API server uses the request's context.
func (notifying) CloseNotify() <-chan bool { return nil }
