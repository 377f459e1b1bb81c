package accounts

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams/local"
)

// folders are where those lie that bear labels.
var folders = map[local.Type]string{local.OfOrganization: "/organizations", local.OfAccount: "/accounts",
	local.OfSubscription: "/subscriptions"}

func labelObject(on local.Bearer, id string, label local.Label) object {
	return object{
		"kind": "Label", "id": label.Key, "href": Root + folders[on.Type] + "/" + id + "/labels/" + label.Key,
		"key": label.Key, "value": label.Value,
		"internal": label.Internal, "type": string(on.Type), strings.ToLower(string(on.Type)) + "_id": id,
		"created_at": stamp(label.CreatedAt), "updated_at": stamp(label.UpdatedAt),
	}
}

// bearer finds what the labels of a request are on, and the id that it is shown by.
func (s *service) bearer(c echo.Context) (local.Bearer, string, error) {
	id := c.Param("id")
	switch {
	case strings.HasPrefix(c.Path(), Root+"/organizations/"):
		return local.Bearer{Type: local.OfOrganization}, id, s.ours(id)
	case strings.HasPrefix(c.Path(), Root+"/accounts/"):
		account, err := s.known(id)
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

// labelBody is what a label is made or changed by.
type labelBody struct {
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	Value    string `json:"value"`
	Internal *bool  `json:"internal"`
}

// postLabel makes a label, or gives one that is there another value, as AMS does.
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
		return badRequest(codeValidation, "the key of a label stays; make another one")
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

// writable is bearer for those who may set labels.
func (s *service) writable(c echo.Context) (local.Bearer, string, error) {
	if callerOf(c).ReadOnly {
		return local.Bearer{}, "", &failure{http.StatusForbidden, codeUnauthorized,
			"The token may only read; labels are set with one that was made without --read-only"}
	}
	return s.bearer(c)
}

func readBody(c echo.Context, into any) error {
	if err := json.NewDecoder(c.Request().Body).Decode(into); err != nil {
		return badRequest(codeUnreadable, "The body is not the JSON that is expected: %s", err)
	}
	return nil
}
