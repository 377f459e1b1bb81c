package web

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/store/fastjson"
)

// serializer renders the answers of all handlers. It renders the whole answer before it sends the
// header, so that a failure becomes an error instead of half an answer, and the header has the
// length.
type serializer struct{ echo.DefaultJSONSerializer }

// Serialize implements echo.JSONSerializer.
func (s serializer) Serialize(c echo.Context, value any, indent string) error {
	if indent != "" {
		return s.DefaultJSONSerializer.Serialize(c, value, indent)
	}
	return fastjson.Write(wholeAnswer{c.Response()}, value)
}

// wholeAnswer is the response of an answer that is written at once. It sets the length in the
// header.
type wholeAnswer struct{ *echo.Response }

// Write implements io.Writer.
func (w wholeAnswer) Write(text []byte) (int, error) {
	w.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(text)))
	return w.Response.Write(text)
}
