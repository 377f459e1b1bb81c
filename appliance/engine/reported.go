package engine

import (
	"context"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// ReportEvent stores an event that an external program reports, such as the installer on a host.
// The objects in the event must exist. The event gets the time of its arrival.
func (e *Engine) ReportEvent(ctx context.Context, reported *models.Event) error {
	if err := event.CheckReported(reported); err != nil {
		return err
	}
	return e.update(ctx, func(c *change) error {
		if err := c.checkSubjects(reported); err != nil {
			return err
		}
		return c.emit(event.Event{
			Name: reported.Name, Severity: *reported.Severity, Message: *reported.Message, Category: reported.Category,
			RawProps: reported.Props,
			Cluster:  reported.ClusterID, InfraEnv: reported.InfraEnvID, Host: reported.HostID,
		})
	})
}

// checkSubjects rejects an event about an object that does not exist with kind NotFound.
func (c *change) checkSubjects(reported *models.Event) error {
	if id := reported.ClusterID; id != nil && !record.Clusters.Exists(c.tx, id.String()) {
		return notFound("There is no cluster %s.", id)
	}
	if id := reported.InfraEnvID; id != nil && !record.InfraEnvs.Exists(c.tx, id.String()) {
		return notFound("There is no infra-env %s.", id)
	}
	if id := reported.HostID; id != nil {
		exists := false
		if err := record.HostInfraEnvs.Keys(c.tx, id.String()+"/",
			func(string) error { exists = true; return store.ErrStop }); err != nil {
			return err
		}
		if !exists {
			return notFound("There is no host %s.", id)
		}
	}
	return nil
}
