package web

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"landfall/store/fastjson"
)

// serializer renders the answers of all handlers. An answer is rendered before its header is sent, so that one that can't be
// rendered becomes an error and not half an answer, and the header says how long it is.
type serializer struct{ echo.DefaultJSONSerializer }

// Serialize implements echo.JSONSerializer.
func (s serializer) Serialize(c echo.Context, value any, indent string) error {
	if indent != "" {
		return s.DefaultJSONSerializer.Serialize(c, value, indent)
	}
	text, err := fastjson.Marshal(value)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(text)+1))
	_, err = c.Response().Write(append(text, '\n'))
	return err
}
