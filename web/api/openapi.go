package api

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/web/api/openapi"
	"landfall/web/operation"
)

// openAPIOperations returns the operation that serves the OpenAPI document. It is an addition of
// Landfall.
func (s *Service) openAPIOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "v2GetOpenAPI", Method: http.MethodGet, Path: "/v2/openapi", Addition: true,
			Access: operation.For(access.Viewer).OfAll(), Handler: s.openAPI(), FromCopy: true,
			Summary: "Show this OpenAPI document",
			Status:  200, Answer: operation.AnyObject{}, Errors: []int{405}},
	}
}

// openAPI returns a handler that sends the OpenAPI document. The first request generates it.
func (s *Service) openAPI() echo.HandlerFunc {
	document := sync.OnceValues(func() ([]byte, error) {
		described, err := OpenAPI(s.Version)
		if err != nil {
			return nil, err
		}
		return json.Marshal(described)
	})
	return func(c echo.Context) error {
		text, err := document()
		if err != nil {
			return err
		}
		return c.JSONBlob(http.StatusOK, text)
	}
}

// OpenAPI returns the OpenAPI 3.0 document of the API. Landfall's additional operations are marked
// in it.
func OpenAPI(version string) (map[string]any, error) {
	return openapi.Document(version, BasePath, new(Service).Operations()), nil
}
