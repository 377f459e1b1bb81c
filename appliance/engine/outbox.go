package engine

import (
	"context"
	"errors"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// updateOutbox writes the outbox entry that a cluster's state calls for, when it differs from the
// one there is. Ids and URLs stay until others take their place: what an installation left in AMS
// that was reset or failed is overwritten by the next one.
func (c *change) updateOutbox(row *record.Cluster) error {
	if conv.Value(row.API.Imported) || *row.API.Kind == description.KindDisconnected {
		return nil // whoever installed the cluster told AMS of it
	}
	id := row.API.ID.String()
	held, err := outbox.DesiredRows.Get(c.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		held = &outbox.Desired{Phase: outbox.Reserved, CreatedAt: row.API.CreatedAt.UTC()}
	} else if err != nil {
		return err
	}
	next, changed := held.Next(desiredEntry(*held, row), c.now)
	if !changed {
		return nil
	}
	return outbox.PutDesired(c.tx, id, &next)
}

// desiredEntry returns what AMS must come to know of a cluster, given what it already must.
func desiredEntry(held outbox.Desired, row *record.Cluster) outbox.Desired {
	held.DisplayName = row.API.Name
	if id := row.API.OpenshiftClusterID.String(); id != "" {
		held.ExternalClusterID = id
	}
	switch *row.API.Status {
	// the URL follows from a name that may change in other states
	case lifecycle.ClusterFinalizing, lifecycle.ClusterInstalled:
		if url := consoleURLIfUp(row); url != "" {
			held.ConsoleURL = url
		}
	}
	if *row.API.Status == lifecycle.ClusterInstalled || *row.API.Status == lifecycle.ClusterAddingHosts {
		held.Phase, held.MustExist = outbox.Active, true
	}
	held.Fields = held.Fields.Over(held.Edited)
	return held
}

// RecordSubscription writes what AMS was told of a cluster, or answered, together with the event
// that people read and the id that the API shows; "" leaves the id as it is, and a note of no words
// is no event. Of a cluster that is gone only what write writes is kept.
func (e *Engine) RecordSubscription(ctx context.Context, clusterID, subscriptionID, note string, refused bool,
	write func(*store.Tx) error) error {
	return e.update(ctx, func(c *change) error {
		if err := write(c.tx); err != nil {
			return err
		}
		row, err := c.cluster(clusterID)
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if id := strfmt.UUID(subscriptionID); id != "" && id != row.API.AmsSubscriptionID {
			row.API.AmsSubscriptionID = id
			c.saveCluster(row)
		}
		if err := c.updateOutbox(row); err != nil { // a person may have taken back what was edited
			return err
		}
		if note == "" {
			return nil
		}
		name, severity := event.SubscriptionUpdated, models.EventSeverityInfo
		if refused {
			name, severity = event.SubscriptionRefused, models.EventSeverityWarning
		}
		return c.clusterEvent(row, name, severity, "Cluster %s: %s", row.API.Name, note)
	})
}
