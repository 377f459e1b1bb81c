// Package rp serves the API of the resource provider for hosted clusters: the resources of
// Microsoft.RedHatOpenShift below /subscriptions and /providers, with the headers, errors and
// asynchronous operations of Azure Resource Manager.
//
// Paths are compared without case; see [arm.CanonicalPath], which the server applies first.
//
// Design: docs/design.md#hosted-control-planes.
package rp

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/web/operation"
	"landfall/web/problem"
)

// The roots of the API.
const (
	Subscriptions = "/subscriptions"
	Providers     = "/providers"
)

// bodyLimit is the largest body of a request in bytes.
const bodyLimit = 4 << 20

// retryAfter is the time in seconds after which clients ask again.
const retryAfter = "10"

type service struct{ *provider.Service }

// Operations returns the operations of the resource provider.
func Operations(p *provider.Service) []operation.Operation {
	s := service{p}
	const (
		subscription = Subscriptions + "/:subscription"
		ofProvider   = "/providers/" + arm.Provider
		locations    = subscription + ofProvider + "/locations/:location"
		group        = subscription + "/resourceGroups/:group"
		clusters     = group + ofProvider + "/" + arm.Clusters
		cluster      = clusters + "/:cluster"
	)
	viewer, operator, administrator := operation.For(access.Viewer), operation.For(access.Operator),
		operation.For(access.Administrator)
	operations := []operation.Operation{
		{ID: "getHostedSubscription", Method: http.MethodGet, Path: subscription, Access: viewer,
			Handler: s.getSubscription, Summary: "Show a subscription", Status: http.StatusOK,
			Answer: provider.SubscriptionDocument{}, Errors: []int{400, 404}},
		{ID: "putHostedSubscription", Method: http.MethodPut, Path: subscription, Access: administrator,
			Handler: s.putSubscription, Summary: "Make a subscription known, or change its state",
			Body: provider.SubscriptionDocument{}, Status: http.StatusOK, Answer: provider.SubscriptionDocument{},
			Errors: []int{400}},
		{ID: "listHostedClusters", Method: http.MethodGet, Path: subscription + ofProvider + "/" + arm.Clusters,
			Access: viewer, Handler: s.listClusters, Summary: "List the hosted clusters of a subscription"},
		{ID: "listHostedClustersOfGroup", Method: http.MethodGet, Path: clusters, Access: viewer,
			Handler: s.listClusters,
			Summary: "List the hosted clusters of a resource group"},
		{ID: "getHostedCluster", Method: http.MethodGet, Path: cluster, Access: viewer, Handler: s.getCluster,
			Summary: "Show a hosted cluster"},
		{ID: "putHostedCluster", Method: http.MethodPut, Path: cluster, Access: operator, Handler: s.putCluster,
			Summary: "Create or replace a hosted cluster"},
		{ID: "patchHostedCluster", Method: http.MethodPatch, Path: cluster, Access: operator, Handler: s.patchCluster,
			Summary: "Change fields of a hosted cluster"},
		{ID: "deleteHostedCluster", Method: http.MethodDelete, Path: cluster, Access: operator,
			Handler: s.deleteCluster,
			Summary: "Delete a hosted cluster with its node pools"},
		{ID: "requestHostedCredential", Method: http.MethodPost, Path: cluster + "/requestAdminCredential",
			Access: administrator, Handler: s.requestCredential,
			Summary: "Request a kubeconfig of the administrator; the result of the operation contains it"},
		{ID: "revokeHostedCredentials", Method: http.MethodPost, Path: cluster + "/revokeCredentials",
			Access: administrator, Handler: s.revokeCredentials,
			Summary: "Revoke all kubeconfigs of the administrator"},
		{ID: "listHostedVersions", Method: http.MethodGet, Path: locations + "/" + arm.Versions, Access: viewer,
			Handler: s.listVersions, Summary: "List the versions for hosted clusters"},
		{ID: "getHostedVersion", Method: http.MethodGet, Path: locations + "/" + arm.Versions + "/:version",
			Access: viewer, Handler: s.getVersion, Summary: "Show a version for hosted clusters"},
		{ID: "getHostedOperation", Method: http.MethodGet, Path: locations + "/" + arm.OperationStatuses +
			"/:operation",
			Access: viewer, Handler: s.getOperation, Quiet: true, Summary: "Show the status of an operation"},
		{ID: "getHostedOperationResult", Method: http.MethodGet,
			Path: locations + "/" + arm.OperationResults + "/:operation", Access: viewer.WithSecret(), Quiet: true,
			Handler: s.getResult, Summary: "Show the result of an operation; a kubeconfig for administrators only"},
		{ID: "preflightHostedDeployment", Method: http.MethodPost,
			Path:   group + ofProvider + "/deployments/:deployment/preflight",
			Access: operator, Handler: s.preflight, Summary: "Check the resources of a deployment before it starts"},
		{ID: "listHostedOperations", Method: http.MethodGet, Path: Providers + "/" + arm.Provider + "/operations",
			Access: viewer, Handler: s.listOperations, Summary: "List the operations of the resource provider"},
		{Method: operation.RouteNotFound, Path: Subscriptions + "/*", Access: viewer, Handler: noRoute},
		{Method: operation.RouteNotFound, Path: Providers + "/*", Access: viewer, Handler: noRoute},
	}
	for _, kind := range []string{arm.NodePools, arm.ExternalAuths} {
		name := strings.ToUpper(kind[:1]) + kind[1:len(kind)-1]
		words := map[string]string{arm.NodePools: "node pool", arm.ExternalAuths: "external authentication"}[kind]
		all, one := cluster+"/"+kind, cluster+"/"+kind+"/:child"
		operations = append(operations,
			operation.Operation{ID: "listHosted" + name + "s", Method: http.MethodGet, Path: all, Access: viewer,
				Handler: s.listChildren(kind), Summary: "List the " + words + "s of a hosted cluster"},
			operation.Operation{ID: "getHosted" + name, Method: http.MethodGet, Path: one, Access: viewer,
				Handler: s.getChild(kind), Summary: "Show a " + words},
			operation.Operation{ID: "putHosted" + name, Method: http.MethodPut, Path: one, Access: operator,
				Handler: s.putChild(kind), Summary: "Create or replace a " + words},
			operation.Operation{ID: "patchHosted" + name, Method: http.MethodPatch, Path: one, Access: operator,
				Handler: s.patchChild(kind), Summary: "Change fields of a " + words},
			operation.Operation{ID: "deleteHosted" + name, Method: http.MethodDelete, Path: one, Access: operator,
				Handler: s.deleteChild(kind), Summary: "Delete a " + words})
	}
	for i := range operations {
		o := &operations[i]
		o.BodyLimit, o.TooLarge = bodyLimit, answerError
		checksVersion := o.ID != "getHostedSubscription" && o.ID != "putHostedSubscription" &&
			o.ID != "listHostedOperations" && o.ID != ""
		o.Handler = wrap(o.Handler, checksVersion)
	}
	return operations
}

// LocalOperations returns the operations that only the listeners for debugging serve.
func LocalOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "getHostedHealth", Method: http.MethodGet, Path: "/healthz", Access: operation.Public(),
			Handler: func(c echo.Context) error { return c.NoContent(http.StatusOK) }, Summary: "Report that it runs"},
		{ID: "getHostedLocation", Method: http.MethodGet, Path: "/location", Access: operation.Public(),
			Handler: func(c echo.Context) error { return c.String(http.StatusOK, provider.Location) },
			Summary: "Show the name of the region"},
	}
}

// wrap adds what all operations have in common: headers, the check of the API version and of the
// media type, and the format of errors.
func wrap(next echo.HandlerFunc, checksVersion bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, header := c.Request(), c.Response().Header()
		header.Set("X-Ms-Request-Id", header.Get(echo.HeaderXRequestID))
		header.Set(echo.HeaderCacheControl, "no-store")
		if id := r.Header.Get("X-Ms-Client-Request-Id"); id != "" && len(id) <= 128 &&
			strings.EqualFold(r.Header.Get("X-Ms-Return-Client-Request-Id"), "true") {
			header.Set("X-Ms-Client-Request-Id", id)
		}
		var err error
		if checksVersion {
			err = arm.CheckVersion(c.QueryParam("api-version"))
		}
		if err == nil {
			err = checkMediaType(r)
		}
		if err == nil {
			err = next(c)
		}
		if err == nil || c.Response().Committed {
			return err
		}
		return answerError(c, err)
	}
}

func checkMediaType(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodDelete || r.ContentLength == 0 {
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	if err != nil || kind != echo.MIMEApplicationJSON {
		return &statusError{http.StatusUnsupportedMediaType, arm.Errorf(fault.Invalid, arm.CodeMediaType,
			"The body has the media type %q; send application/json.", r.Header.Get(echo.HeaderContentType))}
	}
	return nil
}

// statusError is an error with a status of its own.
type statusError struct {
	status int
	cause  *arm.Error
}

func (e *statusError) Error() string { return e.cause.Error() }
func (e *statusError) Unwrap() error { return e.cause }

// answerError sends an error in the format of Azure Resource Manager.
func answerError(c echo.Context, err error) error {
	failure := problem.From(err)
	body, ok := errors.AsType[*arm.Error](err)
	if !ok {
		code := arm.CodeInternal
		switch failure.Status {
		case http.StatusServiceUnavailable, http.StatusInsufficientStorage:
			code = arm.CodeUnavailable
			c.Response().Header().Set(echo.HeaderRetryAfter, "59")
		case http.StatusRequestEntityTooLarge:
			failure.Status, code = http.StatusBadRequest, arm.CodeInvalidResource
		case http.StatusBadRequest:
			code = arm.CodeInvalidContent
		case http.StatusConflict:
			code = arm.CodeConflict
		case http.StatusNotFound:
			code = arm.CodeNotFound
		}
		body = arm.Errorf(0, code, "%s", failure.Reason)
		if failure.Status == http.StatusInternalServerError {
			if sending := writeError(c, failure.Status, body); sending != nil {
				return errors.Join(sending, err)
			}
			return &problem.AnsweredError{Err: err}
		}
	}
	if own, ok := errors.AsType[*statusError](err); ok {
		failure.Status = own.status
	}
	if _, ok := errors.AsType[*provider.RevokingError](err); ok {
		c.Response().Header().Set(echo.HeaderRetryAfter, retryAfter)
	}
	return writeError(c, failure.Status, body)
}

func writeError(c echo.Context, status int, body *arm.Error) error {
	c.Response().Header().Set("X-Ms-Error-Code", body.Code)
	return c.JSON(status, map[string]*arm.Error{"error": body})
}

func noRoute(c echo.Context) error {
	return arm.Errorf(fault.NotFound, arm.CodeNotFound, "The path %s does not belong to the resource provider.",
		c.Request().URL.Path)
}

// callerOf returns who sends a request.
func callerOf(c echo.Context) (provider.Caller, error) {
	r := c.Request()
	caller := provider.Caller{Name: access.From(r.Context()).String(), Tenant: r.Header.Get("X-Ms-Home-Tenant-Id"),
		Client: r.Header.Get("X-Ms-Client-Object-Id"), Version: c.QueryParam("api-version")}
	if text := r.Header.Get("X-Ms-Arm-Resource-System-Data"); text != "" {
		caller.SystemData = new(record.SystemData)
		if err := json.Unmarshal([]byte(text), caller.SystemData); err != nil {
			return caller, arm.Errorf(fault.Invalid, arm.CodeInvalidContent,
				"The header X-Ms-Arm-Resource-System-Data can't be read: %s.", err)
		}
	}
	return caller, nil
}

// idOf returns the ID in the path of a request.
func idOf(c echo.Context, childType string) arm.ID {
	id := arm.ID{Subscription: c.Param("subscription"), Group: c.Param("group"), Cluster: c.Param("cluster"),
		Child: c.Param("child")}
	if id.Child != "" || childType != "" {
		id.ChildType = childType
	}
	return id
}

// bodyOf reads the body of a request.
func bodyOf(c echo.Context) (arm.Document, error) {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return nil, err
	}
	return arm.Decode(body)
}

// changeOf reads who sends a request, and its body.
func changeOf(c echo.Context) (caller provider.Caller, body arm.Document, err error) {
	if caller, err = callerOf(c); err != nil {
		return caller, nil, err
	}
	body, err = bodyOf(c)
	return caller, body, err
}

// base returns the scheme and the host under which the client knows the API. Azure Resource Manager
// sends its own address as the referer.
func base(r *http.Request) *url.URL {
	if from, err := url.Parse(r.Referer()); err == nil && from.Host != "" &&
		(from.Scheme == "https" || from.Scheme == "http") &&
		strings.HasPrefix(strings.ToLower(from.Path), Subscriptions+"/") {
		return &url.URL{Scheme: from.Scheme, Host: from.Host}
	}
	scheme := "http"
	if r.TLS != nil || r.Header.Get(echo.HeaderXForwardedProto) == "https" {
		scheme = "https"
	}
	return &url.URL{Scheme: scheme, Host: r.Host}
}

// operationURL returns the URL of the status or the result of an operation.
func operationURL(c echo.Context, kind, subscription, id string) string {
	at := base(c.Request())
	at.Path = Subscriptions + "/" + subscription + Providers + "/" + arm.Provider + "/locations/" + provider.Location +
		"/" +
		kind + "/" + id
	at.RawQuery = url.Values{"api-version": {c.QueryParam("api-version")}}.Encode()
	return at.String()
}

// accept sets the headers of an answer whose work goes on.
func accept(c echo.Context, o *record.Operation, withLocation bool) {
	header := c.Response().Header()
	header.Set("Azure-AsyncOperation", operationURL(c, arm.OperationStatuses, o.Resource.Subscription, o.ID))
	if withLocation {
		header.Set(echo.HeaderLocation, operationURL(c, arm.OperationResults, o.Resource.Subscription, o.ID))
		header.Set(echo.HeaderRetryAfter, retryAfter)
	}
}

// answerPut answers a PUT: 201 for a new resource, 200 for a changed one.
func answerPut(c echo.Context, result *provider.Result, err error) error {
	if err != nil {
		return err
	}
	accept(c, result.Operation, false)
	if result.Created {
		return c.JSON(http.StatusCreated, result.Resource)
	}
	return c.JSON(http.StatusOK, result.Resource)
}

func answerPatch(c echo.Context, result *provider.Result, err error) error {
	if err != nil {
		return err
	}
	accept(c, result.Operation, true)
	return c.JSON(http.StatusAccepted, result.Resource)
}

// answerDelete answers a DELETE: 204 if there was nothing to delete.
func answerDelete(c echo.Context, result *provider.Result, err error) error {
	if err != nil {
		return err
	}
	if result == nil {
		return c.NoContent(http.StatusNoContent)
	}
	accept(c, result.Operation, true)
	return c.NoContent(http.StatusAccepted)
}

// page is a page of a list.
type page struct {
	Value    []arm.Document `json:"value"`
	NextLink string         `json:"nextLink,omitempty"`
}

// maxPage limits $top.
const maxPage = 100

// answerList answers a list with the link to its next page.
func answerList(c echo.Context, list func(after string, limit int) ([]arm.Document, string, error)) error {
	after, limit := c.QueryParam("$skipToken"), provider.PageSize
	if top := c.QueryParam("$top"); top != "" && after != "" {
		n, err := strconv.Atoi(top)
		if err != nil || n < 1 {
			return arm.Errorf(fault.Invalid, arm.CodeInvalidParameter,
				"The parameter $top is %q; it must be a positive number.",
				top)
		}
		limit = min(n, maxPage)
	}
	value, next, err := list(after, limit)
	if err != nil {
		return err
	}
	answer := page{Value: value}
	if next != "" {
		at := base(c.Request())
		at.Path = c.Request().URL.Path
		query := c.Request().URL.Query()
		query.Set("$skipToken", next)
		at.RawQuery = query.Encode()
		answer.NextLink = at.String()
	}
	return c.JSON(http.StatusOK, answer)
}

// timeText returns a time as in the answers of Azure Resource Manager.
func timeText(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
