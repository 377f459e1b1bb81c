package web

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/store/fastjson"
)

// serializer encodes the JSON responses of all handlers. It encodes the whole response before it
// sends the header. A failure therefore becomes an error response, and the header contains the
// length.
type serializer struct{ echo.DefaultJSONSerializer }

// Serialize implements echo.JSONSerializer.
func (s serializer) Serialize(c echo.Context, value any, indent string) error {
	if indent != "" {
		return s.DefaultJSONSerializer.Serialize(c, value, indent)
	}
	return fastjson.Write(wholeAnswer{c.Response()}, value)
}

// wholeAnswer is a response whose body is written in one call. It sets the length in the header.
type wholeAnswer struct{ *echo.Response }

// Write implements io.Writer.
func (w wholeAnswer) Write(text []byte) (int, error) {
	w.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(text)))
	return w.Response.Write(text)
}
