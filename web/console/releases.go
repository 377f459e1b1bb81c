package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/release/trust"
	"landfall/web/operation"
)

// ReleasesRoute is the route of the releases that may be used.
const ReleasesRoute = BasePath + "/releases"

// Releases manages the releases that may be used.
type Releases interface {
	// List returns the releases that may be used, and the keys that may sign releases.
	List() (*trust.List, error)
	// Allow allows a release by its digest or its pull spec.
	Allow(ctx context.Context, release string) (*trust.Allowed, error)
	// Forget removes the permission that an administrator gave to a release.
	Forget(ctx context.Context, digest string) error
}

type releases struct{ releases Releases }

// ReleaseRequest is the body of a request to allow a release.
type ReleaseRequest struct {
	Release string `json:"release"` // digest or pull spec
}

// ReleaseOperations returns the operations on the releases that may be used.
func ReleaseOperations(allowed Releases) []operation.Operation {
	r := releases{allowed}
	return []operation.Operation{
		{ID: "listReleases", Method: http.MethodGet, Path: ReleasesRoute, Access: operation.For(access.Viewer).OfAll(),
			Handler: r.list,
			Summary: "List the releases that may be used, and the keys that may sign releases",
			Status:  http.StatusOK, Answer: trust.List{}},
		{ID: "allowRelease", Method: http.MethodPost, Path: ReleasesRoute,
			Access: operation.For(access.Administrator), Handler: r.allow,
			Summary: "Allow a release by its digest or its pull spec",
			Body:    ReleaseRequest{},
			Status:  http.StatusCreated, Answer: trust.Allowed{}, Errors: []int{400, 503}},
		{ID: "forgetRelease", Method: http.MethodDelete, Path: ReleasesRoute + "/:digest",
			Access: operation.For(access.Administrator), Handler: r.forget,
			Summary: "Remove the permission that an administrator gave to a release",
			Status:  http.StatusNoContent, Errors: []int{404, 409}},
	}
}

func (r releases) list(c echo.Context) error {
	list, err := r.releases.List()
	return answer(c, list, err)
}

func (r releases) allow(c echo.Context) error {
	var wanted ReleaseRequest
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	allowed, err := r.releases.Allow(c.Request().Context(), wanted.Release)
	return answerWith(c, http.StatusCreated, allowed, err)
}

func (r releases) forget(c echo.Context) error {
	return done(c, r.releases.Forget(c.Request().Context(), c.Param("digest")))
}
