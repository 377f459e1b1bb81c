// Package console serves Landfall's own API under /api/landfall/v1, the live feed of changes
// (feed.go) and the browser application (page.go). Each noun has one file with the table of its
// operations, their handlers and the interface of the domain package behind them. To add an
// operation, add an entry and a handler to the file of its noun.
package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/web/operation"
)

// Prefixes of the paths of Landfall's own API.
const (
	BasePath     = "/api/landfall/v1"
	clusterPath  = BasePath + "/clusters/:cluster_id"
	infraEnvPath = BasePath + "/infra-envs/:infra_env_id"
)

// answer sends a value with status 200, or returns the error.
func answer(c echo.Context, value any, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(http.StatusOK, value)
}

// answerWith sends a value with another status, or returns the error.
func answerWith(c echo.Context, status int, value any, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(status, value)
}

// done sends 204, or returns the error.
func done(c echo.Context, err error) error {
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// readOptional decodes a JSON body. It accepts an empty body.
func readOptional(c echo.Context, into any) error {
	if c.Request().ContentLength == 0 {
		return nil
	}
	return operation.ReadJSON(c, into)
}

// nonNil returns the list, or an empty list instead of nil, which JSON would show as null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
