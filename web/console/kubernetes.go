package console

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"landfall/web/problem"
)

// KubernetesRoute tells where the Kubernetes API is.
const KubernetesRoute = "/api/landfall/v1/kubernetes"

// KubernetesAPI is where the Kubernetes API is.
type KubernetesAPI struct {
	URL string `json:"url"`
}

// RegisterKubernetes lets clients ask where the Kubernetes API is; at tells it to one that reached
// the appliance under a URL, or why there is none.
func RegisterKubernetes(router *echo.Echo, at func(under *url.URL) (string, error)) {
	router.GET(KubernetesRoute, func(c echo.Context) error {
		address, err := at(&url.URL{Scheme: c.Scheme(), Host: c.Request().Host})
		if err != nil {
			return problem.NotFound("%s", err)
		}
		return c.JSON(http.StatusOK, KubernetesAPI{URL: address})
	})
}
