package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/fault"
	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
	"landfall/web/problem"
)

// upload serves the requests of uploads: at once, in parts, and mounts of known blobs.
func (h *handler) upload(c echo.Context, asked request) error {
	r := c.Request()
	digest := c.QueryParam("digest")
	if digest != "" && !medium.ValidDigest(digest) {
		return invalidDigest(digest)
	}
	switch {
	case r.Method == http.MethodPost && asked.name == "":
		return h.startUpload(c, asked, digest)
	case asked.name == "":
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		size, err := h.Registry.Overlay.Size(asked.name)
		if err != nil {
			return err
		}
		uploadHeaders(c, asked.repository, asked.name, size)
		return c.NoContent(http.StatusNoContent)
	case r.Method == http.MethodPatch:
		size, err := h.append(c, asked)
		if err != nil {
			return err
		}
		uploadHeaders(c, asked.repository, asked.name, size)
		return c.NoContent(http.StatusAccepted)
	case r.Method == http.MethodPut:
		return h.finish(c, asked, digest)
	case r.Method == http.MethodDelete:
		if err := h.Registry.Overlay.Cancel(asked.name); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}
	return &refusal{status: http.StatusMethodNotAllowed, code: codeUnsupported,
		text: "an upload does not support this request"}
}

// startUpload starts an upload, mounts a known blob, or takes the whole blob at once.
func (h *handler) startUpload(c echo.Context, asked request, digest string) error {
	if mount := c.QueryParam("mount"); medium.ValidDigest(mount) {
		// Every repository has every blob, so the source of the mount does not matter.
		if _, err := h.Registry.Blob(mount); err == nil {
			return created(c, asked.repository, "blobs", mount)
		}
	}
	id, err := h.Registry.Overlay.Start()
	if err != nil {
		return err
	}
	if digest != "" {
		asked.name = id
		return h.finish(c, asked, digest)
	}
	uploadHeaders(c, asked.repository, id, 0)
	return c.NoContent(http.StatusAccepted)
}

// append adds the body to an upload. The header Content-Range says where.
func (h *handler) append(c echo.Context, asked request) (int64, error) {
	offset := int64(-1)
	if text := c.Request().Header.Get("Content-Range"); text != "" {
		first, last, ok := strings.Cut(strings.TrimPrefix(text, "bytes "), "-")
		start, err := strconv.ParseInt(first, 10, 64)
		end, endErr := strconv.ParseInt(last, 10, 64)
		if !ok || err != nil || endErr != nil || start < 0 || end < start ||
			c.Request().ContentLength >= 0 && c.Request().ContentLength != end-start+1 {
			return 0, &refusal{status: http.StatusRequestedRangeNotSatisfiable, code: codeUploadInvalid,
				text: "the header Content-Range is not the range of the body"}
		}
		offset = start
	}
	size, err := h.Registry.Overlay.Append(asked.name, offset, body{c.Request().Body})
	if wrong, ok := errors.AsType[*overlay.OffsetError](err); ok {
		uploadHeaders(c, asked.repository, asked.name, wrong.Offset)
		return 0, &refusal{status: http.StatusRequestedRangeNotSatisfiable, code: codeUploadInvalid,
			text: wrong.Error()}
	}
	return size, err
}

// body is the body of a push. A client that sends it too slowly, or breaks it off, is told so.
type body struct{ io.Reader }

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	failed := &refusal{status: http.StatusBadRequest, code: codeUploadInvalid,
		text: "the body of the request ended before its announced end; continue the upload"}
	if known, ok := errors.AsType[*problem.Error](err); ok {
		failed.status, failed.text = known.Status, known.Reason
	}
	return n, failed
}

// finish adds the last bytes to an upload and makes it a blob.
func (h *handler) finish(c echo.Context, asked request, digest string) error {
	if digest == "" {
		return invalidDigest(digest)
	}
	if c.Request().ContentLength != 0 {
		if _, err := h.append(c, asked); err != nil {
			return err
		}
	}
	if err := h.Registry.Overlay.Finish(c.Request().Context(), asked.name, digest); err != nil {
		return err
	}
	return created(c, asked.repository, "blobs", digest)
}

// uploadHeaders sets the headers by which a client continues an upload.
func uploadHeaders(c echo.Context, repository, id string, size int64) {
	header := c.Response().Header()
	header.Set(echo.HeaderLocation, fmt.Sprintf("/v2/%s/blobs/uploads/%s", repository, id))
	header.Set("Range", fmt.Sprintf("0-%d", max(0, size-1)))
	header.Set("Docker-Upload-Uuid", id)
	header.Set("Oci-Chunk-Min-Length", "1")
}

// created answers that content was stored.
func created(c echo.Context, repository, kind, digest string) error {
	c.Response().Header().Set(echo.HeaderLocation, fmt.Sprintf("/v2/%s/%s/%s", repository, kind, digest))
	c.Response().Header().Set("Docker-Content-Digest", digest)
	return c.NoContent(http.StatusCreated)
}

// maxManifest is one byte more than the largest manifest that the registry takes.
const maxManifest = 4<<20 + 1

func (h *handler) putManifest(c echo.Context, asked request) error {
	if strings.Contains(asked.name, ":") && !medium.ValidDigest(asked.name) {
		return invalidDigest(asked.name)
	}
	if !strings.Contains(asked.name, ":") && !medium.ValidTag(asked.name) {
		return &refusal{status: http.StatusBadRequest, code: codeManifestInvalid, text: "the tag has an invalid form"}
	}
	data, err := io.ReadAll(io.LimitReader(body{c.Request().Body}, maxManifest))
	if err != nil {
		return err
	}
	digest, parsed, err := h.Registry.PutManifest(c.Request().Context(), asked.repository, asked.name,
		c.Request().Header.Get(echo.HeaderContentType), data)
	if err != nil {
		return err
	}
	if parsed.Subject != nil {
		c.Response().Header().Set("Oci-Subject", parsed.Subject.Digest)
	}
	return created(c, asked.repository, "manifests", digest)
}

func (h *handler) deleteBlob(c echo.Context, asked request) error {
	if !medium.ValidDigest(asked.name) {
		return invalidDigest(asked.name)
	}
	return h.deleted(c, h.Registry.DeleteBlob(asked.name))
}

func (*handler) deleted(c echo.Context, err error) error {
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusAccepted)
}

// pushRefusal returns the answer for an error of a push, or nil.
func pushRefusal(err error) *refusal {
	var missing *registry.MissingPartsError
	switch {
	case errors.As(err, &missing):
		return &refusal{status: http.StatusBadRequest, code: codeBlobMissing, text: err.Error(),
			detail: missing.Digests}
	case errors.Is(err, overlay.ErrUploadUnknown):
		return &refusal{status: http.StatusNotFound, code: codeUploadUnknown, text: err.Error()}
	case errors.Is(err, overlay.ErrDigest):
		return &refusal{status: http.StatusBadRequest, code: codeDigestInvalid, text: err.Error()}
	case errors.Is(err, overlay.ErrFull):
		return &refusal{status: http.StatusInsufficientStorage, code: codeDenied, text: err.Error()}
	case errors.Is(err, registry.ErrOnMedium), errors.Is(err, overlay.ErrInUse):
		return &refusal{status: http.StatusMethodNotAllowed, code: codeUnsupported, text: err.Error()}
	case fault.KindOf(err) == fault.TooLarge:
		return &refusal{status: http.StatusRequestEntityTooLarge, code: codeSizeInvalid, text: fault.Reason(err)}
	case fault.KindOf(err) == fault.Invalid:
		return &refusal{status: http.StatusBadRequest, code: codeManifestInvalid, text: fault.Reason(err)}
	}
	return nil
}
