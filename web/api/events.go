package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/web/problem"
)

// listEvents answers a page of events. The number of all events and of those of each severity are in headers.
func (s *Service) listEvents(c echo.Context) error {
	filter := engine.EventFilter{
		ClusterID: c.QueryParam("cluster_id"), InfraEnvID: c.QueryParam("infra_env_id"),
		HostIDs: list(c, "host_ids"), Severities: list(c, "severities"), Message: c.QueryParam("message"),
		ClusterLevel: c.QueryParam("cluster_level") == "true", Categories: list(c, "categories"),
	}
	if id := c.QueryParam("host_id"); id != "" {
		filter.HostIDs = append(filter.HostIDs, id)
	}
	switch order := c.QueryParam("order"); order {
	case "", "ascending":
	case "descending":
		filter.Descending = true
	default:
		return problem.BadRequest("the parameter order is %q; it takes ascending or descending", order)
	}
	var err error
	if filter.Limit, err = number(c, "limit"); err != nil {
		return err
	}
	if filter.Offset, err = number(c, "offset"); err != nil {
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

// reportEvent writes an event that a program outside saw.
func (s *Service) reportEvent(c echo.Context) error {
	event, err := decode[models.Event](c)
	if err != nil {
		return err
	}
	return created(c, s.Engine.ReportEvent(c.Request().Context(), event))
}
