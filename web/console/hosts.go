package console

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/bmc"
	"landfall/appliance/engine/view"
	"landfall/web/operation"
)

// HostsRoute is the route of the table of all hosts. The live feed reports changes of hosts with
// the kind "hosts".
const HostsRoute = BasePath + "/hosts"

// HostTable reads the table of hosts. Package view implements it.
type HostTable interface {
	HostTable(wanted func(infraEnv, cluster, host string) bool) ([]view.HostRow, error)
}

// ServerList lists the servers whose BMCs the appliance controls.
type ServerList interface {
	Servers() ([]*bmc.Server, error)
}

// Host is a row of the table of hosts.
type Host struct {
	view.HostRow
	BMC *HostBMC `json:"bmc,omitempty"` // of the server from which the host registered
}

// HostBMC describes the server of a host.
type HostBMC struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Power bmc.Power `json:"power"`
	Error string    `json:"error,omitempty"`
}

type hosts struct {
	table   HostTable
	servers ServerList
}

// HostOperations returns the operation on the table of all hosts.
func HostOperations(table HostTable, servers ServerList) []operation.Operation {
	h := hosts{table, servers}
	return []operation.Operation{
		{ID: "listAllHosts", Method: http.MethodGet, Path: HostsRoute, Access: operation.For(access.Viewer).OfOwn(),
			Handler: h.list,
			Summary: "List all hosts of the site in few facts each; with host_id, only these hosts",
			Parameters: []operation.Parameter{
				{Name: "host_id", Type: operation.UUIDList}, {Name: "cluster_id", Type: operation.UUID},
				{Name: "infra_env_id", Type: operation.UUID},
			},
			Status: http.StatusOK, Answer: map[string][]Host{}, Errors: []int{400}},
	}
}

func (h hosts) list(c echo.Context) error {
	scope := access.From(c.Request().Context()).Scope
	ids, cluster, infraEnv := c.QueryParams()["host_id"], c.QueryParam("cluster_id"), c.QueryParam("infra_env_id")
	rows, err := h.table.HostTable(func(ofInfraEnv, ofCluster, host string) bool {
		return (len(ids) == 0 || slices.Contains(ids, host)) && (cluster == "" || cluster == ofCluster) &&
			(infraEnv == "" || infraEnv == ofInfraEnv) && mayKnow(scope, ofInfraEnv, ofCluster)
	})
	if err != nil {
		return err
	}
	servers, err := h.servers.Servers()
	if err != nil {
		return err
	}
	byHost := make(map[string]*HostBMC, len(servers))
	for _, s := range servers {
		if s.Booted == nil || s.Booted.Host == nil {
			continue
		}
		found := &HostBMC{ID: s.ID, Name: s.Name, Power: s.Power}
		if s.Error != nil {
			found.Error = s.Error.Message
		}
		byHost[s.Booted.Host.InfraEnvID+"/"+s.Booted.Host.ID] = found
	}
	list := make([]Host, 0, len(rows))
	for _, row := range rows {
		list = append(list, Host{row, byHost[row.InfraEnvID+"/"+row.ID]})
	}
	return answer(c, map[string]any{"hosts": list}, nil)
}

// mayKnow reports whether a scope contains a host or an infra-env of a cluster ("" for none).
func mayKnow(scope access.Scope, infraEnv, cluster string) bool {
	return scope.InfraEnv(infraEnv, cluster) || cluster != "" && scope.Cluster(cluster)
}
