package api

import (
	"bytes"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
)

// overrides matches the fields with free text of Ignition configs, install-configs and the
// arguments of coreos-installer, which may contain passwords and keys.
var overrides = regexp.MustCompile(
	`"(ignition_config_overrides?|install_config_overrides|installer_args|ignition_endpoint_token)":` +
		`"(?:[^"\\]|\\.)+"`)

// hiddenOverride replaces the value of a hidden field. It is not valid JSON, so a client cannot
// store it by sending back what it has read.
const hiddenOverride = `"$1":"hidden: only administrators can read it"`

// mustHide reports whether overrides are hidden from the caller.
func mustHide(c echo.Context) bool {
	caller := access.From(c.Request().Context())
	return (caller.Kind == access.Person || caller.Kind == access.Program) && caller.Role < access.Administrator
}

// hiding returns a handler that hides overrides in the JSON responses to callers who are no
// administrators. The responses are rendered once for all callers, so they are changed here.
func hiding(handler echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !mustHide(c) {
			return handler(c)
		}
		response := c.Response()
		w := &hidingWriter{ResponseWriter: response.Writer}
		response.Writer = w
		err := handler(c)
		response.Writer = w.ResponseWriter
		if !w.json {
			return err
		}
		text := overrides.ReplaceAll(w.body.Bytes(), []byte(hiddenOverride))
		w.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(text)))
		w.ResponseWriter.WriteHeader(w.status)
		if _, writeErr := w.ResponseWriter.Write(text); err == nil {
			err = writeErr
		}
		return err
	}
}

// hidingWriter keeps a JSON response until its end. It passes other responses on.
type hidingWriter struct {
	http.ResponseWriter
	status int
	json   bool
	body   bytes.Buffer
}

func (w *hidingWriter) WriteHeader(status int) {
	w.status = status
	if w.json = strings.HasPrefix(w.Header().Get(echo.HeaderContentType), echo.MIMEApplicationJSON); !w.json {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *hidingWriter) Write(part []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.json {
		return w.body.Write(part)
	}
	return w.ResponseWriter.Write(part)
}
