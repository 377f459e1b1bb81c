package console

import (
	"context"
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

// Approvals approves hosts that manifests of the Kubernetes API install.
type Approvals interface {
	Approve(ctx context.Context, infraEnvID, hostID string) error
	// Needed returns for each host that needs an approval, by its ID, whether it is approved.
	Needed() (map[string]bool, error)
}

// Host is a row of the table of hosts.
type Host struct {
	view.HostRow
	BMC *HostBMC `json:"bmc,omitempty"` // of the server from which the host registered
	// Approved reports whether the Kubernetes API may install the host; nil if the host needs no
	// approval.
	Approved *bool `json:"approved,omitempty"`
}

// HostBMC describes the server of a host.
type HostBMC struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Power bmc.Power `json:"power"`
	Error string    `json:"error,omitempty"`
}

type hosts struct {
	table     HostTable
	servers   ServerList
	approvals Approvals
}

// HostOperations returns the operations on the table of all hosts and on their approval.
func HostOperations(table HostTable, servers ServerList, approvals Approvals) []operation.Operation {
	h := hosts{table, servers, approvals}
	return []operation.Operation{
		{ID: "listAllHosts", Method: http.MethodGet, Path: HostsRoute, Access: operation.For(access.Viewer).OfOwn(),
			Handler: h.list, FromCopy: true,
			Summary: "List all hosts of the site in few facts each; with host_id, only these hosts",
			Parameters: []operation.Parameter{
				{Name: "host_id", Type: operation.UUIDList}, {Name: "cluster_id", Type: operation.UUID},
				{Name: "infra_env_id", Type: operation.UUID},
			},
			Status: http.StatusOK, Answer: map[string][]Host{}, Errors: []int{400}},
		{ID: "approveHost", Method: http.MethodPost, Path: infraEnvPath + "/hosts/:host_id/actions/approve",
			Access: operation.For(access.Operator), Handler: h.approve, DryRun: true,
			Summary: "Approve a host that manifests of the Kubernetes API install",
			Status:  http.StatusNoContent, Errors: []int{404, 409}},
	}
}

func (h hosts) approve(c echo.Context) error {
	return done(c, h.approvals.Approve(c.Request().Context(), c.Param("infra_env_id"), c.Param("host_id")))
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
	approved, err := h.approvals.Needed()
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
		host := Host{HostRow: row, BMC: byHost[row.InfraEnvID+"/"+row.ID]}
		if is, needed := approved[row.ID]; needed {
			host.Approved = &is
		}
		list = append(list, host)
	}
	return answer(c, map[string]any{"hosts": list}, nil)
}

// mayKnow reports whether a scope contains a host or an infra-env of a cluster ("" for none).
func mayKnow(scope access.Scope, infraEnv, cluster string) bool {
	return scope.InfraEnv(infraEnv, cluster) || cluster != "" && scope.Cluster(cluster)
}
