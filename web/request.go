package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"landfall/appliance/tracing"
)

// mergeSlashes replaces "//" by one slash and removes a trailing slash. Some clients send such
// paths, and a redirect would lose the body of a POST. It allocates nothing for other paths.
func mergeSlashes(u *url.URL) {
	if hasNeedlessSlash(u.Path) {
		u.Path = removeNeedlessSlashes(u.Path)
	}
	if u.RawPath != "" && hasNeedlessSlash(u.RawPath) {
		u.RawPath = removeNeedlessSlashes(u.RawPath)
	}
}

// useDecodedPath lets the router match the decoded path. Browsers escape characters that need no
// escape, such as the colon of a digest, and handlers compare the values in the path with names.
// The escaped path stays if it has an escaped slash, which does not divide segments.
func useDecodedPath(u *url.URL) {
	if !strings.Contains(u.RawPath, "%2F") && !strings.Contains(u.RawPath, "%2f") {
		u.RawPath = ""
	}
}

func hasNeedlessSlash(path string) bool {
	return strings.Contains(path, "//") || len(path) > 1 && path[len(path)-1] == '/'
}

func removeNeedlessSlashes(path string) string {
	var clean strings.Builder
	clean.Grow(len(path))
	for i := range len(path) {
		if path[i] == '/' && (i+1 == len(path) || path[i+1] == '/') {
			continue
		}
		clean.WriteByte(path[i])
	}
	if clean.Len() == 0 {
		return "/"
	}
	return clean.String()
}

// maxLoggedPath is the largest size in bytes of a path in the log. Without a limit, requests with
// long paths would fill the log and its latest lines in memory.
const maxLoggedPath = 1024

// pathForLog returns a path without the token or the code of an image, which would let readers of
// the log download the image, and without what exceeds maxLoggedPath. It allocates nothing for
// other paths.
func pathForLog(path string) string {
	if path = withoutSecret(path); len(path) > maxLoggedPath {
		return path[:maxLoggedPath] + "…" // a new string, because the log keeps it
	}
	return path
}

func withoutSecret(path string) string {
	for _, secretPath := range [...][2]string{{"/byapikey/", "/"}, {"/bytoken/", "/"}, {"/i/", "/."}} {
		prefix, end := secretPath[0], secretPath[1]
		secret, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		if at := strings.IndexAny(secret, end); at >= 0 {
			return prefix + "…" + secret[at:]
		}
		return prefix + "…"
	}
	return path
}

const maxRequestID = 128 // largest number of characters in a client's request ID

type requestIDKey struct{}

// RequestID returns the ID of the request that a context belongs to, or "" outside of requests.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// identify stores the request ID in the request's context and in the response header X-Request-Id.
// It takes the ID from the client's header X-Request-Id. If the client sent no ID, or an ID that is
// unsuitable for a log line, it generates one.
func identify(w http.ResponseWriter, r *http.Request) *http.Request {
	id := r.Header.Get(echo.HeaderXRequestID)
	if !printable(id) {
		id = uuid.NewString()
	}
	w.Header()[headerRequestID] = []string{id}
	return r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
}

// headerRequestID is the name of the header in the canonical form of net/http, so that setting it
// needs no conversion.
const headerRequestID = "X-Request-Id"

func printable(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// LogHandler returns a handler that adds the request ID to each line that is logged with the
// context of a request, and the ID of the trace if one is recorded.
func LogHandler(inner slog.Handler) slog.Handler { return logHandler{inner} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	if id := RequestID(ctx); id != "" {
		record.AddAttrs(slog.String("request_id", id))
	}
	if id := tracing.ID(ctx); id != "" {
		record.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, record)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}
