package maestro

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/search"
	"landfall/store"
	"landfall/web/problem"
)

// labelField is the field of searches for which there is an index.
var labelField = search.PayloadLabel(bundle.LabelCluster)

func (s service) listBundles(c echo.Context) error {
	q, err := readQuery(c, search.BundleColumns)
	if err != nil {
		return err
	}
	var found []row
	var answer object
	if err := s.db.View(func(tx *store.Tx) error {
		if err := candidates(tx, q.search, func(b *bundle.Bundle) error {
			return q.add(&found, row{func(path []string) any { return columnOf(b, path) }, func() (object, error) {
				return bundleObject(tx, b)
			}})
		}); err != nil {
			return err
		}
		answer, err = q.list("ResourceBundleList", found)
		return err
	}); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, answer) // after the transaction: the client may be slow
}

// candidates calls fn with the bundles that may match a search. It reads an index if the search
// limits its field.
func candidates(tx *store.Tx, expression search.Expression, fn func(*bundle.Bundle) error) error {
	if ids, ok := expression.Required("id"); ok {
		for _, id := range ids {
			b, err := bundle.Get(tx, id)
			if errors.Is(err, bundle.ErrNotFound) {
				continue
			}
			if err == nil {
				err = fn(b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for _, index := range []struct {
		field string
		each  func(*store.Tx, string, func(*bundle.Bundle) error) error
	}{{labelField, bundle.EachOfCluster}, {"consumer_name", bundle.EachOfConsumer}} {
		if values, ok := expression.Required(index.field); ok {
			for _, value := range values {
				if err := index.each(tx, value, fn); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return bundle.Each(tx, fn)
}

// columnOf returns the value of a column, or of a JSON path in the payload.
func columnOf(b *bundle.Bundle, path []string) any {
	switch path[0] {
	case "id", "name":
		return b.ID
	case "version":
		return b.Version
	case "source":
		return broker.SourceID
	case "consumer_name":
		return b.Consumer
	case "created_at":
		return b.Created
	case "updated_at":
		return b.Updated
	case "deleted_at":
		return b.Deleted
	}
	var value any = payloadOf(b, path[1:])
	for _, key := range path[1:] {
		object, ok := value.(object)
		if !ok {
			return nil
		}
		value = object[key]
	}
	return value
}

// payloadOf returns the part of the payload that a JSON path needs.
func payloadOf(b *bundle.Bundle, path []string) object {
	if len(path) > 0 && path[0] == "metadata" {
		labels := object{}
		for key, value := range b.Labels {
			labels[key] = value
		}
		metadata := metadataOf(b)
		metadata["labels"], metadata["generation"] = labels, float64(b.Version)
		return object{"metadata": metadata}
	}
	return object{"id": b.ID, "source": broker.SourceID,
		"data": object{"manifests": bundle.WithoutSecrets(b.Manifests)}}
}

func metadataOf(b *bundle.Bundle) object {
	metadata := object{"name": b.Name, "uid": b.ID, "creationTimestamp": rfc3339(b.Created)}
	if len(b.Labels) > 0 {
		metadata["labels"] = b.Labels
	}
	if len(b.Annotations) > 0 {
		metadata["annotations"] = b.Annotations
	}
	if b.Deleting() {
		metadata["deletionTimestamp"] = rfc3339(b.Deleted)
	}
	return metadata
}

func bundleObject(tx *store.Tx, b *bundle.Bundle) (object, error) {
	answer := object{"id": b.ID, "kind": "ResourceBundle", "href": Root + "/resource-bundles/" + b.ID, "name": b.ID,
		"consumer_name": b.Consumer, "version": b.Version, "created_at": rfc3339(b.Created),
		"updated_at": rfc3339(b.Updated), "metadata": metadataOf(b), "manifests": bundle.WithoutSecrets(b.Manifests),
		"status": object{}}
	if b.Deleting() {
		answer["deleted_at"] = rfc3339(b.Deleted)
	}
	if len(b.DeleteOption) > 0 {
		answer["delete_option"] = b.DeleteOption
	}
	if len(b.Configs) > 0 {
		answer["manifest_configs"] = b.Configs
	}
	status, err := bundle.GetStatus(tx, b.ID)
	if err != nil || status == nil {
		return answer, err
	}
	var data struct {
		Conditions     json.RawMessage  `json:"conditions"`
		ResourceStatus []map[string]any `json:"resourceStatus"`
	}
	if json.Unmarshal(status.Data, &data) != nil {
		return answer, nil
	}
	for _, resource := range data.ResourceStatus {
		hideFeedback(resource)
	}
	answer["status"] = object{"ObservedVersion": status.ResourceVersion, "SequenceID": status.SequenceID,
		"conditions": data.Conditions, "resourceStatus": data.ResourceStatus}
	return answer, nil
}

func (s service) getBundle(c echo.Context) error {
	var answer object
	if err := s.db.View(func(tx *store.Tx) error {
		b, err := bundle.Get(tx, c.Param("id"))
		if errors.Is(err, bundle.ErrNotFound) {
			return problem.NotFound("ResourceBundle with id='%s' not found", c.Param("id"))
		}
		if err != nil {
			return err
		}
		answer, err = bundleObject(tx, b)
		return err
	}); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, answer)
}

func (s service) deleteBundle(c echo.Context) error {
	if err := s.db.Update(c.Request().Context(), func(tx *store.Tx) error {
		err := bundle.Delete(tx, c.Param("id"), nameOf(c), s.Provider.Clock.Now())
		if errors.Is(err, bundle.ErrNotFound) {
			return nil // as in Maestro
		}
		return err
	}); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// hideFeedback replaces the values that an agent reports about a Secret.
func hideFeedback(resource map[string]any) {
	meta, _ := resource["resourceMeta"].(object)
	if meta["kind"] != "Secret" {
		return
	}
	feedback, _ := resource["statusFeedback"].(object)
	values, _ := feedback["values"].([]any)
	for _, value := range values {
		if named, ok := value.(object); ok {
			named["fieldValue"] = object{"type": "String", "string": bundle.Hidden}
		}
	}
}
