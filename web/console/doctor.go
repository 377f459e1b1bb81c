package console

import (
	"context"

	"github.com/labstack/echo/v4"

	"landfall/appliance/doctor"
	"landfall/web/problem"
)

// DoctorRoute is the route of the doctor, which checks what all clusters need from the site and,
// with ?cluster_id=, what that cluster needs. With ?dhcp=true it asks DHCP servers, which sends
// packets to all machines of the appliance's networks. With ?name= and ?base_domain= it checks only
// the names of a cluster, which need not exist yet: ?api_vip= and ?ingress_vip= are the addresses
// that they must resolve to, and ?names_needed=true says that the hosts need them.
const DoctorRoute = BasePath + "/doctor"

// Doctor checks the site.
type Doctor interface {
	Diagnose(ctx context.Context, wanted doctor.Request) (*doctor.Report, error)
}

func registerDoctor(router *echo.Echo, d Doctor) {
	router.GET(DoctorRoute, func(c echo.Context) error {
		wanted := doctor.Request{ClusterID: c.QueryParam("cluster_id"), DHCP: c.QueryParam("dhcp") == "true"}
		query := c.QueryParams()
		if query.Has("name") || query.Has("base_domain") {
			wanted.Names = &doctor.ClusterNames{
				Name: query.Get("name"), BaseDomain: query.Get("base_domain"), APIVIPs: query["api_vip"],
				IngressVIPs: query["ingress_vip"],
				Needed:      query.Get("names_needed") == "true",
			}
			if wanted.Names.Name == "" || wanted.Names.BaseDomain == "" {
				return problem.BadRequest("Give both name and base_domain.")
			}
		}
		report, err := d.Diagnose(c.Request().Context(), wanted)
		if err != nil {
			return err
		}
		return answer(c, report)
	})
}
