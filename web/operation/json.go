package operation

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/web/problem"
)

// ReadJSON decodes the JSON body of a request. It rejects unknown keys.
func ReadJSON(c echo.Context, into any) error {
	decoder := json.NewDecoder(c.Request().Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil || errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return problem.BadRequest("the body is not the JSON object that this operation expects: %s",
		strings.TrimPrefix(err.Error(), "json: "))
}
