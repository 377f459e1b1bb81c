package console

import (
	"context"

	"github.com/labstack/echo/v4"

	"landfall/appliance/doctor"
	"landfall/web/problem"
)

// DoctorRoute is the route of examinations of the site: of what all clusters need, or with
// ?cluster_id= of what that one needs too. With ?dhcp=true DHCP servers are asked, which sends
// packets to all machines of the appliance's networks. With ?name= and ?base_domain= nothing but
// the names of a cluster is looked at that need not be there yet; ?api_vip= and ?ingress_vip= are
// where they must lead, and ?names_needed=true says that its hosts can't do without them.
const DoctorRoute = BasePath + "/doctor"

// Doctor examines the site; its errors are fit for problem.From.
type Doctor interface {
	Examine(ctx context.Context, wanted Examination) (*doctor.Report, error)
}

// Examination is what is looked at.
type Examination struct {
	ClusterID string // "" for what all clusters need
	DHCP      bool   // ask DHCP servers
	Names     *ClusterNames
}

// ClusterNames are those of a cluster that is not there yet; with them nothing else is looked at.
type ClusterNames struct {
	Name, BaseDomain     string
	APIVIPs, IngressVIPs []string
	Needed               bool // the hosts can't do without the site's records
}

func registerDoctor(router *echo.Echo, examiner Doctor) {
	router.GET(DoctorRoute, func(c echo.Context) error {
		wanted := Examination{ClusterID: c.QueryParam("cluster_id"), DHCP: c.QueryParam("dhcp") == "true"}
		query := c.QueryParams()
		if query.Has("name") || query.Has("base_domain") {
			wanted.Names = &ClusterNames{
				Name: query.Get("name"), BaseDomain: query.Get("base_domain"), APIVIPs: query["api_vip"],
				IngressVIPs: query["ingress_vip"],
				Needed:      query.Get("names_needed") == "true",
			}
			if wanted.Names.Name == "" || wanted.Names.BaseDomain == "" {
				return problem.BadRequest("Give both name and base_domain.")
			}
		}
		report, err := examiner.Examine(c.Request().Context(), wanted)
		if err != nil {
			return err
		}
		return answer(c, report)
	})
}
