package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/fleet/membership"
	"landfall/web/operation"
)

// Routes of the fleet.
const (
	FleetRoute           = BasePath + "/fleet"
	FleetInvitationRoute = FleetRoute + "/invitation"
	FleetLeaveRoute      = FleetRoute + "/leave"
	FleetMembersRoute    = FleetRoute + "/members"
)

// FleetOperations returns the operations on the part of this machine in a fleet.
func FleetOperations(of membership.Service) []operation.Operation {
	return []operation.Operation{
		{ID: "getFleet", Method: http.MethodGet, Path: FleetRoute, Access: operation.For(access.Viewer).OfAll(),
			FromCopy: true,
			Handler: func(c echo.Context) error {
				status, err := of.Status(c.Request().Context())
				return answer(c, status, err)
			},
			Summary: "Show the fleet: who leads, the members, what they lack, and what a loss would cost",
			Status:  http.StatusOK, Answer: membership.Status{}, Errors: []int{503}},
		{ID: "createFleet", Method: http.MethodPost, Path: FleetRoute, Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error {
				var wanted membership.Wanted
				if err := operation.ReadJSON(c, &wanted); err != nil {
					return err
				}
				return done(c, of.Found(c.Request().Context(), wanted))
			},
			Summary: "Make a fleet whose first member is this machine. Its log is in etcd",
			Body:    membership.Wanted{}, Status: http.StatusNoContent, Errors: []int{400, 409, 503}},
		{ID: "deleteFleet", Method: http.MethodDelete, Path: FleetRoute, Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error { return done(c, of.End(c.Request().Context())) },
			Summary: "End the fleet. The leader goes on as a single machine; the other members stop",
			Status:  http.StatusNoContent, Errors: []int{409, 503}},
		{ID: "getFleetInvitation", Method: http.MethodGet, Path: FleetInvitationRoute,
			Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error {
				invitation, err := of.Invitation(c.Request().Context())
				return answer(c, invitation, err)
			},
			Summary: "Show what a machine needs to join the fleet, besides a backup with its key",
			Status:  http.StatusOK, Answer: membership.Invitation{}, Errors: []int{409}},
		{ID: "leaveFleet", Method: http.MethodPost, Path: FleetLeaveRoute, Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error { return done(c, of.Leave(c.Request().Context())) },
			Summary: "Make the member that is asked leave the fleet. It stops",
			Status:  http.StatusNoContent, Errors: []int{409, 503}},
		{ID: "forgetFleetMember", Method: http.MethodDelete, Path: FleetMembersRoute + "/:name",
			Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error {
				return done(c, of.Forget(c.Request().Context(), c.Param("name")))
			},
			Summary: "Forget a member that is away and will not come back",
			Status:  http.StatusNoContent, Errors: []int{404, 409, 503}},
	}
}
