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

// updateOutbox updates the cluster's outbox entry for AMS if its desired state changed. A new
// installation replaces the ids and URLs of a failed or reset installation. Until then, the entry
// keeps them. A damaged entry stays as it is until it is repaired.
func (c *change) updateOutbox(row *record.Cluster) error {
	if conv.Value(row.API.Imported) || *row.API.Kind == description.KindDisconnected {
		return nil // the program that installs such a cluster reports it to AMS
	}
	id := row.API.ID.String()
	held, err := outbox.DesiredRows.Get(c.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		held = &outbox.Desired{Phase: outbox.Reserved, CreatedAt: row.API.CreatedAt.UTC()}
	} else if err != nil {
		return store.SkipDamaged(err)
	}
	next, changed := held.Next(desiredEntry(*held, row), c.now)
	if !changed {
		return nil
	}
	return outbox.PutDesired(c.tx, id, &next)
}

// desiredEntry returns the desired state of a cluster in AMS, based on the present entry.
func desiredEntry(held outbox.Desired, row *record.Cluster) outbox.Desired {
	held.DisplayName = row.API.Name
	if id := row.API.OpenshiftClusterID.String(); id != "" {
		held.ExternalClusterID = id
	}
	switch *row.API.Status {
	// In other states, a change of the cluster's name may change the URL.
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

// RecordSubscription records the result of a report to AMS: the subscription id for the API, and an
// event with the note. An empty id keeps the present id, and an empty note writes no event. If the
// cluster is deleted, RecordSubscription only calls the function write.
func (e *Engine) RecordSubscription(ctx context.Context, clusterID, subscriptionID, note string, rejected bool,
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
		if err := c.updateOutbox(row); err != nil { // a user may have reverted an edit
			return err
		}
		if note == "" {
			return nil
		}
		name, severity := event.SubscriptionUpdated, models.EventSeverityInfo
		if rejected {
			name, severity = event.SubscriptionRefused, models.EventSeverityWarning
		}
		return c.clusterEvent(row, name, severity, "Cluster %s: %s", row.API.Name, note)
	})
}
