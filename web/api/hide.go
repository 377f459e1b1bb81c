package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/engine/description"
	"landfall/ignition"
)

// overrides matches the fields with free text of Ignition configs, install-configs and the
// arguments of coreos-installer, which may contain passwords and keys.
var overrides = regexp.MustCompile(
	`"(ignition_config_overrides?|install_config_overrides|installer_args|ignition_endpoint_token)":` +
		`"(?:[^"\\]|\\.)+"`)

// hiddenOverride replaces the value of a hidden field. It is not valid JSON, so a client cannot
// store it by sending back what it has read.
const hiddenOverride = `"$1":"` + ignition.HiddenSecret + `"`

// staticNetworks matches the static networks of infra-envs, which may contain passwords.
var staticNetworks = regexp.MustCompile(`"static_network_config":"(?:[^"\\]|\\.)+"`)

// mustHide reports whether secrets are hidden from an account or a token.
func mustHide(c echo.Context) bool {
	caller := access.From(c.Request().Context())
	return (caller.Kind == access.Person || caller.Kind == access.Program) && caller.Role < access.Administrator
}

// hideSecrets hides overrides and the secrets of static networks in a JSON response.
func hideSecrets(response []byte) []byte {
	response = staticNetworks.ReplaceAllFunc(response, func(field []byte) []byte {
		name, value, _ := bytes.Cut(field, []byte(":"))
		var networks string
		if err := json.Unmarshal(value, &networks); err != nil {
			return append(name, `:"`+ignition.HiddenSecret+`"`...)
		}
		hidden := description.HideNetworkSecrets(networks)
		if hidden == networks {
			return field
		}
		text, err := json.Marshal(hidden)
		if err != nil {
			return append(name, `:"`+ignition.HiddenSecret+`"`...)
		}
		return slices.Concat(name, []byte(":"), text)
	})
	return overrides.ReplaceAll(response, []byte(hiddenOverride))
}

// hiding returns a handler that hides secrets in the JSON responses to callers who are no
// administrators, and to those with a link. The responses are rendered once for all callers, so
// they are changed here.
func hiding(handler echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !mustHide(c) && access.From(c.Request().Context()).Kind != access.Link {
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
		text := hideSecrets(w.body.Bytes())
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
