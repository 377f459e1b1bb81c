package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/siteservice"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/web/operation"
)

// Routes of the network services for the site.
const (
	SiteServicesRoute     = BasePath + "/site-services"
	SiteAddressesRoute    = BasePath + "/site-addresses"
	SiteReservationsRoute = SiteAddressesRoute + "/reservations"
)

// SiteServices shows and switches the network services for the site.
type SiteServices interface {
	// Overview describes all services.
	Overview() (*siteservice.Overview, error)
	// Enable switches a service on for an interface, and returns its status.
	Enable(ctx context.Context, wanted siteservice.Switch) (*siteservice.Status, error)
	// Disable switches a service off for an interface.
	Disable(ctx context.Context, service siteservice.Service, iface string) error
	// Addresses returns the leases, reservations and events of DHCP.
	Addresses() (*siteservice.Addresses, error)
	// Reserve stores the address that a machine gets.
	Reserve(ctx context.Context, wanted dhcpserver.Reservation) (*dhcpserver.Reservation, error)
	// RemoveReservation removes the reservation of a machine.
	RemoveReservation(ctx context.Context, mac string) error
}

// SiteServiceSettings are the settings of a service on an interface.
type SiteServiceSettings struct {
	// LocalClock declares the appliance's clock as the time of the site. It is for NTP only.
	LocalClock bool `json:"local_clock,omitempty"`
	// Mode is the way to serve DHCP: proxy, reservations or range. Range is FIRST-LAST.
	Mode  dhcpserver.Mode `json:"mode,omitempty"`
	Range string          `json:"range,omitempty"`
}

// DHCPReservation is the address that a machine gets.
type DHCPReservation struct {
	Address  string `json:"address"`
	Hostname string `json:"hostname,omitempty"`
}

type siteServices struct{ services SiteServices }

// SiteServiceOperations returns the operations on the network services for the site.
func SiteServiceOperations(of SiteServices) []operation.Operation {
	s := siteServices{of}
	const onInterface = SiteServicesRoute + "/:service/:interface"
	const reservation = SiteReservationsRoute + "/:mac"
	return []operation.Operation{
		{ID: "getSiteServices", Method: http.MethodGet, Path: SiteServicesRoute,
			Access: operation.For(access.Viewer), Handler: s.show,
			Summary: "Show the network services for the site: their states, the DNS records of the clusters, the clock",
			Status:  http.StatusOK, Answer: siteservice.Overview{}},
		{ID: "enableSiteService", Method: http.MethodPut, Path: onInterface,
			Access: operation.For(access.Administrator), Handler: s.enable,
			Summary: "Switch a network service on for an interface of the appliance's machine",
			Body:    SiteServiceSettings{},
			Status:  http.StatusOK, Answer: siteservice.Status{}, Errors: []int{400, 404, 409}},
		{ID: "disableSiteService", Method: http.MethodDelete, Path: onInterface,
			Access: operation.For(access.Administrator), Handler: s.disable,
			Summary: "Switch a network service off for an interface",
			Status:  http.StatusNoContent, Errors: []int{404, 409}},
		{ID: "getSiteAddresses", Method: http.MethodGet, Path: SiteAddressesRoute,
			Access: operation.For(access.Viewer), Handler: s.addresses,
			Summary: "Show the leases and reservations of DHCP, and the machines that booted from the network",
			Status:  http.StatusOK, Answer: siteservice.Addresses{}},
		{ID: "reserveSiteAddress", Method: http.MethodPut, Path: reservation,
			Access: operation.For(access.Operator), Handler: s.reserve,
			Summary: "Set the address that a machine gets by DHCP",
			Body:    DHCPReservation{},
			Status:  http.StatusOK, Answer: dhcpserver.Reservation{}, Errors: []int{400, 409}},
		{ID: "removeSiteReservation", Method: http.MethodDelete, Path: reservation,
			Access: operation.For(access.Operator), Handler: s.removeReservation,
			Summary: "Remove the reservation of a machine; its lease stays",
			Status:  http.StatusNoContent, Errors: []int{404}},
	}
}

func (s siteServices) show(c echo.Context) error {
	overview, err := s.services.Overview()
	return answer(c, overview, err)
}

func (s siteServices) enable(c echo.Context) error {
	var wanted SiteServiceSettings
	if err := readOptional(c, &wanted); err != nil {
		return err
	}
	status, err := s.services.Enable(c.Request().Context(), siteservice.Switch{
		Service: siteservice.Service(c.Param("service")), Interface: c.Param("interface"),
		LocalClock: wanted.LocalClock, Mode: wanted.Mode, Range: wanted.Range,
	})
	return answer(c, status, err)
}

func (s siteServices) disable(c echo.Context) error {
	return done(c, s.services.Disable(c.Request().Context(), siteservice.Service(c.Param("service")),
		c.Param("interface")))
}

func (s siteServices) addresses(c echo.Context) error {
	addresses, err := s.services.Addresses()
	return answer(c, addresses, err)
}

func (s siteServices) reserve(c echo.Context) error {
	var wanted DHCPReservation
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	stored, err := s.services.Reserve(c.Request().Context(), dhcpserver.Reservation{MAC: c.Param("mac"),
		Address: wanted.Address, Hostname: wanted.Hostname})
	return answer(c, stored, err)
}

func (s siteServices) removeReservation(c echo.Context) error {
	return done(c, s.services.RemoveReservation(c.Request().Context(), c.Param("mac")))
}
