package console

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/web/operation"
	"landfall/web/problem"
)

// KubernetesRoute is the route of the address of the Kubernetes API.
const KubernetesRoute = BasePath + "/kubernetes"

// KubernetesAPI is the address of the Kubernetes API.
type KubernetesAPI struct {
	URL string `json:"url"`
	// CertificateAuthority contains the certificates (PEM) with which clients verify the API; it is
	// empty without TLS.
	CertificateAuthority string `json:"certificate_authority,omitempty"`
}

// KubernetesOperations returns the operation on the address of the Kubernetes API. addressFor
// returns the address for a client that sent a request to the given URL of the appliance, or an
// error if the API is disabled. roots are the certificates (PEM) with which clients verify the API,
// or nil without TLS.
func KubernetesOperations(addressFor func(requested *url.URL) (string, error), roots []byte) []operation.Operation {
	return []operation.Operation{
		{ID: "getKubernetes", Method: http.MethodGet, Path: KubernetesRoute,
			Access: operation.For(access.Viewer).OfAll(),
			Handler: func(c echo.Context) error {
				address, err := addressFor(&url.URL{Scheme: c.Scheme(), Host: c.Request().Host})
				if err != nil {
					return problem.NotFound("%s", err)
				}
				return c.JSON(http.StatusOK, KubernetesAPI{URL: address, CertificateAuthority: string(roots)})
			},
			Summary: "Show the address of the Kubernetes API",
			Status:  http.StatusOK, Answer: KubernetesAPI{}, Errors: []int{404}},
	}
}
