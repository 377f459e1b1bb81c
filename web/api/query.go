package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/labstack/echo/v4"

	"landfall/web/problem"
)

// required reads a query parameter that an operation can't do without. One that is missing does not fit the API's schema,
// which is 422.
func required(c echo.Context, name string) (string, error) {
	value := c.QueryParam(name)
	if value == "" {
		return "", unfit("the parameter %s in query is required", name)
	}
	return value, nil
}

// oneOf reads a query parameter that takes one of some values; one that is left out is "".
func oneOf(c echo.Context, name string, values ...string) (string, error) {
	value := c.QueryParam(name)
	if value != "" && !slices.Contains(values, value) {
		return "", unfit("the parameter %s in query is %q; it takes %s", name, value, strings.Join(values, ", "))
	}
	return value, nil
}

// number reads a query parameter that counts something; one that is left out is 0.
func number(c echo.Context, name string) (int, error) {
	text := c.QueryParam(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, problem.BadRequest("the parameter %s is %q; it takes a whole number from 0", name, text)
	}
	return n, nil
}

// list reads a query parameter that holds several values, separated by commas.
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

// uuid reads a query parameter that is an id, or "".
func uuid(c echo.Context, name string) (string, error) {
	value := c.QueryParam(name)
	if value != "" && !strfmt.IsUUID(value) {
		return "", unfit("the parameter %s in query is %q, which is no UUID", name, value)
	}
	return value, nil
}

func unfit(format string, args ...any) error {
	return problem.New(http.StatusUnprocessableEntity, format, args...)
}
