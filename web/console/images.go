package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/discovery"
	"landfall/web/image/progress"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Images describes the images of infra-envs and changes their short URLs.
type Images interface {
	// Describe describes the images of an infra-env and all methods to boot them.
	Describe(ctx context.Context, infraEnvID string) (*discovery.Description, error)
	// RenewShortURL replaces the short URL of an infra-env. The new URL is valid for the given
	// time; 0 means no limit.
	RenewShortURL(ctx context.Context, infraEnvID string, validFor time.Duration) (*discovery.ShortURL, error)
	// RevokeShortURL makes the short URL of an infra-env invalid.
	RevokeShortURL(ctx context.Context, infraEnvID string) error
}

// Downloads serves the images.
type Downloads interface {
	// Reads reports which clients have read an infra-env's images, and their progress.
	Reads(ctx context.Context, infraEnvID string) ([]progress.Report, error)
	// DropCodes drops the cached short codes of an infra-env, so that the next request resolves
	// them again.
	DropCodes(infraEnvID string)
}

// shortURLRequest is the body of a request for a new short URL.
type shortURLRequest struct {
	ValidSeconds *int64 `json:"valid_seconds"`
}

type infraEnvImages struct {
	images    Images
	downloads Downloads
}

// ImageOperations returns the operations on the images of infra-envs.
func ImageOperations(images Images, downloads Downloads) []operation.Operation {
	i := infraEnvImages{images, downloads}
	return []operation.Operation{
		{ID: "getImage", Method: http.MethodGet, Path: infraEnvPath + "/image", Access: operation.For(access.Viewer),
			Handler: i.show,
			Summary: "Show the images of an infra-env and all methods to boot them",
			Status:  http.StatusOK, Answer: discovery.Description{}, Errors: []int{404}},
		{ID: "listImageReads", Method: http.MethodGet, Path: infraEnvPath + "/reads",
			Access: operation.For(access.Viewer), Handler: i.reads,
			Summary: "List the clients that have read an infra-env's images, with their progress",
			Status:  http.StatusOK, Answer: map[string][]progress.Report{}, Errors: []int{404}},
		{ID: "renewShortURL", Method: http.MethodPost, Path: infraEnvPath + "/short-url",
			Access: operation.For(access.Operator), Handler: i.renew,
			Summary: "Replace the short URL of an infra-env's image",
			Body:    shortURLRequest{},
			Status:  http.StatusOK, Answer: discovery.ShortURL{}, Errors: []int{400, 404}},
		{ID: "revokeShortURL", Method: http.MethodDelete, Path: infraEnvPath + "/short-url",
			Access: operation.For(access.Operator), Handler: i.revoke,
			Summary: "Delete the short URL of an infra-env's image",
			Status:  http.StatusNoContent, Errors: []int{404}},
	}
}

func (i infraEnvImages) show(c echo.Context) error {
	image, err := i.images.Describe(c.Request().Context(), c.Param("infra_env_id"))
	if err != nil {
		return err
	}
	if access.From(c.Request().Context()).Role < access.Operator {
		return answer(c, image.WithoutURLs(), nil)
	}
	operation.HasSecret(c) // the URLs contain a token
	return answer(c, image, nil)
}

func (i infraEnvImages) reads(c echo.Context) error {
	reads, err := i.downloads.Reads(c.Request().Context(), c.Param("infra_env_id"))
	return answer(c, map[string][]progress.Report{"reads": reads}, err)
}

func (i infraEnvImages) renew(c echo.Context) error {
	valid, err := validity(c)
	if err != nil {
		return err
	}
	renewed, err := i.images.RenewShortURL(c.Request().Context(), c.Param("infra_env_id"), valid)
	if err != nil {
		return err
	}
	i.downloads.DropCodes(c.Param("infra_env_id"))
	return answer(c, renewed, nil)
}

func (i infraEnvImages) revoke(c echo.Context) error {
	if err := i.images.RevokeShortURL(c.Request().Context(), c.Param("infra_env_id")); err != nil {
		return err
	}
	i.downloads.DropCodes(c.Param("infra_env_id"))
	return c.NoContent(http.StatusNoContent)
}

// validity returns the validity of a short URL from the body; without a body the URL never expires.
func validity(c echo.Context) (time.Duration, error) {
	var wanted shortURLRequest
	if err := json.NewDecoder(c.Request().Body).Decode(&wanted); err != nil && !errors.Is(err, io.EOF) {
		return 0,
			problem.BadRequest("the body is invalid (%v); send {\"valid_seconds\": 86400}, or {} "+
				"for a short URL that never expires", err)
	}
	if wanted.ValidSeconds == nil {
		return 0, nil
	}
	if *wanted.ValidSeconds <= 0 || *wanted.ValidSeconds > math.MaxInt64/int64(time.Second) {
		return 0,
			problem.BadRequest("valid_seconds is %d; send a number of seconds above 0, or leave it out for a short "+
				"URL that never expires", *wanted.ValidSeconds)
	}
	return time.Duration(*wanted.ValidSeconds) * time.Second, nil
}
