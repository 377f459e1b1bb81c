package operation

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/web/problem"
)

// ReadFlag reads a query parameter of the type Flag. It is false if the query does not have it. A
// text that is no truth value is refused, because the client may have meant true.
func ReadFlag(c echo.Context, name string) (bool, error) {
	if !c.QueryParams().Has(name) {
		return false, nil
	}
	text := c.QueryParam(name)
	truth, err := strconv.ParseBool(text)
	if err != nil {
		return false, problem.BadRequest("%s is %q; expected true or false", name, text)
	}
	return truth, nil
}
