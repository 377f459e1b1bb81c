// Package operation defines the table entries from which the appliance's APIs are registered,
// guarded and described. Each package under web keeps one table a noun; package web registers the
// entries, and package web/api/openapi makes the OpenAPI document from them.
//
// Design: docs/design.md#one-table-entry-for-each-operation.
package operation

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// Access names the rule for the callers of an operation. The zero value is no rule: a server
// refuses to register an operation without one.
type Access string

// Rules for callers.
const (
	// Anyone lets every client call that reaches the port. It is the rule of all operations that
	// need no token, until authentication adds others.
	Anyone Access = "anyone"
	// AccountToken requires a bearer token of the accounts API, which its handlers check.
	AccountToken Access = "account-token"
)

// Methods besides those of net/http.
const (
	// Any stands for all methods.
	Any = "*"
	// RouteNotFound stands for the requests below a path that no other operation answers.
	RouteNotFound = echo.RouteNotFound
)

// Operation is one operation of an API: its route, its handler, the rules that the server applies
// to it, and its description.
type Operation struct {
	// ID names the operation in the API's description (operationId). Routes that are no operations,
	// such as those that answer 405, have none.
	ID      string
	Method  string
	Path    string // in echo's form: /v2/clusters/:cluster_id
	Access  Access
	Handler echo.HandlerFunc

	// Head also registers the handler for HEAD.
	Head bool
	// BodyLimit is the largest request body in bytes; 0 means the server's limit.
	BodyLimit int64
	// Quiet marks an operation that is called so often that a successful request is logged at debug
	// level only.
	Quiet bool

	Summary    string
	Parameters []Parameter // besides those of the path
	Body       any         // a value of the request body's type; nil if there is none
	Status     int         // of success
	NoContent  bool        // 204 is also a success
	Answer     any         // a value of the answer's type; nil if there is none
	Errors     []int       // statuses besides 422
	Addition   bool        // Landfall's own operation in an API of the Assisted Installer
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

// Bodies and answers that have no Go type.
type (
	// File is a body of any bytes.
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

// Below returns the operations with a prefix before their paths.
func Below(prefix string, operations []Operation) []Operation {
	below := make([]Operation, len(operations))
	for i, o := range operations {
		o.Path = prefix + o.Path
		below[i] = o
	}
	return below
}
