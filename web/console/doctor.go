package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/doctor"
	"landfall/web/operation"
	"landfall/web/problem"
)

// DoctorRoute is the route of the doctor's checks of the site.
const DoctorRoute = BasePath + "/doctor"

// Doctor checks the site.
type Doctor interface {
	Diagnose(ctx context.Context, wanted doctor.Request) (*doctor.Report, error)
}

// DoctorOperations returns the operation on the doctor's checks.
func DoctorOperations(d Doctor) []operation.Operation {
	return []operation.Operation{
		{ID: "diagnoseSite", Method: http.MethodGet, Path: DoctorRoute, Access: operation.For(access.Viewer),
			Handler: func(c echo.Context) error {
				wanted, err := doctorRequest(c)
				if err != nil {
					return err
				}
				report, err := d.Diagnose(c.Request().Context(), wanted)
				return answer(c, report, err)
			},
			Summary: "Check the site for all clusters, for one cluster, or for the DNS names of a new cluster. " +
				"dhcp=true sends packets to all machines of the appliance's networks. With name and base_domain, " +
				"only the DNS names of that cluster are checked",
			Parameters: []operation.Parameter{
				{Name: "cluster_id", Type: operation.UUID}, {Name: "dhcp", Type: operation.Flag}, {Name: "name"},
				{Name: "base_domain"}, {Name: "api_vip"}, {Name: "ingress_vip"},
				{Name: "names_needed", Type: operation.Flag},
			},
			Status: http.StatusOK, Answer: doctor.Report{}, Errors: []int{400, 404}},
	}
}

// doctorRequest reads the selection of checks from the query.
func doctorRequest(c echo.Context) (doctor.Request, error) {
	query := c.QueryParams()
	dhcp, err := operation.ReadFlag(c, "dhcp")
	if err != nil {
		return doctor.Request{}, err
	}
	namesNeeded, err := operation.ReadFlag(c, "names_needed")
	if err != nil {
		return doctor.Request{}, err
	}
	wanted := doctor.Request{ClusterID: query.Get("cluster_id"), CheckDHCP: dhcp}
	if !query.Has("name") && !query.Has("base_domain") {
		return wanted, nil
	}
	wanted.Names = &doctor.ClusterNames{
		Name: query.Get("name"), BaseDomain: query.Get("base_domain"), APIVIPs: query["api_vip"],
		IngressVIPs: query["ingress_vip"], Needed: namesNeeded,
	}
	if wanted.Names.Name == "" || wanted.Names.BaseDomain == "" {
		return wanted, problem.BadRequest("The query must contain both name and base_domain, or neither.")
	}
	return wanted, nil
}
