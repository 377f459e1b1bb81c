package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/registry/handover"
	"landfall/web/operation"
)

// Routes of the hand-over of the appliance's registry.
const (
	HandOverRoute        = RegistryRoute + "/hand-over"
	HandOverConfirmRoute = HandOverRoute + "/confirm"
	HandOverCancelRoute  = HandOverRoute + "/cancel"
)

// ConfirmRequest is the body of a person's word to remove the first mirror.
type ConfirmRequest struct {
	Clusters []string `json:"clusters"` // IDs or full names; none are all that have both mirrors
}

type handOver struct{ *handover.Service }

// HandOverOperations returns the operations on the hand-over of the appliance's registry. service
// is nil without a registry.
func HandOverOperations(service *handover.Service) []operation.Operation {
	h := handOver{service}
	return []operation.Operation{
		{ID: "getHandOver", Method: http.MethodGet, Path: HandOverRoute, Access: operation.For(access.Viewer),
			Handler: h.show, Summary: "Show the hand-over of the appliance's registry to a registry of the site",
			Status: http.StatusOK, Answer: handover.Status{}, Errors: []int{404}},
		{ID: "startHandOver", Method: http.MethodPost, Path: HandOverRoute,
			Access: operation.For(access.Administrator), Handler: h.start,
			Summary: "Start to hand the appliance's registry over to a registry of the site, or show what would be " +
				"copied",
			Body: handover.Request{}, Status: http.StatusAccepted, Answer: handover.Status{},
			Errors: []int{400, 404, 409}},
		{ID: "confirmHandOver", Method: http.MethodPost, Path: HandOverConfirmRoute,
			Access: operation.For(access.Administrator), Handler: h.confirm,
			Summary: "Remove the appliance's registry from clusters that have both mirrors",
			Body:    ConfirmRequest{}, Status: http.StatusAccepted, Answer: handover.Status{},
			Errors: []int{400, 404, 409}},
		{ID: "cancelHandOver", Method: http.MethodPost, Path: HandOverCancelRoute,
			Access: operation.For(access.Administrator), Handler: h.stop,
			Summary: "Stop the hand-over; what was copied and added stays",
			Status:  http.StatusAccepted, Answer: handover.Status{}, Errors: []int{404, 409}},
	}
}

func (h handOver) show(c echo.Context) error {
	if h.Service == nil {
		return errNoRegistry
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	status, err := h.Status()
	return answer(c, status, err)
}

func (h handOver) start(c echo.Context) error {
	if h.Service == nil {
		return errNoRegistry
	}
	var wanted handover.Request
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	status, err := h.Start(c.Request().Context(), wanted)
	return answerWith(c, http.StatusAccepted, status, err)
}

func (h handOver) confirm(c echo.Context) error {
	if h.Service == nil {
		return errNoRegistry
	}
	var wanted ConfirmRequest
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	status, err := h.Confirm(c.Request().Context(), wanted.Clusters)
	return answerWith(c, http.StatusAccepted, status, err)
}

func (h handOver) stop(c echo.Context) error {
	if h.Service == nil {
		return errNoRegistry
	}
	status, err := h.Cancel(c.Request().Context())
	return answerWith(c, http.StatusAccepted, status, err)
}
