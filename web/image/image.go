// Package image is the HTTP side of discovery images: downloads under the paths that the Assisted Installer's image
// service has, so that hosts, management controllers and people's scripts find them where they look.
//
//	GET /byid/{infra_env_id}/{version}/{arch}/full.iso         the image, whole or in ranges
//	GET /byid/{infra_env_id}/{version}/{arch}/full.iso.sha256  its digest, as sha256sum prints it
//
// Paths end in .iso and carry no query because management controllers insist on that. Version and architecture are in
// them for people: the infra-env alone decides what is sent.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/isogen"
	"landfall/web/problem"
)

// Full is the kind of an image that boots without fetching anything else.
const Full = "full"

// Source finds images.
type Source interface {
	// Image returns the image of an infra-env as it is now. A download that has begun ends with the image it began
	// with, whatever Image returns later. An error that is a *problem.Error is told as it is: 404 for an infra-env
	// that does not exist, 409 or 503 while there is no image. An *isogen.TooLargeError becomes a 409.
	Image(ctx context.Context, infraEnvID string, kind string) (*Image, error)
}

// Image is an image with what a download tells of it.
type Image struct {
	*isogen.Image
	Name     string    // of the infra-env; becomes part of the file's name
	Modified time.Time // when the infra-env last changed
}

// Register adds the download routes. Methods other than GET and HEAD are refused by the router.
func Register(e *echo.Echo, src Source) {
	h := handler{src}
	const dir = "/byid/:infra_env_id/:version/:arch/"
	for path, serve := range map[string]echo.HandlerFunc{
		"full.iso":        h.full,
		"full.iso.sha256": h.digest,
		"minimal.iso":     h.minimal,
	} {
		e.GET(dir+path, serve)
		e.HEAD(dir+path, serve)
	}
}

type handler struct{ source Source }

func (h handler) image(c echo.Context) (*Image, error) {
	image, err := h.source.Image(c.Request().Context(), c.Param("infra_env_id"), Full)
	if tooLarge, ok := errors.AsType[*isogen.TooLargeError](err); ok {
		return nil, &problem.Error{Status: http.StatusConflict, Reason: tooLarge.Error(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	if err := image.Intact(); err != nil {
		return nil, &problem.Error{Status: http.StatusServiceUnavailable, Reason: err.Error(), Err: err}
	}
	return image, nil
}

func (h handler) full(c echo.Context) (err error) {
	image, err := h.image(c)
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set("ETag", image.ETag())
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": image.filename(c)}))
	// The image holds the pull secret: it is nobody's to keep but the client's.
	header.Set("Cache-Control", "private, no-cache")
	r := image.NewReader()
	defer func() {
		if e := r.Close(); err == nil {
			err = e
		}
	}()
	w := sender{Response: c.Response(), failure: new(error)}
	http.ServeContent(w, c.Request(), "", image.Modified, r)
	return *w.failure
}

// digest computes the digest in the request's own time: it ends when the client goes away.
func (h handler) digest(c echo.Context) error {
	image, err := h.image(c)
	if err != nil {
		return err
	}
	sum, err := image.SHA256(c.Request().Context())
	if err != nil {
		return fmt.Errorf("compute the digest of the discovery image: %w", err)
	}
	body := sum + "  " + image.filename(c) + "\n"
	header := c.Response().Header()
	header.Set("ETag", `"`+sum+`"`)
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "private, no-cache")
	http.ServeContent(c.Response(), c.Request(), "", image.Modified, strings.NewReader(body))
	return nil
}

func (h handler) minimal(echo.Context) error {
	return problem.New(http.StatusNotImplemented,
		"minimal images are not made yet; set the infra-env's image type to full-iso and download full.iso")
}

func (i *Image) filename(c echo.Context) string {
	name := i.Name
	if name == "" {
		name = c.Param("infra_env_id")
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\"`, r) {
			return '_'
		}
		return r
	}, name)
	return "discovery_image_" + name + ".iso"
}

// sender is the response that http.ServeContent copies an image to. io.Copy asks it first, so that ranges of the base
// ISO go from file to socket in the kernel, which net/http does for an *os.File and for nothing else.
type sender struct {
	*echo.Response
	failure *error // a failed read of the base; net/http keeps quiet about it and breaks the connection
}

// ReadFrom implements io.ReaderFrom.
func (s sender) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(plain{s.Response}, src)
	}
	if image, ok := limited.R.(*isogen.Reader); ok {
		n, err := image.CopyN(s, limited.N)
		limited.N -= n
		if base, ok := errors.AsType[*isogen.BaseError](err); ok {
			*s.failure = base
		}
		return n, err
	}
	direct, ok := s.Writer.(io.ReaderFrom)
	if !ok {
		return io.Copy(plain{s.Response}, src)
	}
	n, err := direct.ReadFrom(src)
	s.Size += n // as echo counts what goes through Write
	return n, err
}

// plain hides every method but Write.
type plain struct{ io.Writer }
