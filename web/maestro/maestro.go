// Package maestro serves the bundles and consumers of hosted clusters in the format of Maestro's
// REST API, and operations of Landfall on the consumers: certificates, holds, decisions.
//
// As in Maestro, bundles can be read and deleted here, but neither created nor changed. Maestro's
// gRPC API, by which other programs are sources of bundles, is not served.
//
// Design: docs/design.md#hosted-control-planes.
package maestro

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/hosted"
	"landfall/appliance/hosted/maestro"
	"landfall/store"
	"landfall/web/api/openapi"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Root is the root of the API.
const Root = "/api/maestro/v1"

// object is an object of the API.
type object = map[string]any

type service struct {
	*hosted.Service
	db *store.DB
}

// Operations returns the operations of the API.
func Operations(h *hosted.Service) []operation.Operation {
	s := service{h, h.Provider.DB}
	viewer, operator, administrator := operation.For(access.Viewer), operation.For(access.Operator),
		operation.For(access.Administrator)
	const (
		consumers = Root + "/consumers"
		consumer  = consumers + "/:id"
		bundles   = Root + "/resource-bundles"
		bundle    = bundles + "/:id"
	)
	all := []operation.Operation{
		{ID: "listResourceBundles", Method: http.MethodGet, Path: bundles, Access: viewer, Handler: s.listBundles,
			Summary: "List the bundles of management clusters by a search"},
		{ID: "getResourceBundle", Method: http.MethodGet, Path: bundle, Access: viewer, Handler: s.getBundle,
			Summary: "Show a bundle: its manifests and what the management cluster reports"},
		{ID: "deleteResourceBundle", Method: http.MethodDelete, Path: bundle, Access: administrator,
			Handler: s.deleteBundle, Summary: "Delete a bundle and its objects on the management cluster",
			Status: http.StatusNoContent},
		{ID: "listConsumers", Method: http.MethodGet, Path: consumers, Access: viewer, Handler: s.listConsumers,
			Summary: "List the management clusters"},
		{ID: "postConsumer", Method: http.MethodPost, Path: consumers, Access: operator, Handler: s.postConsumer,
			Summary: "Add a management cluster", Body: consumerBody{}, Status: http.StatusCreated},
		{ID: "getConsumer", Method: http.MethodGet, Path: consumer, Access: viewer, Handler: s.getConsumer,
			Summary: "Show a management cluster"},
		{ID: "patchConsumer", Method: http.MethodPatch, Path: consumer, Access: operator, Handler: s.patchConsumer,
			Summary: "Replace the labels of a management cluster", Body: consumerBody{}},
		{ID: "deleteConsumer", Method: http.MethodDelete, Path: consumer, Access: operator, Handler: s.deleteConsumer,
			Summary: "Remove a management cluster that has no bundles", Status: http.StatusNoContent},
		{ID: "getConsumerConnection", Method: http.MethodGet, Path: consumer + "/connection", Access: viewer,
			Handler: s.connection, Summary: "Show the connection of a management cluster, its hold and its findings",
			Status: http.StatusOK, Answer: Connection{}, Addition: true},
		{ID: "postConsumerCredentials", Method: http.MethodPost, Path: consumer + "/credentials",
			Access: administrator.WithSecret(), Handler: s.issue,
			Summary: "Issue a client certificate for the agent of a management cluster", Status: http.StatusCreated,
			Answer: Credentials{}, Addition: true},
		{ID: "deleteConsumerCredential", Method: http.MethodDelete, Path: consumer + "/credentials/:serial",
			Access: administrator, Handler: s.revoke, Summary: "Revoke a client certificate",
			Status: http.StatusNoContent, Addition: true},
		{ID: "postConsumerHold", Method: http.MethodPost, Path: consumer + "/hold", Access: operator, Handler: s.hold,
			Summary: "Send nothing more to a management cluster", Status: http.StatusNoContent, Addition: true},
		{ID: "deleteConsumerHold", Method: http.MethodDelete, Path: consumer + "/hold", Access: administrator,
			Handler: s.release, Summary: "Send to a management cluster again", Status: http.StatusNoContent,
			Addition: true},
		{ID: "postFindingDecision", Method: http.MethodPost, Path: consumer + "/findings/:bundle",
			Access: administrator, Handler: s.decide,
			Summary: "Decide about a bundle that contradicts this appliance: adopt, delete or ignore it",
			Body:    Decision{}, Status: http.StatusNoContent, Addition: true},
		{ID: "listMaestroErrors", Method: http.MethodGet, Path: Root + "/errors", Access: viewer, Handler: listErrors,
			Summary: "List the errors of the API"},
		{ID: "getMaestroError", Method: http.MethodGet, Path: Root + "/errors/:id", Access: viewer, Handler: getError,
			Summary: "Show an error of the API"},
	}
	all = append(all, openAPIOperation(all))
	for _, path := range []string{bundles, bundle} {
		for _, method := range []string{http.MethodPost, http.MethodPatch} {
			all = append(all, operation.Operation{Method: method, Path: path, Access: viewer, Handler: notAllowed})
		}
	}
	all = append(all, operation.Operation{Method: operation.RouteNotFound, Path: Root + "/*", Access: viewer,
		Handler: echo.NotFoundHandler})
	for i := range all {
		all[i].Handler = wrap(all[i].Handler)
	}
	return all
}

// openAPIOperation returns the operation that describes the others in OpenAPI.
func openAPIOperation(others []operation.Operation) operation.Operation {
	self := operation.Operation{ID: "getMaestroOpenAPI", Method: http.MethodGet, Path: Root + "/openapi",
		Access: operation.For(access.Viewer), Summary: "Show this OpenAPI document", Status: http.StatusOK,
		Answer: operation.AnyObject{}}
	described := append(slices.Clone(others), self)
	for i := range described {
		o := &described[i]
		o.Path = strings.TrimPrefix(o.Path, Root)
		o.Status = cmp.Or(o.Status, http.StatusOK)
		if o.Answer == nil && o.Status != http.StatusNoContent {
			o.Answer = operation.AnyObject{}
		}
	}
	document := openapi.Describe("Maestro's REST API, as Landfall serves it", "v1", Root, described)
	self.Handler = func(c echo.Context) error { return c.JSON(http.StatusOK, document) }
	return self
}

func notAllowed(echo.Context) error {
	return problem.New(http.StatusMethodNotAllowed,
		"Bundles are created and changed by their hosted clusters, not here")
}

// codes are the errors of Maestro by HTTP status.
var codes = map[int]struct {
	id     int
	reason string
}{
	http.StatusForbidden:           {4, "Forbidden to perform this action"},
	http.StatusConflict:            {6, "An entity with the specified unique values already exists"},
	http.StatusNotFound:            {7, "Resource not found"},
	http.StatusUnprocessableEntity: {8, "General validation failure"},
	http.StatusInternalServerError: {9, "Unspecified error"},
	http.StatusMethodNotAllowed:    {10, "HTTP Method not implemented for this endpoint"},
	http.StatusUnauthorized:        {15, "Account authentication could not be verified"},
	http.StatusBadRequest:          {21, "Bad request"},
}

// errSearch is the number of errors in searches.
const errSearch = 23

func errorObject(id int, reason string) object {
	text := strconv.Itoa(id)
	return object{"id": text, "kind": "Error", "href": Root + "/errors/" + text, "code": "maestro-" + text,
		"reason": reason}
}

func listErrors(c echo.Context) error {
	items := []object{}
	for id := range errSearch + 1 {
		if found := errorByID(id); found != nil {
			items = append(items, found)
		}
	}
	return c.JSON(http.StatusOK, object{"kind": "ErrorList", "page": 1, "size": len(items), "total": len(items),
		"items": items})
}

func getError(c echo.Context) error {
	id, err := strconv.Atoi(c.Param("id"))
	if err != nil || errorByID(id) == nil {
		return problem.NotFound("Error with id='%s' not found", c.Param("id"))
	}
	return c.JSON(http.StatusOK, errorByID(id))
}

func errorByID(id int) object {
	if id == errSearch {
		return errorObject(id, "Failed to parse search query")
	}
	for _, code := range codes {
		if code.id == id {
			return errorObject(id, code.reason)
		}
	}
	return nil
}

// searchError is an error in a search.
type searchError struct{ error }

// wrap returns a handler whose errors have the format of Maestro.
func wrap(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
		err := next(c)
		if err == nil || c.Response().Committed {
			return err
		}
		if wrong, ok := err.(searchError); ok {
			return answerError(c, http.StatusBadRequest, errSearch, wrong.Error())
		}
		failure := problem.From(err)
		code, known := codes[failure.Status]
		if !known {
			return err
		}
		return answerError(c, failure.Status, code.id, failure.Reason)
	}
}

func answerError(c echo.Context, status, id int, reason string) error {
	answer := errorObject(id, reason)
	answer["operation_id"] = c.Response().Header().Get(echo.HeaderXRequestID)
	return c.JSON(status, answer)
}

// nameOf returns the name of the person or program that sent a request.
func nameOf(c echo.Context) string {
	return cmp.Or(access.From(c.Request().Context()).Name, "somebody")
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// Decision is the body of a decision about a finding.
type Decision struct {
	Decision maestro.Decision `json:"decision"`
	// Name repeats the name of a bundle that is to be deleted.
	Name string `json:"name,omitempty"`
}

func (s service) decide(c echo.Context) error {
	var body Decision
	if err := operation.ReadJSON(c, &body); err != nil {
		return err
	}
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	if err := s.Maestro.Decide(c.Request().Context(), consumer.Name, c.Param("bundle"), body.Decision, body.Name,
		nameOf(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s service) hold(c echo.Context) error {
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	if err := s.Maestro.HoldConsumer(c.Request().Context(), consumer.Name, nameOf(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s service) release(c echo.Context) error {
	consumer, err := s.consumer(c)
	if err != nil {
		return err
	}
	if err := s.Maestro.Release(c.Request().Context(), consumer.Name, nameOf(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
