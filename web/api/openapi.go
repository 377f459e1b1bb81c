package api

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"landfall/web/api/description"
)

// openAPI answers with the description of the API, which is made when it is asked for first.
func (s *Service) openAPI() echo.HandlerFunc {
	document := sync.OnceValues(func() ([]byte, error) {
		described, err := Description(s.Versions["landfall"])
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

// Description is the API's description, an OpenAPI 3.0 document, with the appliance's own
// operations marked.
func Description(version string) (map[string]any, error) {
	var all []description.Operation
	for _, operation := range operations {
		all = append(all, description.Operation{ID: operation.ID, Method: operation.Method, Path: operation.Path})
	}
	for _, operation := range additions {
		all = append(all, description.Operation{ID: operation.ID, Method: operation.Method, Path: operation.Path,
			Added: true})
	}
	return description.Of(version, BasePath, all)
}
