// Package operation defines the entries of the tables of operations: route, handler, access rule
// and description. The packages that serve an API (such as web/api and web/console) have such a
// table in each file of a noun (clusters, hosts, ...). Package web registers the entries as routes
// and applies their rules; package web/api/openapi generates the OpenAPI document from them.
// Design: docs/design.md#one-table-entry-for-each-operation.
package operation

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"
)

// Methods in addition to those of net/http.
const (
	// Any means all methods.
	Any = "*"
	// RouteNotFound means all requests below a path that match no other route.
	RouteNotFound = echo.RouteNotFound
)

// Operation is one operation of an API: its route, its handler, the rules that the server applies,
// and its description.
type Operation struct {
	// ID identifies the operation in the OpenAPI document (operationId). Routes that are not
	// operations, such as those that only respond with 405, have no ID.
	ID      string
	Method  string
	Path    string // in echo's form: /v2/clusters/:cluster_id
	Access  Access
	Handler echo.HandlerFunc

	// Head also registers the handler for HEAD.
	Head bool
	// BodyLimit is the largest request body in bytes; 0 means the server's limit.
	BodyLimit int64
	// TooLarge answers a request with a body above the limit in the format of the API; nil: the
	// general format.
	TooLarge func(c echo.Context, err error) error
	// Streams marks an operation whose handler processes a large body as it arrives, and does not
	// hold it in memory.
	Streams bool
	// Endless reports whether the response to a request does not end on its own; nil means that all
	// responses do. An endless response ends when the credentials of its request become invalid.
	Endless func(r *http.Request) bool
	// DryRun marks an operation that can be tried: its handler checks everything until the end of
	// its first update of the store, and has no other effects before. See store.DryRun. Package
	// recording lets such a handler run before its record in the audit trail is on the disk.
	DryRun bool
	// FromCopy marks an operation that a follower of a fleet may answer from its copy of the
	// database: it only reads rows, and its answer is the same on each member.
	FromCopy bool
	// WithoutLeader marks an operation that the leader of a fleet answers, and a follower only
	// while no member leads: its answer may then lack what the leader knows.
	WithoutLeader bool
	// Quiet marks an operation with very frequent requests. Successful requests are logged at debug
	// level only.
	Quiet bool

	Summary    string
	Parameters []Parameter // in addition to those in the path
	Body       any         // a value of the request body's type; nil if there is none
	Status     int         // status of success
	NoContent  bool        // status 204 is also a success
	Answer     any         // a value of the response's type; nil if there is no body
	Errors     []int       // statuses of errors in addition to 422
	Addition   bool        // an operation of Landfall in an API of the Assisted Installer
}

// Parameter describes a parameter of an operation.
type Parameter struct {
	Name     string
	Type     Type
	In       string // "query" if empty
	Required bool
	Values   []string // the permitted values; nil if any value is permitted
}

// Type is the type of a parameter.
type Type int

// Types of parameters. Lists are separated by commas.
const (
	Text Type = iota
	TextList
	UUID
	UUIDList
	Flag
	Number
)

// Bodies and responses that have no Go type.
type (
	// File is a body with any bytes.
	File struct{}
	// Upload is a multipart form with a file named upfile.
	Upload struct{}
	// AnyObject is any JSON object.
	AnyObject struct{}
)

// Methods returns the methods for which the operation is registered.
func (o Operation) Methods() []string {
	switch {
	case o.Method == Any:
		return []string{http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions,
			http.MethodPatch, http.MethodPost, echo.PROPFIND, http.MethodPut, http.MethodTrace, echo.REPORT}
	case o.Head:
		return []string{o.Method, http.MethodHead}
	}
	return []string{o.Method}
}

// Below returns the operations with a prefix prepended to their paths.
func Below(prefix string, operations []Operation) []Operation {
	below := make([]Operation, len(operations))
	for i, o := range operations {
		o.Path = prefix + o.Path
		below[i] = o
	}
	return below
}

// HasSecret prepares the response to a request for a secret: it is not compressed, and no client or
// proxy stores it. It is for operations that return a secret only to some clients; see
// Access.WithSecret.
func HasSecret(c echo.Context) {
	header := c.Response().Header()
	header.Set(gzhttp.HeaderNoCompression, "1")
	header.Set(echo.HeaderCacheControl, "no-store")
}
