package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/web/operation"
	"landfall/web/problem"
)

// AuthorityRoute is the route of the certificates with which clients verify the appliance.
const AuthorityRoute = BasePath + "/ca.crt"

// AuthorityOperations returns the operation on the certificates (PEM) with which clients verify the
// appliance. They are nil without TLS. The operation is public, because certificates are no
// secrets, and a browser needs them before anybody can log in.
func AuthorityOperations(roots []byte) []operation.Operation {
	return []operation.Operation{
		{ID: "getAuthority", Method: http.MethodGet, Path: AuthorityRoute, Access: operation.Public(),
			Handler: func(c echo.Context) error {
				if len(roots) == 0 {
					return problem.NotFound("the appliance has no certificate authority, because TLS is disabled " +
						"(tls.enabled: false)")
				}
				c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="ca.crt"`)
				return c.Blob(http.StatusOK, "application/x-x509-ca-cert", roots)
			},
			Summary: "Download the certificates with which clients verify the appliance",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{404}},
	}
}
