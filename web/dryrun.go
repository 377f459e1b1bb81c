package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/store"
	"landfall/web/operation"
	"landfall/web/problem"
)

// DryRunPath is the path before that of an operation which is tried: the appliance checks the
// request and changes nothing. A parameter would be ignored by an appliance that does not know it,
// and the request would be carried out.
const DryRunPath = "/api/landfall/v1/dry-run"

// dryRun returns a request of an operation that is tried without [DryRunPath] and with a context of
// a dry run. It returns other requests unchanged.
func dryRun(r *http.Request) *http.Request {
	path, ok := strings.CutPrefix(r.URL.Path, DryRunPath)
	if !ok || !strings.HasPrefix(path, "/") {
		return r
	}
	r = r.Clone(store.DryRun(r.Context()))
	r.URL.Path, r.URL.RawPath = path, strings.TrimPrefix(r.URL.RawPath, DryRunPath)
	return r
}

// tried returns the handler of an operation that answers a dry run.
func tried(o operation.Operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !store.IsDryRun(c.Request().Context()) {
			return o.Handler(c)
		}
		if !o.DryRun {
			return problem.New(http.StatusNotImplemented, "This operation has no dry run. Nothing was changed.")
		}
		err := o.Handler(c)
		if errors.Is(err, store.ErrDryRun) {
			return c.JSON(http.StatusOK, map[string]bool{"dry_run": true})
		}
		return err
	}
}
