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

	"landfall/web/image/telescope"
	"landfall/web/problem"
)

// Images is what the console asks about the images of infra-envs; its errors are fit for
// problem.From.
type Images interface {
	// Image describes the images of an infra-env and all ways to boot them.
	Image(ctx context.Context, infraEnvID string) (*Image, error)
	// Reads tells who has read an infra-env's images, and how far.
	Reads(ctx context.Context, infraEnvID string) ([]telescope.Report, error)
	// RenewShortURL gives an infra-env another short URL, which is valid for a time, or without end
	// for 0.
	RenewShortURL(ctx context.Context, infraEnvID string, valid time.Duration) (*ShortURL, error)
	// RevokeShortURL has an infra-env's short URL lead nowhere.
	RevokeShortURL(ctx context.Context, infraEnvID string) error
}

// Image is what can be said of an infra-env's images before they are downloaded. The first six
// fields are of the kind that the infra-env asks for.
type Image struct {
	URL       string `json:"url"`
	FileName  string `json:"file_name"`
	SizeBytes int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"` // hexadecimal; empty while it is being computed
	ETag      string `json:"etag"`   // in quotes, as the download's header has it
	Type      string `json:"type"`   // full-iso or minimal-iso

	Revision       string             `json:"revision"` // of the recipe: another one is another image
	Modified       time.Time          `json:"modified"`
	Full           ImageKind          `json:"full"`
	Minimal        ImageKind          `json:"minimal"`
	ShortURL       string             `json:"short_url"` // for virtual media; empty after it was revoked
	ShortExpires   *time.Time         `json:"short_url_expires"`
	URLs           []NetworkAddresses `json:"urls"` // the preferred network first
	NetworkBoot    NetworkBoot        `json:"network_boot"`
	ConfigImageURL string             `json:"config_image_url"`
}

// ImageKind is one kind of image, or why there is none.
type ImageKind struct {
	URL       string `json:"url,omitempty"`
	SizeBytes int64  `json:"size_bytes,omitempty"`
	ETag      string `json:"etag,omitempty"`
	SHA256    string `json:"sha256"` // hexadecimal; empty while it is being computed
	Reason    string `json:"reason,omitempty"`
}

// NetworkAddresses is where an image is downloaded from on one of the site's networks.
type NetworkAddresses struct {
	URL     string `json:"url"` // of the appliance
	Full    string `json:"full"`
	Minimal string `json:"minimal"`
	Short   string `json:"short"`
}

// NetworkBoot is what it takes to boot an infra-env's image over the network, on the preferred
// network, or why it can't be.
type NetworkBoot struct {
	IPXEURL         string `json:"ipxe_url,omitempty"`
	IPXEScript      string `json:"ipxe_script,omitempty"`
	KernelURL       string `json:"kernel_url,omitempty"`
	InitrdURL       string `json:"initrd_url,omitempty"`
	RootFSURL       string `json:"rootfs_url,omitempty"`
	KernelArguments string `json:"kernel_arguments,omitempty"`
	GRUBURL         string `json:"grub_url,omitempty"`
	HTTPBootURL     string `json:"http_boot_url,omitempty"`
	Reason          string `json:"reason,omitempty"`
}

// ShortURL is an infra-env's address for virtual media.
type ShortURL struct {
	URL     string     `json:"short_url"`
	Expires *time.Time `json:"short_url_expires"` // null: never
}

// registerImages adds the routes of infra-envs' images.
func registerImages(router *echo.Echo, images Images) {
	const infraEnv = BasePath + "/infra-envs/:infra_env_id"
	router.GET(infraEnv+"/image", func(c echo.Context) error {
		image, err := images.Image(c.Request().Context(), c.Param("infra_env_id"))
		if err != nil {
			return err
		}
		return answer(c, image)
	})
	router.GET(infraEnv+"/reads", func(c echo.Context) error {
		reads, err := images.Reads(c.Request().Context(), c.Param("infra_env_id"))
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
		return answer(c, renewed)
	})
	router.DELETE(infraEnv+"/short-url", func(c echo.Context) error {
		if err := images.RevokeShortURL(c.Request().Context(), c.Param("infra_env_id")); err != nil {
			return err
		}
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
