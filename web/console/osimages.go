package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/osimage"
	"landfall/web/problem"
)

// UploadRoute is the route of an OS image's upload, whose bodies are as large as images.
const UploadRoute = BasePath + "/os-images/uploads/:id"

// Uploads speak the core of tus 1.0 (https://tus.io/protocols/resumable-upload): HEAD tells the
// offset, PATCH adds bytes there. The creation is JSON and the last PATCH answers the image, which
// tus leaves open.
const (
	uploadOffset = "Upload-Offset"
	uploadLength = "Upload-Length"
	tusResumable = "Tus-Resumable"
	tusVersion   = "1.0.0"
)

// osImages are the operations on the base images.
type osImages struct{ library *osimage.Library }

func (o osImages) register(router *echo.Echo) {
	const base = BasePath + "/os-images"
	router.GET(base, o.list)
	router.POST(base, o.fetch)
	router.POST(base+"/uploads", o.announce)
	router.GET(UploadRoute, o.offset)
	router.HEAD(UploadRoute, o.offset)
	router.PATCH(UploadRoute, o.add)
	router.DELETE(UploadRoute, o.giveUp)
	router.POST(base+"/:id/verify", o.verify)
	router.DELETE(base+"/:id", o.remove)
}

func (o osImages) list(c echo.Context) error {
	images, err := o.library.List()
	if err != nil {
		return err
	}
	return answer(c, map[string]any{"os_images": images})
}

// fetch has an image fetched by URL or out of a release.
func (o osImages) fetch(c echo.Context) error {
	var request osimage.Request
	if err := read(c, &request); err != nil {
		return err
	}
	image, err := o.library.Fetch(request)
	if err != nil {
		return imageProblem(c, err)
	}
	return c.JSON(http.StatusAccepted, image)
}

func (o osImages) announce(c echo.Context) error {
	var announced osimage.Announcement
	if err := read(c, &announced); err != nil {
		return err
	}
	upload, err := o.library.Announce(announced)
	if err != nil {
		return imageProblem(c, err)
	}
	c.Response().Header().Set(echo.HeaderLocation, BasePath+"/os-images/uploads/"+upload.ID)
	tellOffset(c, upload)
	return c.JSON(http.StatusCreated, upload)
}

func (o osImages) offset(c echo.Context) error {
	upload, err := o.library.Offset(c.Param("id"))
	if err != nil {
		return imageProblem(c, err)
	}
	tellOffset(c, upload)
	return answer(c, upload)
}

func (o osImages) add(c echo.Context) error {
	r := c.Request()
	offset, err := strconv.ParseInt(r.Header.Get(uploadOffset), 10, 64)
	if err != nil || offset < 0 {
		return problem.BadRequest("the header %s is %q; expected how many bytes were sent before these", uploadOffset,
			r.Header.Get(uploadOffset))
	}
	total := int64(0)
	if text := r.Header.Get(uploadLength); text != "" {
		if total, err = strconv.ParseInt(text, 10, 64); err != nil || total <= 0 {
			return problem.BadRequest("the header %s is %q; expected the size of the whole file", uploadLength, text)
		}
	}
	upload, err := o.library.Append(r.Context(), c.Param("id"), offset, total, r.Body)
	if err != nil {
		return imageProblem(c, err)
	}
	tellOffset(c, upload)
	if upload.Image != nil {
		return answer(c, upload.Image)
	}
	return c.NoContent(http.StatusNoContent)
}

func (o osImages) giveUp(c echo.Context) error {
	if err := o.library.GiveUp(c.Param("id")); err != nil {
		return imageProblem(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

func (o osImages) verify(c echo.Context) error {
	image, err := o.library.Verify(c.Param("id"))
	if err != nil {
		return imageProblem(c, err)
	}
	return c.JSON(http.StatusAccepted, image)
}

func (o osImages) remove(c echo.Context) error {
	if err := o.library.Remove(c.Param("id")); err != nil {
		return imageProblem(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

func tellOffset(c echo.Context, upload *osimage.Upload) {
	header := c.Response().Header()
	header.Set(tusResumable, tusVersion)
	header.Set(uploadOffset, strconv.FormatInt(upload.Offset, 10))
	header.Set("Cache-Control", "no-store")
	if upload.Size > 0 {
		header.Set(uploadLength, strconv.FormatInt(upload.Size, 10))
	}
}

// imageProblem is what a client is told of an error of the library.
func imageProblem(c echo.Context, err error) error {
	status := 0
	var content *osimage.ContentError
	var place *osimage.OffsetError
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	case errors.As(err, &content) && content.Existing != "":
		status = http.StatusConflict
	case content != nil:
		status = http.StatusUnprocessableEntity
	case errors.As(err, new(*osimage.NotFoundError)):
		status = http.StatusNotFound
	case errors.As(err, &place):
		c.Response().Header().Set(uploadOffset, strconv.FormatInt(place.Have, 10))
		status = http.StatusConflict
	case errors.As(err, new(*osimage.InUseError)), errors.As(err, new(*osimage.SupersededError)):
		status = http.StatusConflict
	case errors.As(err, new(*osimage.SpaceError)):
		status = http.StatusInsufficientStorage
	case errors.As(err, new(*osimage.RequestError)), errors.As(err, new(*osimage.InterruptedError)):
		status = http.StatusBadRequest
	default:
		return err
	}
	return &problem.Error{Status: status, Reason: err.Error(), Err: err}
}

// read takes a JSON body that has no other keys than the value.
func read(c echo.Context, into any) error {
	decoder := json.NewDecoder(c.Request().Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil || errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return problem.BadRequest("the body is not the JSON object that this operation takes: %s",
		strings.TrimPrefix(err.Error(), "json: "))
}
