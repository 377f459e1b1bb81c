package accounts

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams/local"
	"landfall/web/operation"
)

// collections holds the paths of the objects that have labels.
var collections = map[local.Type]string{local.OfOrganization: "/organizations", local.OfAccount: "/accounts",
	local.OfSubscription: "/subscriptions"}

func labelObject(on local.Bearer, id string, label local.Label) object {
	return object{
		"kind": "Label", "id": label.Key, "href": Root + collections[on.Type] + "/" + id + "/labels/" + label.Key,
		"key": label.Key, "value": label.Value,
		"internal": label.Internal, "type": string(on.Type), strings.ToLower(string(on.Type)) + "_id": id,
		"created_at": stamp(label.CreatedAt), "updated_at": stamp(label.UpdatedAt),
	}
}

// bearer returns the object whose labels the request reads or changes, and the ID of the object for
// the response.
func (s *service) bearer(c echo.Context) (local.Bearer, string, error) {
	id := c.Param("id")
	switch {
	case strings.HasPrefix(c.Path(), Root+"/organizations/"):
		return local.Bearer{Type: local.OfOrganization}, id, s.checkOrganization(id)
	case strings.HasPrefix(c.Path(), Root+"/accounts/"):
		account, err := s.findAccount(id)
		return local.Bearer{Type: local.OfAccount, Name: account.Username}, account.ID, err
	}
	subscription, err := s.Subscriptions.Subscription(c.Request().Context(), id)
	if err != nil {
		return local.Bearer{}, "", err
	}
	return subscriptionBearer(subscription), text(subscription["id"]), nil
}

func subscriptionBearer(subscription object) local.Bearer {
	return local.Bearer{Type: local.OfSubscription, Name: text(subscription["cluster_id"])}
}

// labelOperations returns the operations on labels.
func (s *service) labelOperations() []operation.Operation {
	var all []operation.Operation
	for _, bearer := range []struct{ name, path string }{
		{"Organization", "/organizations/:id"}, {"Account", "/accounts/:id"}, {"Subscription", "/subscriptions/:id"},
	} {
		labels, label := bearer.path+"/labels", bearer.path+"/labels/:key"
		all = append(all,
			operation.Operation{ID: "list" + bearer.name + "Labels", Method: http.MethodGet, Path: labels,
				Handler: s.listLabels, Summary: "List labels", Status: http.StatusOK, Answer: operation.AnyObject{}},
			operation.Operation{ID: "post" + bearer.name + "Label", Method: http.MethodPost, Path: labels,
				Handler: s.postLabel, Summary: "Create a label, or change its value", Body: labelBody{},
				Status: http.StatusCreated, Answer: operation.AnyObject{}},
			operation.Operation{ID: "get" + bearer.name + "Label", Method: http.MethodGet, Path: label,
				Handler: s.getLabel, Summary: "Show a label", Status: http.StatusOK, Answer: operation.AnyObject{}},
			operation.Operation{ID: "patch" + bearer.name + "Label", Method: http.MethodPatch, Path: label,
				Handler: s.patchLabel, Summary: "Change a label", Body: labelBody{}, Status: http.StatusOK,
				Answer: operation.AnyObject{}},
			operation.Operation{ID: "delete" + bearer.name + "Label", Method: http.MethodDelete, Path: label,
				Handler: s.deleteLabel, Summary: "Delete a label", Status: http.StatusNoContent},
		)
	}
	return all
}

func (s *service) listLabels(c echo.Context) error {
	on, id, err := s.bearer(c)
	if err != nil {
		return err
	}
	labels, err := s.Site.Labels(on)
	if err != nil {
		return err
	}
	var all []object
	for _, label := range labels {
		all = append(all, labelObject(on, id, label))
	}
	return list(c, "LabelList", all, []string{
		"id", "kind", "href", "key", "value", "internal", "type", "organization_id", "account_id", "subscription_id",
		"created_at", "updated_at",
	})
}

func (s *service) getLabel(c echo.Context) error {
	on, id, err := s.bearer(c)
	if err != nil {
		return err
	}
	label, err := s.Site.Label(on, c.Param("key"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, labelObject(on, id, *label))
}

// labelBody is the body of a request to create or change a label.
type labelBody struct {
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	Value    string `json:"value"`
	Internal *bool  `json:"internal"`
}

// postLabel creates a label, or changes the value of an existing one, as AMS does.
func (s *service) postLabel(c echo.Context) error {
	on, id, err := s.writable(c)
	if err != nil {
		return err
	}
	var body labelBody
	if err := readBody(c, &body); err != nil {
		return err
	}
	label, made, err := s.Site.SetLabel(c.Request().Context(), on, local.Label{Key: body.Key, Value: body.Value,
		Internal: body.Internal != nil && *body.Internal})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if made {
		status = http.StatusCreated
	}
	return c.JSON(status, labelObject(on, id, label))
}

func (s *service) patchLabel(c echo.Context) error {
	on, id, err := s.writable(c)
	if err != nil {
		return err
	}
	held, err := s.Site.Label(on, c.Param("key"))
	if err != nil {
		return err
	}
	var body labelBody
	if err := readBody(c, &body); err != nil {
		return err
	}
	if body.Key != "" && body.Key != held.Key {
		return badRequest(codeValidation, "the key of a label cannot be changed; create another label")
	}
	held.Value = body.Value
	if body.Internal != nil {
		held.Internal = *body.Internal
	}
	label, _, err := s.Site.SetLabel(c.Request().Context(), on, *held)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, labelObject(on, id, label))
}

func (s *service) deleteLabel(c echo.Context) error {
	on, _, err := s.writable(c)
	if err != nil {
		return err
	}
	if err := s.Site.DeleteLabel(c.Request().Context(), on, c.Param("key")); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// writable is the variant of bearer for requests that change labels. It rejects callers with a
// read-only token.
func (s *service) writable(c echo.Context) (local.Bearer, string, error) {
	if callerOf(c).ReadOnly {
		return local.Bearer{}, "", &failure{http.StatusForbidden, codeUnauthorized,
			"The token is read-only; use a token that was created without --read-only"}
	}
	return s.bearer(c)
}

func readBody(c echo.Context, into any) error {
	if err := json.NewDecoder(c.Request().Body).Decode(into); err != nil {
		return badRequest(codeUnreadable, "The body is not the expected JSON: %s", err)
	}
	return nil
}
