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

	"landfall/appliance/discovery"
	"landfall/web/image/telescope"
	"landfall/web/problem"
)

// Images describes the images of infra-envs and changes their short URLs.
type Images interface {
	// Describe describes the images of an infra-env and all ways to boot them.
	Describe(ctx context.Context, infraEnvID string) (*discovery.Description, error)
	// RenewShortURL replaces the short URL of an infra-env. The new one is valid for a time, or
	// forever for 0.
	RenewShortURL(ctx context.Context, infraEnvID string, validFor time.Duration) (*discovery.ShortURL, error)
	// RevokeShortURL makes the short URL of an infra-env invalid.
	RevokeShortURL(ctx context.Context, infraEnvID string) error
}

// Downloads serves the images.
type Downloads interface {
	// Reads reports who has read an infra-env's images, and how far.
	Reads(infraEnvID string) ([]telescope.Report, error)
	// ForgetCodes makes the next request resolve the short codes of an infra-env again.
	ForgetCodes(infraEnvID string)
}

// registerImages adds the routes of infra-envs' images.
func registerImages(router *echo.Echo, images Images, downloads Downloads) {
	const infraEnv = BasePath + "/infra-envs/:infra_env_id"
	router.GET(infraEnv+"/image", func(c echo.Context) error {
		image, err := images.Describe(c.Request().Context(), c.Param("infra_env_id"))
		if err != nil {
			return err
		}
		return answer(c, image)
	})
	router.GET(infraEnv+"/reads", func(c echo.Context) error {
		reads, err := downloads.Reads(c.Param("infra_env_id"))
		if err != nil {
			return err
		}
		return answer(c, map[string][]telescope.Report{"reads": reads})
	})
	router.POST(infraEnv+"/short-url", func(c echo.Context) error {
		valid, err := validity(c)
		if err != nil {
			return err
		}
		renewed, err := images.RenewShortURL(c.Request().Context(), c.Param("infra_env_id"), valid)
		if err != nil {
			return err
		}
		downloads.ForgetCodes(c.Param("infra_env_id"))
		return answer(c, renewed)
	})
	router.DELETE(infraEnv+"/short-url", func(c echo.Context) error {
		if err := images.RevokeShortURL(c.Request().Context(), c.Param("infra_env_id")); err != nil {
			return err
		}
		downloads.ForgetCodes(c.Param("infra_env_id"))
		return c.NoContent(http.StatusNoContent)
	})
}

// validity reads how long a short URL is to be valid; a request without a body asks for one without
// an end.
func validity(c echo.Context) (time.Duration, error) {
	var wanted struct {
		ValidSeconds *int64 `json:"valid_seconds"`
	}
	if err := json.NewDecoder(c.Request().Body).Decode(&wanted); err != nil && !errors.Is(err, io.EOF) {
		return 0,
			problem.BadRequest("the body is not what is expected here (%v); send {\"valid_seconds\": 86400}, or {} "+
				"for a short URL without an end", err)
	}
	if wanted.ValidSeconds == nil {
		return 0, nil
	}
	if *wanted.ValidSeconds <= 0 || *wanted.ValidSeconds > math.MaxInt64/int64(time.Second) {
		return 0,
			problem.BadRequest("valid_seconds is %d; send a number of seconds above 0, or leave it out for a short "+
				"URL without an end", *wanted.ValidSeconds)
	}
	return time.Duration(*wanted.ValidSeconds) * time.Second, nil
}
