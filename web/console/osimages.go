package console

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/osimage"
	"landfall/web/operation"
	"landfall/web/problem"
)

// uploadRoute is the route of an upload of an OS image.
const uploadRoute = BasePath + "/os-images/uploads/:id"

// Headers of uploads. Uploads follow the core of tus 1.0
// (https://tus.io/protocols/resumable-upload): HEAD returns the offset, and PATCH appends bytes at
// the offset. Two details are specific to Landfall: the creation accepts JSON, and the last PATCH
// returns the image.
const (
	uploadOffset = "Upload-Offset"
	uploadLength = "Upload-Length"
	tusResumable = "Tus-Resumable"
	tusVersion   = "1.0.0"
)

type osImages struct{ library *osimage.Library }

// OSImageOperations returns the operations on the base images. uploadBytes limits the size of an
// upload.
func OSImageOperations(library *osimage.Library, uploadBytes int64) []operation.Operation {
	o := osImages{library}
	const base = BasePath + "/os-images"
	return []operation.Operation{
		{ID: "listOSImages", Method: http.MethodGet, Path: base, Access: operation.For(access.Viewer).OfAll(),
			Handler: o.list,
			Summary: "List the base images",
			Status:  http.StatusOK, Answer: map[string][]osimage.Image{}},
		{ID: "fetchOSImage", Method: http.MethodPost, Path: base, Access: operation.For(access.Administrator),
			Handler: o.fetch,
			Summary: "Start the download of a base image from a URL or from a release",
			Body:    osimage.Request{},
			Status:  http.StatusAccepted, Answer: osimage.Image{}, Errors: []int{400, 409, 507}},
		{ID: "createOSImageUpload", Method: http.MethodPost, Path: base + "/uploads",
			Access: operation.For(access.Administrator), Handler: o.announce,
			Summary: "Create an upload of a base image",
			Body:    osimage.UploadRequest{},
			Status:  http.StatusCreated, Answer: osimage.Upload{}, Errors: []int{400, 409, 507}},
		{ID: "getOSImageUpload", Method: http.MethodGet, Path: uploadRoute, Head: true,
			Access: operation.For(access.Administrator), Handler: o.offset,
			Summary: "Show the offset of an upload",
			Status:  http.StatusOK, Answer: osimage.Upload{}, Errors: []int{404}},
		{ID: "appendOSImageUpload", Method: http.MethodPatch, Path: uploadRoute,
			Access: operation.For(access.Administrator), Handler: o.add, BodyLimit: uploadBytes, Streams: true,
			Summary: "Append bytes to an upload; the last ones complete the image",
			Body:    operation.File{},
			Status:  http.StatusOK, NoContent: true, Answer: osimage.Image{}, Errors: []int{400, 404, 409, 413, 507}},
		{ID: "cancelOSImageUpload", Method: http.MethodDelete, Path: uploadRoute,
			Access: operation.For(access.Administrator), Handler: o.cancel,
			Summary: "Cancel an upload",
			Status:  http.StatusNoContent, Errors: []int{404}},
		{ID: "verifyOSImage", Method: http.MethodPost, Path: base + "/:id/verify",
			Access: operation.For(access.Operator), Handler: o.verify,
			Summary: "Verify the checksum of a base image",
			Status:  http.StatusAccepted, Answer: osimage.Image{}, Errors: []int{404}},
		{ID: "deleteOSImage", Method: http.MethodDelete, Path: base + "/:id",
			Access: operation.For(access.Administrator), Handler: o.remove,
			Summary: "Delete a base image",
			Status:  http.StatusNoContent, Errors: []int{404, 409}},
	}
}

func (o osImages) list(c echo.Context) error {
	images, err := o.library.List()
	if access.From(c.Request().Context()).Scope.Limited() { // the names are of all infra-envs
		for i := range images {
			images[i].Users = nil
		}
	}
	return answer(c, map[string]any{"os_images": images}, err)
}

// fetch starts the download of an image from a URL or from a release.
func (o osImages) fetch(c echo.Context) error {
	var request osimage.Request
	if err := operation.ReadJSON(c, &request); err != nil {
		return err
	}
	image, err := o.library.Fetch(request)
	return answerWith(c, http.StatusAccepted, image, err)
}

func (o osImages) announce(c echo.Context) error {
	var announced osimage.UploadRequest
	if err := operation.ReadJSON(c, &announced); err != nil {
		return err
	}
	upload, err := o.library.StartUpload(announced)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, BasePath+"/os-images/uploads/"+upload.ID)
	setOffset(c, upload)
	return c.JSON(http.StatusCreated, upload)
}

func (o osImages) offset(c echo.Context) error {
	upload, err := o.library.Offset(c.Param("id"))
	if err != nil {
		return err
	}
	setOffset(c, upload)
	return answer(c, upload, nil)
}

func (o osImages) add(c echo.Context) error {
	r := c.Request()
	offset, err := strconv.ParseInt(r.Header.Get(uploadOffset), 10, 64)
	if err != nil || offset < 0 {
		return problem.BadRequest("the header %s is %q; expected the number of bytes that were sent before",
			uploadOffset,
			r.Header.Get(uploadOffset))
	}
	total := int64(0)
	if text := r.Header.Get(uploadLength); text != "" {
		if total, err = strconv.ParseInt(text, 10, 64); err != nil || total <= 0 {
			return problem.BadRequest("the header %s is %q; expected the size of the whole file", uploadLength, text)
		}
	}
	upload, err := o.library.Append(r.Context(), c.Param("id"), offset, total, r.Body)
	if wrong, ok := errors.AsType[*osimage.OffsetError](err); ok {
		c.Response().Header().Set(uploadOffset, strconv.FormatInt(wrong.Have, 10))
	}
	if err != nil {
		return err
	}
	setOffset(c, upload)
	if upload.Image != nil {
		return answer(c, upload.Image, nil)
	}
	return c.NoContent(http.StatusNoContent)
}

func (o osImages) cancel(c echo.Context) error {
	return done(c, o.library.CancelUpload(c.Param("id")))
}

func (o osImages) verify(c echo.Context) error {
	image, err := o.library.Verify(c.Param("id"))
	return answerWith(c, http.StatusAccepted, image, err)
}

func (o osImages) remove(c echo.Context) error {
	return done(c, o.library.Remove(c.Param("id")))
}

func setOffset(c echo.Context, upload *osimage.Upload) {
	header := c.Response().Header()
	header.Set(tusResumable, tusVersion)
	header.Set(uploadOffset, strconv.FormatInt(upload.Offset, 10))
	header.Set("Cache-Control", "no-store")
	if upload.Size > 0 {
		header.Set(uploadLength, strconv.FormatInt(upload.Size, 10))
	}
}
