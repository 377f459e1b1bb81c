package ams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"landfall/appliance/ams/local"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/fault"
	"landfall/store"
)

const (
	noDate      = "0001-01-01T00:00:00Z"
	stampFormat = "2006-01-02T15:04:05.000000Z" // AMS writes microseconds
)

// ErrNoSubscription is returned for an unknown subscription ID.
var ErrNoSubscription = fault.Sentinel(fault.NotFound, "there is no such subscription")

// Subscriptions returns the subscriptions of this site's clusters as decoded JSON of AMS: the
// recorded object of AMS, overlaid with the desired state. The member landfall of each contains the
// confirmation. If clusterID is not empty, only that cluster is read.
func (r *Relay) Subscriptions(_ context.Context, clusterID string) (found []map[string]any, err error) {
	err = r.options.DB.View(func(tx *store.Tx) error {
		status, err := r.status(tx, Selection{ClusterID: clusterID})
		if err != nil {
			return err
		}
		lines := make(map[string]*ClusterStatus, len(status.Clusters))
		for i := range status.Clusters {
			lines[status.Clusters[i].ClusterID] = &status.Clusters[i]
		}
		return each(tx, clusterID, func(id string, d *outbox.Desired) error {
			recorded, err := loadRecorded(tx, id)
			if err != nil || recorded.Closed == closedDeleted || recorded.Closed == closedNever ||
				d.Phase == outbox.Absent {
				return err
			}
			object, err := r.subscription(id, d, &recorded, lines[id], status)
			found = append(found, object)
			return err
		})
	})
	return found, err
}

// Subscription returns one of [Relay.Subscriptions]. id is AMS's ID or the provisional ID.
func (r *Relay) Subscription(ctx context.Context, id string) (map[string]any, error) {
	var cluster string
	err := r.options.DB.View(func(tx *store.Tx) (err error) {
		cluster, err = outbox.ClusterWith(tx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if cluster != "" {
		found, err := r.Subscriptions(ctx, cluster)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoSubscription, id)
}

// each reads the desired state of all clusters, or of one. Of all clusters, it leaves out those for
// which fn finds a damaged row.
func each(tx *store.Tx, clusterID string, fn func(id string, d *outbox.Desired) error) error {
	if clusterID == "" {
		return outbox.DesiredRows.Each(tx, "", func(id string, d *outbox.Desired) error {
			return store.SkipDamaged(fn(id, d))
		})
	}
	d, err := outbox.DesiredRows.Get(tx, clusterID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fn(clusterID, d)
}

func (r *Relay) subscription(clusterID string, d *outbox.Desired, recorded *outbox.Recorded, line *ClusterStatus,
	site *Status) (map[string]any, error) {
	owner := r.Owner()
	id := cmp.Or(recorded.SubscriptionID, outbox.ProvisionalID(clusterID, d.CreatedAt))
	object := map[string]any{
		"id": id, "kind": "Subscription", "href": accountsRoot + "/subscriptions/" + id,
		"plan": map[string]any{
			"id": "OCP-AssistedInstall", "kind": "Plan", "href": accountsRoot + "/plans/OCP-AssistedInstall",
			"type": "OCP", "category": assistedInstall,
		},
		"cluster_id": clusterID, "organization_id": owner.OrganizationID,
		"last_telemetry_date": noDate, "created_at": stamp(d.CreatedAt), "updated_at": stamp(d.ChangedAt),
		"support_level": "Eval",
		"creator":       accountReference(owner.AccountID), "managed": false, "provenance": "Provisioning",
		"last_reconcile_date": noDate, "last_released_at": noDate, "metrics": []any{}, "cloud_provider_id": "baremetal",
		"trial_end_date": noDate,
		"status":         statusReserved,
	}
	if len(recorded.Remote) > 0 {
		if err := json.Unmarshal(recorded.Remote, &object); err != nil {
			return nil, fmt.Errorf("read AMS's own subscription of cluster %s: %w", clusterID, err)
		}
	}
	for name, value := range map[string]string{"display_name": d.DisplayName,
		"external_cluster_id": d.ExternalClusterID, "console_url": d.ConsoleURL} {
		if value != "" && !(recorded.Done(d) && object[name] != nil) {
			object[name] = value
		}
	}
	if d.Phase == outbox.Active && object["status"] == statusReserved {
		object["status"] = cmp.Or(r.options.FinalStatus, statusActive)
	}
	confirmation := map[string]any{"state": line.State, "reason": line.Reason}
	if !site.LastContact.IsZero() {
		confirmation["last_contact"] = stamp(site.LastContact)
	}
	if line.State == ClusterWaiting {
		confirmation["waiting_since"] = stamp(line.Since)
	}
	object["landfall"] = confirmation
	return object, nil
}

func stamp(at time.Time) string { return at.UTC().Format(stampFormat) }

func accountReference(id string) map[string]any {
	return map[string]any{"id": id, "kind": "Account", "href": accountsRoot + "/accounts/" + id}
}

// localName is the user name of the site's account before the first contact with AMS.
const localName = "admin"

// Owner returns the account for which the site reports. Before the first contact it contains local
// IDs.
func (r *Relay) Owner() local.Owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return local.Owner{
		OrganizationID:   cmp.Or(r.identity.OrganizationID, r.localOwner.OrganizationID),
		OrganizationName: r.identity.OrganizationName,
		AccountID:        cmp.Or(r.identity.AccountID, r.localOwner.AccountID), Username: cmp.Or(r.options.Account,
			r.identity.Username, localName),
	}
}
