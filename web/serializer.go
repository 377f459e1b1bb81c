package web

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/store/fastjson"
)

// serializer renders the answers of all handlers. An answer is rendered before its header is sent,
// so that one that can't be rendered becomes an error and not half an answer, and the header says
// how long it is.
type serializer struct{ echo.DefaultJSONSerializer }

// Serialize implements echo.JSONSerializer.
func (s serializer) Serialize(c echo.Context, value any, indent string) error {
	if indent != "" {
		return s.DefaultJSONSerializer.Serialize(c, value, indent)
	}
	return fastjson.Write(wholeAnswer{c.Response()}, value)
}

// wholeAnswer is for an answer that is written at once: its header says how long that is.
type wholeAnswer struct{ *echo.Response }

// Write implements io.Writer.
func (w wholeAnswer) Write(text []byte) (int, error) {
	w.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(text)))
	return w.Response.Write(text)
}
