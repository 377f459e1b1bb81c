// Package registry serves the appliance's registry over HTTP, by the OCI distribution specification
// 1.1. Its errors have the specification's form, and their messages reach the events of pods, so
// they are sentences for people.
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/fault"
	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	"landfall/web/operation"
)

// Options configures [Operations].
type Options struct {
	Registry *registry.Registry
	// Anonymous lets everybody pull. Pushes always need an account or a token.
	Anonymous bool
	// Login returns the identity of a name and a password, for clients that send them with each
	// request. nil knows none.
	Login func(ctx context.Context, from, name, password string) (access.Identity, error)
	// Admit records that a client was accepted that changes something, with the client's identity
	// in the context. After an error, nothing is changed. nil: nothing is recorded.
	Admit func(ctx context.Context) error
	// LeftOut is called when a client asks for an image whose architecture was not mirrored; it may
	// be nil.
	LeftOut func(ctx context.Context, client string, image *registry.LeftOutError)
	// Leader lets the leader of a fleet answer a request that fails here. It reports false if there
	// is none. nil: this registry is not that of a follower.
	Leader func(w http.ResponseWriter, r *http.Request) bool
	Logger *slog.Logger
}

// handler serves the operations.
type handler struct {
	Options
}

// maxUpload is the largest body of a request, in bytes. Layers are smaller.
const maxUpload = 256 << 30

// Operations returns the operations of the registry. Clients that it does not know may pull.
func Operations(options Options) []operation.Operation {
	h := &handler{options}
	rule := operation.CheckedBy("the registry").Admitting()
	operations := []operation.Operation{
		{Method: http.MethodGet, Path: "/v2", Head: true, Access: rule, Quiet: true, FromCopy: true, Handler: h.base},
		{Method: http.MethodGet, Path: "/v2/", Head: true, Access: rule, Quiet: true, FromCopy: true, Handler: h.base},
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete} {
		operations = append(operations, operation.Operation{Method: method, Path: "/v2/*", Access: rule, Quiet: true,
			FromCopy: isRead(method), Handler: h.serve, BodyLimit: maxUpload, Streams: true})
	}
	return operations
}

// Codes of errors (OCI distribution specification, section "Error Codes").
const (
	codeBlobUnknown     = "BLOB_UNKNOWN"
	codeDigestInvalid   = "DIGEST_INVALID"
	codeManifestUnknown = "MANIFEST_UNKNOWN"
	codeNameInvalid     = "NAME_INVALID"
	codeNameUnknown     = "NAME_UNKNOWN"
	codeUnsupported     = "UNSUPPORTED"
	codeBlobMissing     = "MANIFEST_BLOB_UNKNOWN"
	codeManifestInvalid = "MANIFEST_INVALID"
	codeUploadUnknown   = "BLOB_UPLOAD_UNKNOWN"
	codeUploadInvalid   = "BLOB_UPLOAD_INVALID"
	codeSizeInvalid     = "SIZE_INVALID"
	codeUnauthorized    = "UNAUTHORIZED"
	codeDenied          = "DENIED"
	codeTooMany         = "TOOMANYREQUESTS"
	codeUnavailable     = "UNAVAILABLE" // as other registries name it
	codeUnknown         = "UNKNOWN"
)

// refusal is an error answer.
type refusal struct {
	status     int
	code, text string
	detail     any
	wait       time.Duration // for Retry-After
	header     map[string]string
}

func (r *refusal) Error() string { return r.text }

// base answers that the registry speaks version 2 of the protocol.
func (h *handler) base(c echo.Context) error {
	h.version(c)
	if err := h.admit(c); err != nil {
		return h.refuse(c, err)
	}
	return c.JSONBlob(http.StatusOK, []byte("{}"))
}

func (*handler) version(c echo.Context) {
	c.Response().Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
}

// request is a parsed request: a repository, what is asked of it, and its name.
type request struct {
	repository string
	kind       string // manifests, blobs, uploads, tags, referrers, catalog
	name       string // the tag, digest or upload
}

// parse splits a path below /v2/. The name of a repository may contain the words of the protocol,
// so the path is read from its end.
func parse(path string) (request, bool) {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	n := len(parts)
	name := func(before int) string { return strings.Join(parts[:n-before], "/") }
	switch {
	case path == "_catalog":
		return request{kind: "catalog"}, true
	case n >= 3 && parts[n-2] == "tags" && parts[n-1] == "list":
		return request{name(2), "tags", ""}, true
	case n >= 4 && parts[n-3] == "blobs" && parts[n-2] == "uploads":
		return request{name(3), "uploads", parts[n-1]}, true
	case n >= 3 && parts[n-2] == "blobs" && parts[n-1] == "uploads":
		return request{name(2), "uploads", ""}, true
	case n >= 3 && slices.Contains([]string{"manifests", "blobs", "referrers"}, parts[n-2]):
		return request{name(2), parts[n-2], parts[n-1]}, true
	}
	return request{}, false
}

func (h *handler) serve(c echo.Context) error {
	h.version(c)
	err := h.admit(c)
	if err == nil && h.Admit != nil && !isRead(c.Request().Method) {
		err = h.Admit(c.Request().Context())
	}
	if err == nil {
		err = h.dispatch(c)
	}
	if err == nil || c.Response().Committed {
		return err
	}
	return h.refuse(c, err)
}

func (h *handler) dispatch(c echo.Context) error {
	asked, ok := parse(c.Param("*"))
	switch {
	case !ok:
		return &refusal{status: http.StatusNotFound, code: codeNameInvalid, text: "this path is not one of a registry"}
	case asked.kind != "catalog" && !medium.ValidRepository(asked.repository):
		return &refusal{status: http.StatusBadRequest, code: codeNameInvalid, text: "the name of the repository is " +
			"invalid; use lower case, digits, periods, hyphens and slashes"}
	}
	switch method := c.Request().Method; {
	case asked.kind == "manifests" && isRead(method):
		return h.manifest(c, asked)
	case asked.kind == "blobs" && isRead(method):
		return h.blob(c, asked)
	case asked.kind == "tags" && isRead(method):
		return h.tags(c, asked)
	case asked.kind == "referrers" && isRead(method):
		return h.referrers(c, asked)
	case asked.kind == "manifests" && method == http.MethodPut:
		return h.putManifest(c, asked)
	case asked.kind == "manifests" && method == http.MethodDelete:
		return h.deleted(c, h.Registry.Delete(c.Request().Context(), asked.repository, asked.name))
	case asked.kind == "blobs" && method == http.MethodDelete:
		return h.deleteBlob(c, asked)
	case asked.kind == "uploads":
		return h.upload(c, asked)
	}
	return &refusal{status: http.StatusMethodNotAllowed, code: codeUnsupported,
		text: "this registry does not support this request"}
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// errAlone is the answer of a follower for what it does not have.
var errAlone = &refusal{status: http.StatusServiceUnavailable, code: codeUnavailable, wait: busyWait,
	text: "this member does not have it, and the fleet has no leader now that may have it; try again"}

// refuse answers with an error, unless the leader of a fleet answers instead.
func (h *handler) refuse(c echo.Context, err error) error {
	r := refusalOf(err)
	if h.Leader != nil {
		if h.fromLeader(c) {
			return nil
		}
		if r.status == http.StatusNotFound {
			r = errAlone
		}
	}
	if r.status >= http.StatusInternalServerError && r.status != http.StatusServiceUnavailable {
		h.Logger.ErrorContext(c.Request().Context(), "The registry could not answer a request.", "path",
			c.Request().URL.Path, "error", err)
	}
	return r.write(c.Response())
}

// fromLeader lets the leader answer. Nothing of the answer was sent yet.
func (h *handler) fromLeader(c echo.Context) bool {
	header := c.Response().Header()
	ours := header.Clone()
	clear(header)
	if h.Leader(c.Response(), c.Request()) {
		return true
	}
	maps.Copy(header, ours)
	return false
}

func (r *refusal) write(w http.ResponseWriter) error {
	header := w.Header()
	if r.wait > 0 {
		header.Set("Retry-After", strconv.Itoa(int(r.wait.Seconds())))
	}
	for name, value := range r.header {
		header.Set(name, value)
	}
	body, err := json.Marshal(map[string]any{"errors": []map[string]any{{"code": r.code, "message": r.text,
		"detail": r.detail}}})
	if err != nil {
		return err
	}
	header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	w.WriteHeader(r.status)
	_, err = w.Write(body)
	return err
}

// IsRequest reports whether a request is one for a registry.
func IsRequest(r *http.Request) bool {
	return r.URL.Path == "/v2" || strings.HasPrefix(r.URL.Path, "/v2/")
}

// Refuse answers a request for a registry with an error.
func Refuse(w http.ResponseWriter, err error) error { return refusalOf(err).write(w) }

// refusalOf returns the answer for an error.
func refusalOf(err error) *refusal {
	var r *refusal
	var unavailable *registry.UnavailableError
	var incomplete *registry.IncompleteError
	var busy *registry.BusyError
	var damaged *registry.DamagedError
	var broken *medium.ReadError
	if found := pushRefusal(err); found != nil {
		return found
	}
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, registry.ErrManifestUnknown):
		return &refusal{status: http.StatusNotFound, code: codeManifestUnknown, text: err.Error()}
	case errors.Is(err, registry.ErrBlobUnknown):
		return &refusal{status: http.StatusNotFound, code: codeBlobUnknown, text: err.Error()}
	case errors.Is(err, registry.ErrNameUnknown):
		return &refusal{status: http.StatusNotFound, code: codeNameUnknown, text: err.Error()}
	case errors.As(err, &busy):
		return &refusal{status: http.StatusTooManyRequests, code: codeTooMany, text: err.Error(), wait: busyWait}
	case errors.As(err, &incomplete): // no Retry-After: only a person can change the answer
		return &refusal{status: http.StatusServiceUnavailable, code: codeBlobMissing, text: err.Error(),
			detail: incomplete.Missing}
	case errors.As(err, &unavailable):
		return &refusal{status: http.StatusServiceUnavailable, code: codeUnavailable, text: err.Error(),
			wait: unavailable.RetryAfter}
	case errors.As(err, &broken):
		return &refusal{status: http.StatusServiceUnavailable, code: codeUnavailable, text: err.Error(), wait: busyWait}
	case errors.As(err, &damaged):
		return &refusal{status: http.StatusInternalServerError, code: codeUnknown, text: err.Error()}
	case errors.Is(err, context.Canceled):
		return &refusal{status: http.StatusServiceUnavailable, code: codeUnavailable, text: "the request ended"}
	case fault.KindOf(err) == fault.Unavailable:
		return &refusal{status: http.StatusServiceUnavailable, code: codeUnavailable, text: fault.Reason(err),
			wait: busyWait}
	}
	return &refusal{status: http.StatusInternalServerError, code: codeUnknown, text: fault.Reason(err)}
}

// busyWait is the wait that a client is told if too many others read.
const busyWait = 5 * time.Second
