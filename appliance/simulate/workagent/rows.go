package workagent

import (
	"encoding/json"
	"fmt"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/store"
)

// Deliver gives the agent the bundles of its consumer without a broker, with deletes for those that
// somebody deleted. It returns the last status of each bundle by its ID.
func (a *Agent) Deliver(tx *store.Tx) (map[string]*cloudevent.Event, error) {
	statuses := map[string]*cloudevent.Event{}
	err := bundle.EachOfConsumer(tx, a.consumer, func(b *bundle.Bundle) error {
		data, err := json.Marshal(cloudevent.BundleData{Manifests: b.Manifests, Configs: b.Configs})
		if err != nil {
			return fmt.Errorf("write the bundle %s: %w", b.Name, err)
		}
		event := &cloudevent.Event{ID: b.ID, Source: broker.SourceID, SubResource: cloudevent.Spec,
			Action: cloudevent.Update, Time: a.now(), Consumer: b.Consumer, ResourceID: b.ID,
			ResourceVersion: b.Version, Deleted: b.Deleted, Data: data}
		if b.Deleting() {
			event.Action = cloudevent.Delete
		}
		return keep(statuses, a.Handle(event.Message()))
	})
	return statuses, err
}

// keep adds the statuses in messages.
func keep(statuses map[string]*cloudevent.Event, messages []cloudevent.Message) error {
	for _, message := range messages {
		event, err := cloudevent.Parse(message)
		if err != nil {
			return err
		}
		statuses[event.ResourceID] = event
	}
	return nil
}

// HostedClusters returns the names of the HostedClusters that the cluster has, and of those that
// were deleted there.
func (c *Cluster) HostedClusters() (there, deleted []string) {
	for _, ref := range c.Objects() {
		if ref.Kind == "HostedCluster" {
			there = append(there, ref.Name)
		}
	}
	for _, ref := range c.Deleted("HostedCluster") {
		deleted = append(deleted, ref.Name)
	}
	return there, deleted
}
