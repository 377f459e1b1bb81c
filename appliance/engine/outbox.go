package engine

import (
	"errors"
	"time"

	"github.com/go-openapi/swag"

	"landfall/store"
)

// subscription is what OpenShift Cluster Manager (AMS) must come to know of a cluster. It is written in the
// transaction of the change that it follows from; a relay compares it with what AMS has been told and makes up the
// difference when there is a connection. No list of calls is kept, only the state that AMS is to arrive at.
type subscription struct {
	Generation        int       `json:"generation"`        // raised by each change
	Relayed           int       `json:"relayed,omitempty"` // the generation that AMS has been told of
	Phase             string    `json:"phase"`             // absent, reserved, active
	MustExist         bool      `json:"must_exist"`        // the cluster was installed, so AMS must hear of it even when it is deleted here
	DisplayName       string    `json:"display_name"`
	ExternalClusterID string    `json:"external_cluster_id,omitempty"`
	ConsoleURL        string    `json:"console_url,omitempty"`
	Kind              string    `json:"kind"`
	DeletedAt         time.Time `json:"local_deleted_at,omitzero"`
}

// The phases of a subscription.
const (
	phaseAbsent   = "absent"
	phaseReserved = "reserved"
	phaseActive   = "active"
)

// relay writes the outbox entry that a cluster's state calls for, when it differs from the one there is.
func (c *change) relay(row *clusterRecord) error {
	if swag.BoolValue(row.API.Imported) || *row.API.Kind == kindDisconnected {
		return nil // whoever installed the cluster told AMS of it
	}
	id := row.API.ID.String()
	held, err := outboxRows.Get(c.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		held = &subscription{}
	} else if err != nil {
		return err
	}
	wanted := subscription{
		Generation: held.Generation, Relayed: held.Relayed, Phase: phaseReserved, MustExist: held.MustExist,
		DisplayName: row.API.Name, ExternalClusterID: row.API.OpenshiftClusterID.String(),
		ConsoleURL: consoleURLIfUp(row), Kind: *row.API.Kind,
	}
	if *row.API.Status == clusterInstalled || *row.API.Status == clusterAddingHosts {
		wanted.Phase, wanted.MustExist = phaseActive, true
	}
	return c.putOutbox(id, held, wanted)
}

// relayDeletion notes that a cluster is gone. One that AMS was never to keep is wanted absent; one that was installed
// stays what it became.
func (c *change) relayDeletion(id string) error {
	held, err := outboxRows.Get(c.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	wanted := *held
	wanted.DeletedAt = c.now
	if !wanted.MustExist {
		wanted.Phase = phaseAbsent
	}
	return c.putOutbox(id, held, wanted)
}

func (c *change) putOutbox(id string, held *subscription, wanted subscription) error {
	if wanted == *held {
		return nil
	}
	wanted.Generation++
	return outboxRows.Put(c.tx, id, &wanted)
}

// waiting reports whether there is something that AMS has yet to be told.
func (s *subscription) waiting() bool { return s.Generation > s.Relayed }
