package api

import (
	"net/http"
	"strconv"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/engine/event"
	"landfall/web/operation"
)

// eventOperations returns the operations on events.
func (s *Service) eventOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "v2ListEvents", Method: http.MethodGet, Path: "/v2/events",
			Access: operation.For(access.Viewer).OrLinks().OfOwn(), Handler: s.listEvents, FromCopy: true,
			Summary: "List a page of events; headers count all selected events",
			Parameters: []operation.Parameter{
				{Name: "cluster_id", Type: operation.UUID},
				{Name: "host_id", Type: operation.UUID},
				{Name: "host_ids", Type: operation.UUIDList},
				{Name: "infra_env_id", Type: operation.UUID},
				{Name: "limit", Type: operation.Number},
				{Name: "offset", Type: operation.Number},
				{Name: "order", Values: []string{"ascending", "descending"}},
				{Name: "severities", Type: operation.TextList, Values: []string{"info", "warning", "error",
					"critical"}},
				{Name: "message"},
				{Name: "deleted_hosts", Type: operation.Flag},
				{Name: "cluster_level", Type: operation.Flag},
				{Name: "categories", Type: operation.TextList},
			},
			Status: 200, Answer: models.EventList{}, Errors: []int{401, 403, 404, 405, 500}},
		{ID: "v2TriggerEvent", Method: http.MethodPost, Path: "/v2/events",
			Access: operation.For(access.Administrator).OrAgents().OfOwn(), Handler: s.reportEvent,
			Summary: "Report an event",
			Body:    models.Event{},
			Status:  201, Errors: []int{400, 401, 403, 404, 405, 409, 500, 501, 503}},
	}
}

// listEvents returns a page of events. Headers contain the number of all selected events, in total
// and for each severity.
func (s *Service) listEvents(c echo.Context) error {
	filter, err := eventFilter(c)
	if err != nil {
		return err
	}
	if err := s.checkEvents(scopeOf(c), filter.ClusterID, filter.InfraEnvID); err != nil {
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

// eventFilter reads the filter of a list of events from the query.
func eventFilter(c echo.Context) (filter event.Filter, err error) {
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

// reportEvent records an event that an external program reports.
func (s *Service) reportEvent(c echo.Context) error {
	event, err := decode[models.Event](c)
	if err != nil {
		return err
	}
	if err := s.checkReporter(c, event); err != nil {
		return err
	}
	return created(c, s.Engine.ReportEvent(c.Request().Context(), event))
}

// checkReporter returns an error if a machine reports an event about an object that is not its own.
// An event without an infra-env and a cluster is about the infra-env of the machine.
func (s *Service) checkReporter(c echo.Context, event *models.Event) error {
	identity := access.From(c.Request().Context())
	if identity.Kind != access.Agent {
		return s.checkReporterScope(identity.Scope, event)
	}
	if event.InfraEnvID == nil && (event.ClusterID == nil || event.HostID != nil) {
		event.InfraEnvID = conv.Pointer(strfmt.UUID(identity.InfraEnv))
	}
	id := func(id *strfmt.UUID) string { return conv.Value(id).String() }
	if event.HostID != nil {
		if _, err := s.Engine.Host(id(event.InfraEnvID), id(event.HostID)); err != nil {
			return err
		}
	}
	return s.Agents.Allowed(identity, "v2TriggerEvent", id(event.ClusterID), id(event.InfraEnvID), id(event.HostID))
}

// checkReporterScope returns an error if an event is about an object outside of the scope of a
// person or a program.
func (s *Service) checkReporterScope(scope access.Scope, event *models.Event) error {
	if !scope.Limited() {
		return nil
	}
	id := func(id *strfmt.UUID) string { return conv.Value(id).String() }
	if event.HostID != nil {
		if _, err := s.Engine.Host(id(event.InfraEnvID), id(event.HostID)); err != nil {
			return err
		}
	}
	if event.InfraEnvID != nil {
		if err := s.checkEvents(scope, "", id(event.InfraEnvID)); err != nil {
			return err
		}
	}
	if event.InfraEnvID == nil || event.ClusterID != nil {
		return s.checkEvents(scope, id(event.ClusterID), "")
	}
	return nil
}
