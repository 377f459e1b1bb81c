package console

import (
	"context"

	"github.com/labstack/echo/v4"

	"landfall/appliance/doctor"
)

// DoctorRoute is the route of examinations of the site: of what all clusters need, or with ?cluster_id= of what that one
// needs too.
const DoctorRoute = BasePath + "/doctor"

// Doctor examines the site; its errors are fit for problem.From.
type Doctor interface {
	Examine(ctx context.Context, clusterID string) (*doctor.Report, error)
}

func registerDoctor(router *echo.Echo, examiner Doctor) {
	router.GET(DoctorRoute, func(c echo.Context) error {
		report, err := examiner.Examine(c.Request().Context(), c.QueryParam("cluster_id"))
		if err != nil {
			return err
		}
		return answer(c, report)
	})
}
