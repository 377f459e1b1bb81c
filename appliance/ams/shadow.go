package ams

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/ksuid"

	"landfall/appliance/ams/outbox"
	"landfall/store"
)

const (
	noDate      = "0001-01-01T00:00:00Z"
	stampFormat = "2006-01-02T15:04:05.000000Z" // AMS writes microseconds
)

// ErrNoSubscription is the error of an id that no subscription has.
var ErrNoSubscription = errors.New("there is no such subscription")

// Subscriptions are the subscriptions of this site's clusters in AMS's own JSON, decoded: AMS's object where it was seen, and over
// it what AMS is to become. Each has a member landfall with what AMS knows of it.
func (r *Relay) Subscriptions(ctx context.Context) ([]map[string]any, error) {
	status, err := r.Status(ctx, "")
	if err != nil {
		return nil, err
	}
	lines := make(map[string]*ClusterStatus, len(status.Clusters))
	for i := range status.Clusters {
		lines[status.Clusters[i].ClusterID] = &status.Clusters[i]
	}
	var found []map[string]any
	err = r.options.DB.View(func(tx *store.Tx) error {
		return outbox.Rows.Each(tx, "", func(id string, d *outbox.Desired) error {
			_, remembered, err := entry(tx, id)
			if err != nil || remembered.Closed == endedDeleted || remembered.Closed == endedNever || d.Phase == outbox.Absent {
				return err
			}
			object, err := r.shadow(id, d, &remembered, lines[id], status)
			found = append(found, object)
			return err
		})
	})
	return found, err
}

// Subscription is one of [Relay.Subscriptions], by the id that AMS gave it or by the one that it had before.
func (r *Relay) Subscription(ctx context.Context, id string) (map[string]any, error) {
	all, err := r.Subscriptions(ctx)
	if err != nil {
		return nil, err
	}
	cluster := outbox.ClusterOf(id)
	for _, object := range all {
		if object["id"] == id || cluster != "" && object["cluster_id"] == cluster {
			return object, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoSubscription, id)
}

func (r *Relay) shadow(clusterID string, d *outbox.Desired, remembered *outbox.Remembered, line *ClusterStatus, site *Status) (map[string]any, error) {
	r.mu.Lock()
	identity := r.identity
	r.mu.Unlock()
	id := cmp.Or(remembered.SubscriptionID, outbox.ShadowID(clusterID, d.CreatedAt))
	object := map[string]any{
		"id": id, "kind": "Subscription", "href": accountsRoot + "/subscriptions/" + id,
		"plan": map[string]any{
			"id": "OCP-AssistedInstall", "kind": "Plan", "href": accountsRoot + "/plans/OCP-AssistedInstall", "type": "OCP", "category": assistedInstall,
		},
		"cluster_id": clusterID, "organization_id": cmp.Or(identity.OrganizationID, r.localID("organization")),
		"last_telemetry_date": noDate, "created_at": stamp(d.CreatedAt), "updated_at": stamp(d.ChangedAt), "support_level": "Eval",
		"creator": accountReference(cmp.Or(identity.AccountID, r.localID("account"))), "managed": false, "provenance": "Provisioning",
		"last_reconcile_date": noDate, "last_released_at": noDate, "metrics": []any{}, "cloud_provider_id": "baremetal", "trial_end_date": noDate,
		"status": statusReserved,
	}
	if len(remembered.Remote) > 0 {
		if err := json.Unmarshal(remembered.Remote, &object); err != nil {
			return nil, fmt.Errorf("read AMS's own subscription of cluster %s: %w", clusterID, err)
		}
	}
	for name, value := range map[string]string{"display_name": d.DisplayName, "external_cluster_id": d.ExternalClusterID, "console_url": d.ConsoleURL} {
		if value != "" && !(remembered.Done(d) && object[name] != nil) {
			object[name] = value
		}
	}
	if d.Phase == outbox.Active && object["status"] == statusReserved {
		object["status"] = cmp.Or(r.options.FinalStatus, statusActive)
	}
	told := map[string]any{"state": line.State, "reason": line.Reason}
	if !site.LastContact.IsZero() {
		told["last_contact"] = stamp(site.LastContact)
	}
	if line.State == LineWaiting {
		told["waiting_since"] = stamp(line.Since)
	}
	object["landfall"] = told
	return object, nil
}

func stamp(at time.Time) string { return at.UTC().Format(stampFormat) }

func accountReference(id string) map[string]any {
	return map[string]any{"id": id, "kind": "Account", "href": accountsRoot + "/accounts/" + id}
}

// localID is an id of this site's own before AMS told one: a KSUID as AMS's are, the same at each start.
func (r *Relay) localID(kind string) string {
	sum := sha256.Sum256([]byte(kind + " " + r.options.Key.Public().Fingerprint()))
	id, err := ksuid.FromBytes(append([]byte{0, 0, 0, 0}, sum[:16]...)) // of the first moment that a KSUID can tell
	if err != nil {
		return kind
	}
	return id.String()
}
