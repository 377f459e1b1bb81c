package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/siteservice"
	"landfall/web/operation"
)

// SiteServicesRoute is the route of the network services for the site.
const SiteServicesRoute = BasePath + "/site-services"

// SiteServices shows and switches the network services for the site.
type SiteServices interface {
	// Overview describes all services.
	Overview() (*siteservice.Overview, error)
	// Enable switches a service on for an interface, and returns its status.
	Enable(ctx context.Context, wanted siteservice.Switch) (*siteservice.Status, error)
	// Disable switches a service off for an interface.
	Disable(ctx context.Context, service siteservice.Service, iface string) error
}

// SiteServiceSettings are the settings of a service on an interface.
type SiteServiceSettings struct {
	// LocalClock declares the appliance's clock as the time of the site. It is for NTP only.
	LocalClock bool `json:"local_clock,omitempty"`
}

type siteServices struct{ services SiteServices }

// SiteServiceOperations returns the operations on the network services for the site.
func SiteServiceOperations(of SiteServices) []operation.Operation {
	s := siteServices{of}
	const onInterface = SiteServicesRoute + "/:service/:interface"
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
		LocalClock: wanted.LocalClock,
	})
	return answer(c, status, err)
}

func (s siteServices) disable(c echo.Context) error {
	return done(c, s.services.Disable(c.Request().Context(), siteservice.Service(c.Param("service")),
		c.Param("interface")))
}
