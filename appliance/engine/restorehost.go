package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
)

// LostHost describes a host that the store lacks. The caller has the description from another
// source.
type LostHost struct {
	ID           strfmt.UUID
	ClusterID    string // "": no cluster
	Status       string // replaced by a stable status if it is a status during an installation
	Role         models.HostRole
	Inventory    string // JSON, "" if unknown
	Stage        models.HostStage
	RegisteredAt time.Time
}

// RestoreHost adds a missing host to the store again. An installed host can be restored, although
// its agent does not poll. If an infra-env already contains the machine, RestoreHost fails with
// kind Conflict. The same transaction records the object that describes the host, if any.
func (e *Engine) RestoreHost(ctx context.Context, infraEnvID string, lost LostHost,
	describedBy ...record.Object) error {
	var reported *models.Inventory
	if lost.Inventory != "" {
		var err error
		if reported, _, err = inventory.ParseInventory(lost.Inventory); err != nil {
			return &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
		}
	}
	return e.update(ctx, func(c *change) error {
		env, err := c.infraEnv(infraEnvID)
		if err != nil {
			return err
		}
		if err := c.checkUnregistered(lost.ID); err != nil {
			return err
		}
		h, err := c.lostHost(env, lost)
		if err != nil {
			return err
		}
		c.saveHost(h)
		if reported != nil {
			h.Hostname = reported.Hostname
			if err := c.setReport(h, record.PartInventory, lost.Inventory,
				func(f *inventory.Facts) { f.Inventory = reported }); err != nil {
				return err
			}
		}
		c.settleLater(h)
		e.recordContact(record.HostKey(h))
		return errors.Join(
			record.HostInfraEnvs.Add(c.tx, lost.ID.String()+"/"+infraEnvID),
			c.noteHostObject(h, describedBy),
			c.hostEvent(h, event.HostRegistered, models.EventSeverityInfo, "Host %s was restored from its record.",
				lost.ID),
		)
	})
}

func (c *change) checkUnregistered(id strfmt.UUID) error {
	return record.HostInfraEnvs.Keys(c.tx, id.String()+"/", func(key string) error {
		return conflict("Host %s is registered in infra-env %s already.", id, strings.TrimPrefix(key, id.String()+"/"))
	})
}

// lostHost returns the row of a restored host.
func (c *change) lostHost(env *record.InfraEnv, lost LostHost) (*record.Host, error) {
	id, infraEnvID := lost.ID, *env.API.ID
	h := &record.Host{API: models.Host{
		ID: &id, InfraEnvID: infraEnvID, Kind: conv.Pointer(models.HostKindHost),
		Href: conv.Pointer(apiRoot + "/infra-envs/" + infraEnvID.String() + "/hosts/" + id.String()),
		Role: lost.Role, SuggestedRole: lost.Role, StatusInfo: conv.Pointer("The host was restored from its record."),
		StatusUpdatedAt: c.dateTime(),
		CreatedAt:       c.now, RegisteredAt: strfmt.DateTime(lost.RegisteredAt), CheckedInAt: c.dateTime(),
		UserName: "admin",
		Progress: &models.HostProgressInfo{CurrentStage: lost.Stage}, ProgressStages: []models.HostStage{},
		MediaStatus: conv.Pointer(models.HostMediaStatusConnected),
	}}
	if h.API.Role == "" {
		h.API.Role, h.API.SuggestedRole = models.HostRoleAutoAssign, models.HostRoleAutoAssign
	}
	if lost.ClusterID == "" {
		h.API.Status = conv.Pointer(oneOfStates(lost.Status, lifecycle.HostOpenUnboundStates,
			lifecycle.HostKnownUnbound))
		return h, nil
	}
	cluster, err := c.cluster(lost.ClusterID)
	if err != nil {
		return nil, err
	}
	clusterID := strfmt.UUID(lost.ClusterID)
	h.API.ClusterID = &clusterID
	h.API.Status = conv.Pointer(oneOfStates(lost.Status, append(slices.Clone(lifecycle.HostOpenStates),
		lifecycle.HostInstalled, lifecycle.HostAdded), lifecycle.HostKnown))
	if *h.API.Status != lifecycle.HostInstalled {
		h.JoinCluster(&cluster.API)
	}
	return h, record.ClusterHosts.Add(c.tx, lost.ClusterID+"/"+record.HostKey(h))
}

func oneOfStates(status string, states []string, otherwise string) string {
	if slices.Contains(states, status) {
		return status
	}
	return otherwise
}
