package console

import (
	"context"

	"github.com/labstack/echo/v4"

	"landfall/appliance/doctor"
)

// DoctorRoute is the route of examinations of the site: of what all clusters need, or with ?cluster_id= of what that one
// needs too. With ?dhcp=true DHCP servers are asked, which sends packets to all machines of the appliance's networks.
const DoctorRoute = BasePath + "/doctor"

// Doctor examines the site; its errors are fit for problem.From.
type Doctor interface {
	Examine(ctx context.Context, wanted Examination) (*doctor.Report, error)
}

// Examination is what is looked at.
type Examination struct {
	ClusterID string // "" for what all clusters need
	DHCP      bool   // ask DHCP servers
}

func registerDoctor(router *echo.Echo, examiner Doctor) {
	router.GET(DoctorRoute, func(c echo.Context) error {
		report, err := examiner.Examine(c.Request().Context(), Examination{ClusterID: c.QueryParam("cluster_id"), DHCP: c.QueryParam("dhcp") == "true"})
		if err != nil {
			return err
		}
		return answer(c, report)
	})
}
