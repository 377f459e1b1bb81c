package web

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"landfall/web/operation"
)

// compressedBytes is the size below which responses are not compressed: they fit into one packet.
const compressedBytes = 1400

// newCompression returns the function that compresses responses with gzip for clients that accept
// it. It keeps its writers for the next response.
func newCompression() (func(http.Handler) http.HandlerFunc, error) {
	return gzhttp.NewWrapper(gzhttp.MinSize(compressedBytes), gzhttp.CompressionLevel(gzip.BestSpeed),
		gzhttp.ContentTypes([]string{echo.MIMEApplicationJSON}), gzhttp.EnableZstd(false), gzhttp.SuffixETag("-gzip"))
}

// isCompressed reports whether the responses of an operation are compressed: JSON that people read.
// Files and images are compressed or large already, and have ranges. The agents' polls are small
// and frequent. Secrets are not compressed, because the size of a compressed response depends on
// its content (BREACH).
func isCompressed(o operation.Operation) bool {
	switch o.Answer.(type) {
	case nil, operation.File:
		return false
	}
	return !o.Quiet && !o.Streams && o.Endless == nil && !o.Access.Secret && o.Access.CheckedBy == "" &&
		o.Method != operation.Any
}

// compress wraps the handler of an operation.
func (s *Server) compress(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		response := c.Response()
		// An error without a response is answered by the error handler, uncompressed.
		defer c.SetResponse(response)
		s.compression(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.SetResponse(echo.NewResponse(w, c.Echo()))
			err = next(c)
		})).ServeHTTP(response, c.Request())
		return err
	}
}
