// Package problem defines the errors that HTTP clients receive, in the formats of the Assisted
// Installer's API. The server's error handler converts the error of a handler with [From] and sends
// it with [Write].
// Design: docs/design.md#kinds-of-errors.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	openapi "github.com/go-openapi/errors"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/fault"
	"landfall/appliance/sentence"
	"landfall/store"
)

// SchemaCode is the code in the body of a 422 response if the error has no code of its own. The
// codes of go-openapi, which upstream's server uses, begin at 601; 605 means that a value does not
// match the required pattern.
const SchemaCode = 605

// Error is an error response.
type Error struct {
	// Status is the HTTP status of the response, 400 to 599.
	Status int
	// Code is the code in the body of a 422 response; 0 means [SchemaCode].
	Code int32
	// Reason is one sentence that names the error, its location and the remedy.
	Reason string
	// Page is the body in HTML for a person whose browser opened the path. "": the body is JSON.
	Page string
	// Err is the cause for the log. It may be nil.
	Err error
}

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.Err }

// AnsweredError is an error whose answer a handler has sent in a format of its own. The server only
// logs it.
type AnsweredError struct{ Err error }

func (e *AnsweredError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AnsweredError) Unwrap() error { return e.Err }

// New returns an error with an HTTP status and a formatted sentence.
func New(status int, format string, args ...any) *Error {
	return &Error{Status: status, Reason: fmt.Sprintf(format, args...)}
}

// BadRequest returns a 400: the request is invalid.
func BadRequest(format string, args ...any) *Error {
	return New(http.StatusBadRequest, format, args...)
}

// Unauthorized returns a 401: the request has no valid credentials.
func Unauthorized(format string, args ...any) *Error {
	return New(http.StatusUnauthorized, format, args...)
}

// Forbidden returns a 403: the client lacks the permission.
func Forbidden(format string, args ...any) *Error { return New(http.StatusForbidden, format, args...) }

// NotFound returns a 404: the requested resource does not exist.
func NotFound(format string, args ...any) *Error { return New(http.StatusNotFound, format, args...) }

// Conflict returns a 409: the request is not possible in the current state.
func Conflict(format string, args ...any) *Error { return New(http.StatusConflict, format, args...) }

// Unavailable returns a 503: a requirement is not met now and may be met later.
func Unavailable(format string, args ...any) *Error {
	return New(http.StatusServiceUnavailable, format, args...)
}

// Schema returns a 422 for a value that violates the API's schema. The response has the code of the
// go-openapi error. For several errors, it has the code of the first error and the messages of all.
func Schema(err error) *Error {
	var sentences []string
	var code int32
	eachCause(err, func(cause error) {
		sentences = append(sentences, schemaMessage(cause))
		var coded openapi.Error
		if code == 0 && errors.As(cause, &coded) {
			code = coded.Code()
		}
	})
	return &Error{Status: http.StatusUnprocessableEntity, Code: code, Reason: strings.Join(sentences, "; "), Err: err}
}

// schemaMessage returns the message of a schema error. For fields with addresses or kernel
// arguments, it names the expected format instead of the regular expression.
func schemaMessage(err error) string {
	failed, ok := errors.AsType[*openapi.Validation](err)
	if !ok || failed.Code() != openapi.PatternFailCode {
		return err.Error()
	}
	switch {
	case strings.HasSuffix(failed.Name, "cidr"):
		return fmt.Sprintf("%s is %q, which is not a network in CIDR notation, such as 192.168.0.0/24", failed.Name,
			failed.Value)
	case strings.HasSuffix(failed.Name, ".ip"):
		return fmt.Sprintf("%s is %q, which is not an IP address, such as 192.168.0.7", failed.Name, failed.Value)
	case strings.HasSuffix(failed.Name, "mac_address"):
		return fmt.Sprintf("%s is %q, which is not a MAC address, such as 52:54:00:12:34:56", failed.Name, failed.Value)
	case strings.HasPrefix(failed.Name, "kernel_arguments"):
		return fmt.Sprintf("%s is %q, which is not one kernel argument; write it without blanks, or put the blanks "+
			"between double quotes, such as console=ttyS0", failed.Name, failed.Value)
	}
	return err.Error()
}

func eachCause(err error, visit func(error)) {
	if composite, ok := err.(*openapi.CompositeError); ok && len(composite.Errors) > 0 {
		for _, cause := range composite.Errors {
			eachCause(cause, visit)
		}
		return
	}
	visit(err)
}

// From returns the response for any error, by the first rule that applies:
//
//   - an [*Error] in the chain of the error: this [*Error]
//   - a body above its limit: 413
//   - a failed write to the store: 503
//   - a classified error (package fault): the status of its kind
//   - an error of echo: the status that echo chose
//   - a connection that the client closed: 499
//   - any other error: 500 with the text of the error
func From(err error) *Error {
	if response, ok := errors.AsType[*Error](err); ok {
		return response
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return TooLarge(tooLarge.Limit)
	}
	if failed, ok := errors.AsType[*store.WriteError](err); ok {
		return &Error{Status: http.StatusServiceUnavailable, Reason: failed.Error(), Err: err}
	}
	if status, ok := statusOf(fault.KindOf(err)); ok {
		return &Error{Status: status, Reason: fault.Reason(err), Err: err}
	}
	if routed, ok := errors.AsType[*echo.HTTPError](err); ok {
		return &Error{Status: routed.Code, Reason: fmt.Sprint(routed.Message), Err: routed.Internal}
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Status: statusClientGone,
			Reason: "the client closed the connection before the response was ready",
			Err:    err}
	}
	return &Error{Status: http.StatusInternalServerError, Reason: err.Error(), Err: err}
}

// statusOf returns the HTTP status for a kind of error. ok is false for an internal error.
func statusOf(kind fault.Kind) (status int, ok bool) {
	statuses := [...]int{
		fault.Invalid:         http.StatusBadRequest,
		fault.NotFound:        http.StatusNotFound,
		fault.Conflict:        http.StatusConflict,
		fault.Unavailable:     http.StatusServiceUnavailable,
		fault.Schema:          http.StatusUnprocessableEntity,
		fault.Forbidden:       http.StatusForbidden,
		fault.TooLarge:        http.StatusRequestEntityTooLarge,
		fault.NoSpace:         http.StatusInsufficientStorage,
		fault.Unauthenticated: http.StatusUnauthorized,
	}
	if kind <= 0 || int(kind) >= len(statuses) {
		return 0, false
	}
	return statuses[kind], true
}

// statusClientGone is nginx's status for a client that closed the connection. It appears in the log
// only.
const statusClientGone = 499

// TooLarge returns a 413 for a body that is larger than limit bytes.
func TooLarge(limit int64) *Error {
	return New(http.StatusRequestEntityTooLarge,
		"the request body is larger than the limit of %d bytes; send less, or raise the limit under "+
			"limits in the configuration", limit)
}

// Body returns the JSON value of the error: [models.InfraError] for 401 and 403, a code and a
// message for 422, and [models.Error] for all others.
func (e *Error) Body() any {
	status, reason := int32(e.Status), clip(e.Reason)
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &models.InfraError{Code: &status, Message: &reason}
	case http.StatusUnprocessableEntity:
		code := e.Code
		if code == 0 {
			code = SchemaCode
		}
		return &schemaBody{Code: code, Message: reason}
	}
	code, kind, href := strconv.Itoa(e.Status), models.ErrorKindError, ""
	return &models.Error{Code: &code, Href: &href, ID: &status, Kind: &kind, Reason: &reason}
}

// sentenceLimit is the largest length of a reason in bytes. A sentence that quotes the request must
// not become as long as the request.
const sentenceLimit = 2000

// clip makes a reason one readable line. It writes unprintable characters as Go escapes and
// shortens a long text in the middle.
func clip(reason string) string {
	if len(reason) > sentenceLimit {
		reason = strings.ToValidUTF8(reason[:sentenceLimit/2], "") + "…" +
			strings.ToValidUTF8(reason[len(reason)-sentenceLimit/2:], "")
	}
	return sentence.Escape(reason, func(r rune) bool { return !unicode.IsPrint(r) })
}

type schemaBody struct {
	Code    int32  `json:"code"`
	Message string `json:"message"`
}

// Write sends the error. The response to a HEAD request has no body.
func Write(w http.ResponseWriter, r *http.Request, e *Error) error {
	body, err := json.Marshal(e.Body())
	if err != nil {
		return fmt.Errorf("encode the error %q: %w", e.Reason, err)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	if e.Page != "" {
		body = []byte(e.Page)
		header.Set("Content-Type", echo.MIMETextHTMLCharsetUTF8)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Del("Content-Disposition") // the name of a file that the handler could not write
	w.WriteHeader(e.Status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err = w.Write(body)
	return err
}
