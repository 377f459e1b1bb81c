package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
)

// listEvents answers a page of events. The number of all events and of those of each severity are
// in headers.
func (s *Service) listEvents(c echo.Context) error {
	filter, err := eventFilter(c)
	if err != nil {
		return err
	}
	page, err := s.Engine.Events(filter)
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set("Event-Count", strconv.Itoa(page.Total))
	for severity, name := range map[string]string{
		models.EventSeverityInfo: "Info", models.EventSeverityWarning: "Warning",
		models.EventSeverityError: "Error", models.EventSeverityCritical: "Critical",
	} {
		header.Set("Severity-Count-"+name, strconv.Itoa(page.BySeverity[severity]))
	}
	if page.Events == nil {
		page.Events = []*models.Event{}
	}
	return c.JSON(http.StatusOK, page.Events)
}

// eventFilter reads which events are asked for.
func eventFilter(c echo.Context) (filter engine.EventFilter, err error) {
	var host, order string
	read := func(into *string, from func() (string, error)) {
		if err == nil {
			*into, err = from()
		}
	}
	read(&filter.ClusterID, func() (string, error) { return uuid(c, "cluster_id") })
	read(&filter.InfraEnvID, func() (string, error) { return uuid(c, "infra_env_id") })
	read(&host, func() (string, error) { return uuid(c, "host_id") })
	read(&order, func() (string, error) { return oneOf(c, "order", "ascending", "descending") })
	if err != nil {
		return filter, err
	}
	if filter.HostIDs, err = uuids(c, "host_ids"); err != nil {
		return filter, err
	}
	if host != "" {
		filter.HostIDs = append(filter.HostIDs, host)
	}
	if filter.Severities, err = listOf(c, "severities", models.EventSeverityInfo, models.EventSeverityWarning,
		models.EventSeverityError, models.EventSeverityCritical); err != nil {
		return filter, err
	}
	filter.Descending, filter.ClusterLevel, filter.DeletedHosts = order == "descending", flag(c, "cluster_level"),
		flag(c, "deleted_hosts")
	filter.Message, filter.Categories = c.QueryParam("message"), list(c, "categories")
	if filter.Limit, err = number(c, "limit"); err != nil {
		return filter, err
	}
	filter.Offset, err = number(c, "offset")
	return filter, err
}

// reportEvent writes an event that a program outside saw.
func (s *Service) reportEvent(c echo.Context) error {
	event, err := decode[models.Event](c)
	if err != nil {
		return err
	}
	return created(c, s.Engine.ReportEvent(c.Request().Context(), event))
}
