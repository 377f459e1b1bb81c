package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"

	"landfall/web/problem"
)

// required reads a mandatory query parameter. If it is missing, the error is a 422, because the
// request violates the schema.
func required(c echo.Context, name string) (string, error) {
	value := c.QueryParam(name)
	if value == "" {
		return "", unfit("the parameter %s in query is required", name)
	}
	return value, nil
}

// oneOf reads an optional query parameter with a fixed set of values. It returns "" for a missing
// parameter.
func oneOf(c echo.Context, name string, values ...string) (string, error) {
	value := c.QueryParam(name)
	if value != "" && !slices.Contains(values, value) {
		return "", unfit("the parameter %s in query is %q; expected %s", name, value, strings.Join(values, ", "))
	}
	return value, nil
}

// number reads an optional query parameter that is a whole number from 0. It returns 0 for a
// missing parameter.
func number(c echo.Context, name string) (int, error) {
	text := c.QueryParam(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, unfit("the parameter %s in query is %q; expected a whole number from 0", name, text)
	}
	return n, nil
}

// list reads a query parameter with several values, separated by commas.
func list(c echo.Context, name string) []string {
	var values []string
	for _, text := range c.QueryParams()[name] {
		for value := range strings.SplitSeq(text, ",") {
			if value = strings.TrimSpace(value); value != "" {
				values = append(values, value)
			}
		}
	}
	return values
}

// listOf reads a query parameter with several values of a fixed set, separated by commas.
func listOf(c echo.Context, name string, values ...string) ([]string, error) {
	given := list(c, name)
	for _, value := range given {
		if !slices.Contains(values, value) {
			return nil, unfit("the parameter %s in query contains %q; expected %s", name, value,
				strings.Join(values, ", "))
		}
	}
	return given, nil
}

// uuids reads a query parameter with several IDs, separated by commas.
func uuids(c echo.Context, name string) ([]string, error) {
	given := list(c, name)
	for _, value := range given {
		if !isUUID(value) {
			return nil, unfit("the parameter %s in query contains %q, which is not a UUID", name, value)
		}
	}
	return given, nil
}

// flag reads a boolean query parameter. Like the Assisted Installer, it accepts several words for
// true and reads every other text as false.
func flag(c echo.Context, name string) bool {
	yes, err := conv.ConvertBool(c.QueryParam(name))
	return yes && err == nil
}

// uuid reads a query parameter that is an ID or empty.
func uuid(c echo.Context, name string) (string, error) {
	value := c.QueryParam(name)
	if value != "" && !isUUID(value) {
		return "", unfit("the parameter %s in query is %q, which is not a UUID", name, value)
	}
	return value, nil
}

// checkIDs returns an error if an ID in the path is not a UUID.
func checkIDs(c echo.Context) error {
	values := c.ParamValues()
	for i, name := range c.ParamNames() {
		if strings.HasSuffix(name, "_id") && name != "validation_id" && !isUUID(values[i]) {
			return unfit("%s in path is %q, which is not a UUID", name, values[i])
		}
	}
	return nil
}

// checkBodyID returns an error if an ID in the body is neither absent nor a UUID. The models also
// accept UUIDs without hyphens, but the paths of operations don't.
func checkBodyID(name string, id *strfmt.UUID) error {
	if id != nil && !isUUID(id.String()) {
		return unfit("%s in body is %q, which is not a UUID of the form "+
			"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx; write it with hyphens", name, *id)
	}
	return nil
}

// isUUID reports whether a text has the form of a UUID. It uses no regular expression, because each
// poll of a host calls it twice.
func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		switch b := text[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if b != '-' {
				return false
			}
		case '0' <= b && b <= '9', 'a' <= b && b <= 'f', 'A' <= b && b <= 'F':
		default:
			return false
		}
	}
	return true
}

func unfit(format string, args ...any) error {
	return problem.New(http.StatusUnprocessableEntity, format, args...)
}
