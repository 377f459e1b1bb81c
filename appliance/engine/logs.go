package engine

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
)

// StoreHostLogs stores the logs of a host and the time of their collection. The logs of a host that
// does not belong to the cluster are rejected with kind NotFound.
func (e *Engine) StoreHostLogs(ctx context.Context, clusterID, hostID string, content io.Reader) error {
	staged, err := e.options.DB.Stage(ctx, content)
	if err != nil {
		return err
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(clusterID)
		if err != nil {
			return err
		}
		c.saveCluster(row) // its objects show the URL of the logs
		hosts, damaged, err := c.readableHostsOf(clusterID)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			if h.API.ID.String() != hostID {
				continue
			}
			h.API.LogsCollectedAt, h.API.LogsInfo = c.dateTime(), models.LogsStateCompleted
			c.saveHost(h)
			return errors.Join(
				record.InstallerFiles.Put(c.tx, clusterID+"/"+logFile(hostID), staged, c.now),
				c.hostEvent(h, event.HostLogsUploaded, models.EventSeverityInfo, "Host %s: its logs were collected.",
					c.hostName(h)),
			)
		}
		for _, key := range damaged {
			if strings.HasSuffix(key, "/"+hostID) {
				_, err := c.host(key)
				return err
			}
		}
		return notFound("Cluster %s has no host %s.", clusterID, hostID)
	})
}

// StoreControllerLogs stores the logs of the controller in the cluster and the time of their
// collection.
func (e *Engine) StoreControllerLogs(ctx context.Context, id string, content io.Reader) error {
	staged, err := e.options.DB.Stage(ctx, content)
	if err != nil {
		return err
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		row.API.ControllerLogsCollectedAt, row.API.LogsInfo = c.dateTime(), models.LogsStateCompleted
		c.saveCluster(row)
		return errors.Join(
			record.InstallerFiles.Put(c.tx, id+"/"+logFile("controller"), staged, c.now),
			c.clusterEvent(row, event.LogsUploaded, models.EventSeverityInfo,
				"Cluster %s: the controller's logs were collected.", row.API.Name),
		)
	})
}

// logFile returns the file name of the logs of a host or of the controller.
func logFile(of string) string { return view.LogDirectory + of + ".tar.gz" }

// RecordLogsProgress records the progress of a log collection. An empty host id means the
// controller's logs.
func (e *Engine) RecordLogsProgress(ctx context.Context, clusterID, infraEnvID, hostID string,
	state models.LogsState) error {
	return e.update(ctx, func(c *change) error {
		if hostID == "" {
			row, err := c.cluster(clusterID)
			if err != nil {
				return err
			}
			if recordedZero(row.API.ControllerLogsStartedAt) {
				row.API.ControllerLogsStartedAt = c.dateTime()
			}
			row.API.LogsInfo = state
			c.saveCluster(row)
			return nil
		}
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if recordedZero(h.API.LogsStartedAt) {
			h.API.LogsStartedAt = c.dateTime()
		}
		h.API.LogsInfo = state
		c.saveHost(h)
		return nil
	})
}

func recordedZero(at strfmt.DateTime) bool { return time.Time(at).Unix() <= 0 }
