package rp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
)

func (s service) getSubscription(c echo.Context) error {
	document, err := s.GetSubscription(c.Param("subscription"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, document)
}

func (s service) putSubscription(c echo.Context) error {
	body, err := bodyOf(c)
	if err != nil {
		return err
	}
	given := new(provider.SubscriptionDocument)
	if err := body.Into(given); err != nil {
		return arm.Fieldf("state", "The subscription can't be read: %s.", err)
	}
	document, created, err := s.PutSubscription(c.Request().Context(), c.Param("subscription"), given)
	if err != nil {
		return err
	}
	if created {
		return c.JSON(http.StatusCreated, document)
	}
	return c.JSON(http.StatusOK, document)
}

func (s service) listClusters(c echo.Context) error {
	return answerList(c, func(after string, limit int) ([]arm.Document, string, error) {
		return s.ListClusters(idOf(c, ""), after, limit)
	})
}

func (s service) getCluster(c echo.Context) error {
	document, err := s.ShowCluster(idOf(c, ""))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, document)
}

func (s service) putCluster(c echo.Context) error {
	caller, body, err := changeOf(c)
	if err != nil {
		return err
	}
	result, err := s.PutCluster(c.Request().Context(), caller, idOf(c, ""), body)
	return answerPut(c, result, err)
}

func (s service) patchCluster(c echo.Context) error {
	caller, body, err := changeOf(c)
	if err != nil {
		return err
	}
	result, err := s.PatchCluster(c.Request().Context(), caller, idOf(c, ""), body)
	return answerPatch(c, result, err)
}

func (s service) deleteCluster(c echo.Context) error {
	caller, err := callerOf(c)
	if err != nil {
		return err
	}
	result, err := s.DeleteCluster(c.Request().Context(), caller, idOf(c, ""))
	return answerDelete(c, result, err)
}

func (s service) listChildren(kind string) echo.HandlerFunc {
	return func(c echo.Context) error {
		return answerList(c, func(after string, limit int) ([]arm.Document, string, error) {
			return s.ListChildren(idOf(c, kind), after, limit)
		})
	}
}

func (s service) getChild(kind string) echo.HandlerFunc {
	return func(c echo.Context) error {
		document, err := s.ShowChild(idOf(c, kind))
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, document)
	}
}

func (s service) putChild(kind string) echo.HandlerFunc {
	put := s.PutExternalAuth
	if kind == arm.NodePools {
		put = s.PutNodePool
	}
	return changeChild(kind, put, answerPut)
}

func (s service) patchChild(kind string) echo.HandlerFunc {
	patch := s.PatchExternalAuth
	if kind == arm.NodePools {
		patch = s.PatchNodePool
	}
	return changeChild(kind, patch, answerPatch)
}

// changeChild returns a handler that changes a child resource by a body.
func changeChild(kind string,
	change func(context.Context, provider.Caller, arm.ID, arm.Document) (*provider.Result, error),
	answer func(echo.Context, *provider.Result, error) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller, body, err := changeOf(c)
		if err != nil {
			return err
		}
		result, err := change(c.Request().Context(), caller, idOf(c, kind), body)
		return answer(c, result, err)
	}
}

func (s service) deleteChild(kind string) echo.HandlerFunc {
	remove := s.DeleteExternalAuth
	if kind == arm.NodePools {
		remove = s.DeleteNodePool
	}
	return func(c echo.Context) error {
		caller, err := callerOf(c)
		if err != nil {
			return err
		}
		result, err := remove(c.Request().Context(), caller, idOf(c, kind))
		return answerDelete(c, result, err)
	}
}

func (s service) requestCredential(c echo.Context) error {
	caller, err := callerOf(c)
	if err != nil {
		return err
	}
	csr := ""
	if arm.NeedsCSR(caller.Version) {
		body, err := bodyOf(c)
		if err != nil {
			return err
		}
		if csr = body.Text("certificateSigningRequest"); csr == "" {
			return arm.Fieldf("certificateSigningRequest", "The field certificateSigningRequest is missing; the "+
				"api-version %s requires it.", caller.Version)
		}
	}
	o, err := s.RequestCredential(c.Request().Context(), caller, idOf(c, ""), csr)
	return answerAction(c, o, err)
}

func (s service) revokeCredentials(c echo.Context) error {
	caller, err := callerOf(c)
	if err != nil {
		return err
	}
	o, err := s.RevokeCredentials(c.Request().Context(), caller, idOf(c, ""))
	return answerAction(c, o, err)
}

func answerAction(c echo.Context, o *record.Operation, err error) error {
	if err != nil {
		return err
	}
	accept(c, o, true)
	return c.NoContent(http.StatusAccepted)
}

// versionOf returns a release as a version of the resource provider.
func versionOf(subscription, location string, r provider.Release) arm.Document {
	return arm.Document{
		"id": "/subscriptions/" + subscription + "/providers/" + arm.Provider + "/locations/" + location + "/" +
			arm.Versions + "/" + r.Version,
		"name": r.Version, "type": arm.Provider + "/locations/" + arm.Versions,
		"properties": map[string]any{"channelGroup": "stable", "enabled": true},
	}
}

func (s service) listVersions(c echo.Context) error {
	if err := s.CheckSubscription(c.Param("subscription"), false); err != nil {
		return err
	}
	value := []arm.Document{}
	for _, r := range s.Site.Releases() {
		value = append(value, versionOf(c.Param("subscription"), c.Param("location"), r))
	}
	return c.JSON(http.StatusOK, page{Value: value})
}

func (s service) getVersion(c echo.Context) error {
	if err := s.CheckSubscription(c.Param("subscription"), false); err != nil {
		return err
	}
	for _, r := range s.Site.Releases() {
		if r.Version == c.Param("version") {
			return c.JSON(http.StatusOK, versionOf(c.Param("subscription"), c.Param("location"), r))
		}
	}
	return arm.Errorf(fault.NotFound, arm.CodeResourceNotFound, "The site offers no release %s.", c.Param("version"))
}

// operationStatus is the status of an operation.
type operationStatus struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Status    string     `json:"status"`
	StartTime string     `json:"startTime"`
	EndTime   string     `json:"endTime,omitempty"`
	Error     *arm.Error `json:"error,omitempty"`
}

func (s service) getOperation(c echo.Context) error {
	caller, err := callerOf(c)
	if err != nil {
		return err
	}
	o, err := s.Operation(c.Param("subscription"), c.Param("operation"), caller)
	if err != nil {
		return err
	}
	if o == nil {
		return c.NoContent(http.StatusNotFound)
	}
	answer := operationStatus{ID: "/subscriptions/" + o.Resource.Subscription + "/providers/" + arm.Provider +
		"/locations/" + c.Param("location") + "/" + arm.OperationStatuses + "/" + o.ID, Name: o.ID, Status: o.Status,
		StartTime: timeText(o.Start), Error: o.Error}
	if !o.End.IsZero() {
		answer.EndTime = timeText(o.End)
	} else {
		c.Response().Header().Set(echo.HeaderRetryAfter, retryAfter)
	}
	return c.JSON(http.StatusOK, answer)
}

func (s service) getResult(c echo.Context) error {
	caller, err := callerOf(c)
	if err != nil {
		return err
	}
	result, err := s.Result(c.Param("subscription"), c.Param("operation"), caller)
	if err != nil {
		return err
	}
	if result == nil {
		return c.NoContent(http.StatusNotFound)
	}
	o := result.Operation
	switch {
	case !record.IsTerminal(o.Status):
		accept(c, o, true)
		return c.NoContent(http.StatusAccepted)
	case o.Status != record.Succeeded:
		failure := o.Error
		if failure == nil {
			failure = arm.Errorf(0, arm.CodeCanceled, "The operation was canceled.")
		}
		return writeError(c, http.StatusConflict, failure)
	case result.Credential != nil:
		if access.From(c.Request().Context()).Role < access.Administrator {
			return &statusError{http.StatusForbidden, arm.Errorf(fault.Forbidden, "AuthorizationFailed",
				"A kubeconfig of a hosted cluster requires the role admin; ask an administrator.")}
		}
		return c.JSON(http.StatusOK, result.Credential)
	case o.Kind == record.Create && result.Resource != nil:
		return c.JSON(http.StatusCreated, result.Resource)
	case o.Kind == record.Update && result.Resource != nil:
		return c.JSON(http.StatusOK, result.Resource)
	}
	return c.NoContent(http.StatusNoContent)
}

// preflight answers the check of a deployment. It skips the resources that it can't know.
func (s service) preflight(c echo.Context) error {
	body, err := bodyOf(c)
	if err != nil {
		return err
	}
	var request struct {
		Resources []json.RawMessage `json:"resources"`
	}
	if err := body.Into(&request); err != nil {
		return arm.Fieldf("resources", "The resources can't be read: %s.", err)
	}
	id := idOf(c, "")
	if err := id.Check(); err != nil {
		return err
	}
	var known []provider.PreflightResource
	for _, text := range request.Resources {
		if resource, ok := preflightResource(id, text); ok {
			known = append(known, resource)
		}
	}
	failures, err := s.Preflight(c.Request().Context(), id.Subscription, known)
	if err != nil {
		return err
	}
	switch len(failures) {
	case 0:
		return c.JSON(http.StatusOK, map[string]string{"status": record.Succeeded})
	case 1:
		return c.JSON(http.StatusOK, map[string]any{"status": record.Failed, "error": failures[0]})
	}
	return c.JSON(http.StatusOK, map[string]any{"status": record.Failed, "error": &arm.Error{
		Code: arm.CodeMultiple, Message: "Several resources are invalid.", Details: failures}})
}

// preflightResource reads a resource of a deployment. ok is false for a resource with template
// expressions, without a name, of an unknown type or API version, or that can't be read.
func preflightResource(at arm.ID, text json.RawMessage) (resource provider.PreflightResource, ok bool) {
	document, err := arm.Decode(text)
	if err != nil || arm.CheckVersion(document.Text("apiVersion")) != nil ||
		hasExpression(map[string]any(document)) {
		return resource, false
	}
	kind, names := document.Text("type"), strings.Split(document.Text("name"), "/")
	if slices.Contains(names, "") || len(names) > 2 {
		return resource, false
	}
	for _, name := range []string{"name", "type", "apiVersion", "scope", "dependsOn", "condition", "comments",
		"zones"} {
		delete(document, name)
	}
	id, childTypes := arm.ID{Subscription: at.Subscription, Group: at.Group, Cluster: names[0]}, []string{""}
	if len(names) == 2 {
		id.Child, childTypes = names[1], []string{arm.NodePools, arm.ExternalAuths}
	}
	for _, id.ChildType = range childTypes {
		if strings.EqualFold(kind, id.Type()) {
			return provider.PreflightResource{ID: id, Body: document}, true
		}
	}
	return resource, false
}

// hasExpression reports whether a value contains a template expression, such as
// "[parameters('x')]".
func hasExpression(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]")
	case map[string]any:
		for _, inner := range value {
			if hasExpression(inner) {
				return true
			}
		}
	case []any:
		for _, inner := range value {
			if hasExpression(inner) {
				return true
			}
		}
	}
	return false
}

// armOperation is an operation as the list of a resource provider describes it.
type armOperation struct {
	Name         string            `json:"name"`
	IsDataAction bool              `json:"isDataAction"`
	Display      map[string]string `json:"display"`
}

func (s service) listOperations(c echo.Context) error {
	value := []armOperation{}
	for _, kind := range []struct{ resource, words string }{{arm.Clusters, "hosted cluster"},
		{arm.Clusters + "/" + arm.NodePools, "node pool"}, {arm.Clusters + "/" + arm.ExternalAuths, "external auth"}} {
		for _, action := range []string{"read", "write", "delete"} {
			value = append(value, armOperation{Name: arm.Provider + "/" + kind.resource + "/" + action,
				Display: map[string]string{"provider": "Hosted OpenShift clusters", "resource": kind.resource,
					"operation": action + " " + kind.words}})
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"value": value})
}
