package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/traffic"
)

// manifest serves a manifest by a tag or a digest.
func (h *handler) manifest(c echo.Context, asked request) error {
	if err := checkReference(asked.name); err != nil {
		return err
	}
	manifest, err := h.Registry.Manifest(asked.repository, asked.name)
	if left, ok := errors.AsType[*registry.LeftOutError](err); ok && h.LeftOut != nil {
		h.LeftOut(c.Request().Context(), clientOf(c), left)
	}
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, manifest.MediaType)
	header.Set("Docker-Content-Digest", manifest.Digest)
	if unchanged(c, manifest.Digest) {
		return c.NoContent(http.StatusNotModified)
	}
	header.Set("Etag", entityTag(manifest.Digest))
	header.Set(echo.HeaderContentLength, strconv.Itoa(len(manifest.Data)))
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	pull := h.Registry.Traffic.Begin(clientOf(c))
	defer pull.End()
	n, err := c.Response().Write(manifest.Data)
	pull.Add(n)
	return err
}

// clientOf returns the address of a client, without a port.
func clientOf(c echo.Context) string {
	host, _, err := net.SplitHostPort(c.Request().RemoteAddr)
	if err != nil {
		return c.Request().RemoteAddr
	}
	return host
}

// checkReference checks a tag or a digest.
func checkReference(reference string) error {
	switch {
	case strings.Contains(reference, ":") && !medium.ValidDigest(reference):
		return invalidDigest(reference)
	case !strings.Contains(reference, ":") && !medium.ValidTag(reference):
		return &refusal{status: http.StatusNotFound, code: codeManifestUnknown, text: "the tag has an invalid form"}
	}
	return nil
}

func invalidDigest(digest string) error {
	text := "the digest is invalid; this registry uses sha256: and 64 hexadecimal digits"
	return &refusal{status: http.StatusBadRequest, code: codeDigestInvalid, text: text, detail: digest}
}

// entityTag returns the entity tag of content, which its digest names.
func entityTag(digest string) string { return `"` + digest + `"` }

// unchanged reports whether the client has the content with a digest already. It then sets the
// entity tag of the answer.
func unchanged(c echo.Context, digest string) bool {
	tag := entityTag(digest)
	for _, known := range strings.Split(c.Request().Header.Get("If-None-Match"), ",") {
		if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == tag || known == "*" {
			c.Response().Header().Set("Etag", tag)
			return true
		}
	}
	return false
}

// unlessPushed returns the error for a blob that can't be read now. A client that pushes asks first
// whether the registry has the blob, and gives up if it hears of a medium. It can send the blob.
func (h *handler) unlessPushed(c echo.Context, err error) error {
	if c.Request().Method == http.MethodHead && !errors.Is(err, registry.ErrBlobUnknown) &&
		h.authorize(c, access.Operator, false) == nil {
		return registry.ErrBlobUnknown
	}
	return err
}

// blob serves a blob or a range of it. Nodes continue an interrupted pull with a range.
func (h *handler) blob(c echo.Context, asked request) error {
	if !medium.ValidDigest(asked.name) {
		return invalidDigest(asked.name)
	}
	blob, err := h.Registry.Blob(asked.name)
	if err != nil {
		return h.unlessPushed(c, err)
	}
	header := c.Response().Header()
	if unchanged(c, blob.Digest) {
		return c.NoContent(http.StatusNotModified)
	}
	offset, size, partial, err := requestedRange(c.Request(), blob)
	if err != nil {
		return err
	}
	head := c.Request().Method == http.MethodHead
	if !head {
		end, err := blob.Start(c.Request().Context())
		if err != nil {
			return err
		}
		defer end()
	}
	pull := h.Registry.Traffic.Begin(clientOf(c))
	defer pull.End()
	out := &startingWriter{response: c.Response(), pull: pull, start: func() {
		header.Set("Docker-Content-Digest", blob.Digest)
		header.Set("Accept-Ranges", "bytes")
		header.Set("Cache-Control", "max-age=31536000, immutable") // not of an error
		header.Set("Etag", entityTag(blob.Digest))
		header.Set(echo.HeaderContentType, echo.MIMEOctetStream)
		header.Set(echo.HeaderContentLength, strconv.FormatInt(size, 10))
		status := http.StatusOK
		if partial {
			status = http.StatusPartialContent
			header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, offset+size-1, blob.Size))
		}
		c.Response().WriteHeader(status)
	}}
	if head || size == 0 {
		out.start()
		return nil
	}
	var to io.Writer = out
	if direct, ok := c.Response().Writer.(io.ReaderFrom); ok && c.Request().TLS == nil {
		to = directWriter{out, direct}
	}
	err = blob.Copy(c.Request().Context(), to, offset, size)
	switch {
	case err == nil:
		return nil
	case !out.started:
		return err
	}
	h.Logger.DebugContext(c.Request().Context(), "A pull was interrupted.", "digest", blob.Digest, "error", err)
	// The client must not take the answer for complete: it repeats the request with a range.
	panic(http.ErrAbortHandler)
}

// startingWriter sends the headers with the first bytes. Until then, an error can be the answer.
type startingWriter struct {
	response *echo.Response
	pull     *traffic.Pull
	start    func()
	started  bool
}

// Write implements io.Writer.
func (w *startingWriter) Write(p []byte) (int, error) {
	if !w.started {
		w.started = true
		w.start()
	}
	n, err := w.response.Write(p)
	w.pull.Add(n)
	return n, err
}

// directWriter lets the kernel copy files to plain connections.
type directWriter struct {
	*startingWriter
	direct io.ReaderFrom // the writer of the response
}

// ReadFrom implements io.ReaderFrom.
func (w directWriter) ReadFrom(src io.Reader) (int64, error) {
	if !w.started {
		w.started = true
		w.start()
	}
	n, err := w.direct.ReadFrom(src)
	w.response.Size += n
	w.pull.Add(int(n))
	return n, err
}

// requestedRange returns the range of a blob that a request asks for. A request for several ranges
// gets the whole blob (RFC 9110, section 14.2).
func requestedRange(r *http.Request, blob *registry.Blob) (offset, size int64, partial bool, err error) {
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if !ok || strings.Contains(text, ",") {
		return 0, blob.Size, false, nil
	}
	if condition := r.Header.Get("If-Range"); condition != "" && condition != entityTag(blob.Digest) {
		return 0, blob.Size, false, nil
	}
	first, last, ok := strings.Cut(strings.TrimSpace(text), "-")
	if !ok {
		return 0, blob.Size, false, nil
	}
	start, errStart := strconv.ParseInt(first, 10, 64)
	end, errEnd := strconv.ParseInt(last, 10, 64)
	switch {
	case first == "" && errEnd == nil && end > 0: // the last bytes
		start = max(0, blob.Size-end)
		end = blob.Size - 1
	case errStart != nil || last != "" && errEnd != nil || last != "" && end < start:
		return 0, blob.Size, false, nil
	case last == "" || end >= blob.Size:
		end = blob.Size - 1
	}
	if start >= blob.Size {
		return 0, 0, false, &refusal{status: http.StatusRequestedRangeNotSatisfiable, code: codeUnknown,
			text:   fmt.Sprintf("the blob has %d bytes", blob.Size),
			header: map[string]string{"Content-Range": fmt.Sprintf("bytes */%d", blob.Size)}}
	}
	return start, end - start + 1, true, nil
}

// tags lists the tags of a repository, by pages.
func (h *handler) tags(c echo.Context, asked request) error {
	tags, err := h.Registry.Tags(asked.repository)
	if err != nil {
		return err
	}
	page, next, err := pageOf(c, tags)
	if err != nil {
		return err
	}
	if next != "" {
		c.Response().Header().Set("Link", fmt.Sprintf(`</v2/%s/tags/list?%s>; rel="next"`, asked.repository, next))
	}
	return answerJSON(c, echo.MIMEApplicationJSON, map[string]any{"name": asked.repository, "tags": page})
}

// pageOf returns the part of a sorted list that the parameters n and last ask for, and the
// parameters of the next page, or "".
func pageOf(c echo.Context, list []string) (page []string, next string, err error) {
	if last := c.QueryParam("last"); last != "" {
		at, found := slices.BinarySearch(list, last)
		if found {
			at++
		}
		list = list[at:]
	}
	text := c.QueryParam("n")
	if text == "" {
		return nonNil(list), "", nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, "", &refusal{status: http.StatusBadRequest, code: codeUnsupported,
			text: "the parameter n is not a number of entries"}
	}
	if n == 0 || n >= len(list) {
		return nonNil(list[:min(n, len(list))]), "", nil
	}
	page = list[:n]
	return page, url.Values{"n": {text}, "last": {page[n-1]}}.Encode(), nil
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// referrers lists the manifests that refer to a digest.
func (h *handler) referrers(c echo.Context, asked request) error {
	if !medium.ValidDigest(asked.name) {
		return invalidDigest(asked.name)
	}
	found, err := h.Registry.Referrers(asked.repository, asked.name)
	if err != nil {
		return err
	}
	if kind := c.QueryParam("artifactType"); kind != "" {
		found = slices.DeleteFunc(found, func(d medium.Descriptor) bool { return d.ArtifactType != kind })
		c.Response().Header().Set("OCI-Filters-Applied", "artifactType")
	}
	if found == nil {
		found = []medium.Descriptor{}
	}
	return answerJSON(c, medium.TypeOCIIndex, map[string]any{"schemaVersion": 2, "mediaType": medium.TypeOCIIndex,
		"manifests": found})
}

func answerJSON(c echo.Context, contentType string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return errors.Join(errors.New("encode the answer"), err)
	}
	return c.Blob(http.StatusOK, contentType, body)
}
