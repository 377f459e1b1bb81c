// Package notice reports what a person must know soon: a cluster or host was installed, has failed,
// or needs a person. It derives these notifications from the events and from the conditions of the
// site, such as a full disk, keeps the newest ones, and sends each to the site's webhooks.
//
// The engine does not know the package. [Service.Run] reads the events after their transactions, so
// that no receiver can delay a change.
//
// Design: docs/design.md#notifications.
package notice

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// Kind is what a notification is about.
type Kind string

// Kinds of notifications.
const (
	Installed Kind = "installed"
	Failed    Kind = "failed"
	Attention Kind = "attention" // nothing goes on until a person acts
	Test      Kind = "test"
)

// Notification is a message for people. It is the body of the requests to webhooks.
type Notification struct {
	key     string    // of the event
	ID      string    `json:"id"` // a notification that is sent twice keeps its id
	Kind    Kind      `json:"kind"`
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
	Event   string    `json:"event,omitempty"` // name of the event
	Cluster *Subject  `json:"cluster,omitempty"`
	Host    *Subject  `json:"host,omitempty"`
	URL     string    `json:"url"` // page of the appliance about the cluster or host
}

// Subject is the cluster or host of a notification.
type Subject struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	InfraEnvID string `json:"infra_env_id,omitempty"` // of a host
}

// notifications are the newest notifications by the keys of their events. The live feed reports
// their changes.
var notifications = store.NewBucket[Notification]("notifications", 1)

// positions has the position in the events after the last one with a notification, as the row
// position. Notifications of conditions are newer than events that were not read yet.
var positions = store.NewBucket[string]("notification-position", 1)

const position = "events"

// kept is the number of notifications in the store.
const kept = 100

// moved are the properties of events of state changes.
type moved struct {
	Host    string `json:"new_status"`
	Cluster string `json:"cluster_status"`
	Info    string `json:"info"`
}

// kindOf returns the kind of an event's notification, or "" if the event needs none.
func kindOf(ev *models.Event) Kind {
	switch ev.Name {
	case event.PreparationFailed, event.PreparationTimedOut, event.HostJoiningProblem, event.MirrorGaps:
		return Attention
	case event.ClusterStatus, event.HostStatus:
	default:
		return ""
	}
	var states moved
	if err := json.Unmarshal([]byte(ev.Props), &states); err != nil {
		return ""
	}
	switch cmp.Or(states.Cluster, states.Host) {
	case lifecycle.ClusterFailed: // the state of a failed host has the same name
		if states.Info == lifecycle.InfoClusterFailed {
			return "" // the cluster has its own notification
		}
		return Failed
	case lifecycle.ClusterInstalled:
		if states.Host != "" {
			return "" // the cluster's notification follows
		}
		return Installed
	case lifecycle.HostAdded:
		return Installed
	case lifecycle.ClusterPendingUserAction:
		if states.Cluster != "" {
			return "" // the host has its own notification, with the reason
		}
		return Attention
	case lifecycle.HostResettingPendingUserAction, lifecycle.HostUnbindingPendingUserAction:
		return Attention
	}
	return ""
}

// newNotification returns the notification of an event, or nil if the event needs none. site is the
// URL of the appliance. A missing or damaged cluster or host is named by its ID.
func newNotification(tx *store.Tx, key string, ev *models.Event, site string) (*Notification, error) {
	kind := kindOf(ev)
	if kind == "" {
		return nil, nil
	}
	id, _, err := event.ParseKey(key)
	if err != nil {
		return nil, err
	}
	n := &Notification{key: key, ID: id.String(), Kind: kind, Time: time.Time(*ev.EventTime).UTC(),
		Message: conv.Value(ev.Message), Event: ev.Name, URL: site}
	if ev.HostID != nil {
		n.Host = &Subject{ID: ev.HostID.String(), Name: ev.HostID.String(), InfraEnvID: text(ev.InfraEnvID)}
		host, err := record.Hosts.Get(tx, n.Host.InfraEnvID+"/"+n.Host.ID)
		switch {
		case err == nil:
			n.Host.Name = cmp.Or(host.API.RequestedHostname, host.Hostname, n.Host.ID)
		case !errors.Is(err, store.ErrNotFound) && !store.IsDamaged(err):
			return nil, err
		}
		n.URL = site + "/hosts/" + n.Host.InfraEnvID + "/" + n.Host.ID
	}
	if ev.ClusterID != nil {
		n.Cluster = &Subject{ID: ev.ClusterID.String(), Name: ev.ClusterID.String()}
		row, err := record.Clusters.Get(tx, n.Cluster.ID)
		switch {
		case err == nil:
			n.Cluster.Name = row.API.Name
			if n.Host != nil && kind == Failed && conv.Value(row.API.Status) == lifecycle.ClusterFailed {
				return nil, nil // the cluster's notification names the host
			}
		case !errors.Is(err, store.ErrNotFound) && !store.IsDamaged(err):
			return nil, err
		}
		if n.Host == nil {
			n.URL = site + "/assisted-installer/clusters/" + n.Cluster.ID
		}
	}
	return n, nil
}

func text(id *strfmt.UUID) string {
	if id == nil {
		return ""
	}
	return id.String()
}
