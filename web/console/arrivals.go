package console

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/arrival"
	"landfall/appliance/bmc"
	"landfall/appliance/sentence"
	"landfall/web/image/progress"
	"landfall/web/operation"
	"landfall/web/problem"
)

// registrationBytes limits how much of a registration is read for the record of refusals.
const registrationBytes = 64 << 10

// ArrivalOptions configures the operation that explains why hosts are missing.
type ArrivalOptions struct {
	Table     HostTable
	Servers   ServerList
	InfraEnvs func(clusterID string) ([]*models.InfraEnv, error) // with "": all
	Cluster   func(id string) (*models.Cluster, error)
	// Reads reports the reads of an infra-env's images.
	Reads    func(ctx context.Context, infraEnvID string) ([]progress.Report, error)
	Refusals *arrival.Refusals
	URL      string    // under which hosts reach the appliance
	Started  time.Time // of the appliance
}

// Arrivals is the answer to the question why hosts are missing.
type Arrivals struct {
	Since    time.Time         `json:"since"` // reads and refusals before this time are not known
	Findings []arrival.Finding `json:"findings"`
	Lines    []arrival.Line    `json:"lines"`
}

// ArrivalOperations returns the operation that explains why hosts are missing.
func ArrivalOperations(options ArrivalOptions) []operation.Operation {
	return []operation.Operation{
		{ID: "explainMissingHosts", Method: http.MethodGet, Path: BasePath + "/missing-hosts",
			Access: operation.For(access.Viewer).OfOwn(), Handler: options.explain,
			Summary: "Explain why machines have not registered: refused registrations, reads of images, servers " +
				"that were booted; with commands to try on such a machine",
			Status: http.StatusOK, Answer: Arrivals{}},
	}
}

func (o ArrivalOptions) explain(c echo.Context) error {
	evidence, err := o.evidence(c.Request().Context())
	if err != nil {
		return err
	}
	return answer(c, Arrivals{o.Started, evidence.Findings(), arrival.Lines(o.URL)}, nil)
}

// evidence collects the evidence that the identity of a context may see.
func (o ArrivalOptions) evidence(ctx context.Context) (arrival.Evidence, error) {
	scope, evidence := access.From(ctx).Scope, arrival.Evidence{Started: o.Started}
	infraEnvs, err := o.InfraEnvs("")
	if err != nil {
		return evidence, err
	}
	hosts, err := o.Table.HostTable(nil)
	if err != nil {
		return evidence, err
	}
	registered := make(map[string]int)
	for _, host := range hosts {
		registered[host.InfraEnvID]++
	}
	known, refused := make(map[string]bool), make(map[string]bool)
	for _, refusal := range o.Refusals.List() {
		refused[refusal.InfraEnvID] = refused[refusal.InfraEnvID] || refusal.Temporary()
	}
	for _, infraEnv := range infraEnvs {
		id := infraEnv.ID.String()
		if !mayKnow(scope, id, infraEnv.ClusterID.String()) {
			continue
		}
		known[id] = true
		reports, err := o.Reads(ctx, id)
		if err != nil {
			return evidence, err
		}
		shown := arrival.InfraEnv{ID: id, Name: *infraEnv.Name, Hosts: registered[id]}
		for _, r := range reports {
			shown.Reads = append(shown.Reads, arrival.Read{Client: r.Client, First: r.FirstRead, Last: r.LastRead,
				Reading: r.State == progress.Reading, Finished: r.State == progress.Finished,
				Registered: r.Registered, Sentence: r.Sentence})
		}
		if refused[id] && infraEnv.ClusterID != "" {
			cluster, err := o.Cluster(infraEnv.ClusterID.String())
			if err == nil && conv.Value(cluster.Status) == models.ClusterStatusInstalled {
				shown.InstalledCluster = cluster.Name
			}
		}
		evidence.InfraEnvs = append(evidence.InfraEnvs, shown)
	}
	for _, refusal := range o.Refusals.List() {
		if !scope.Limited() || known[refusal.InfraEnvID] {
			evidence.Refusals = append(evidence.Refusals, refusal)
		}
	}
	servers, err := o.Servers.Servers()
	for _, server := range servers {
		if !scope.Limited() || known[infraEnvOf(server)] {
			evidence.Servers = append(evidence.Servers, server)
		}
	}
	return evidence, err
}

// infraEnvOf returns the infra-env from whose image a server was booted or will be booted.
func infraEnvOf(s *bmc.Server) string {
	if s.Booted != nil && s.Booted.InfraEnvID != "" {
		return s.Booted.InfraEnvID
	}
	return s.InfraEnvID
}

// RecordRefusals returns the handler of an operation. If the operation is the registration of
// hosts, the handler records refused registrations, also those that the access rule refuses.
func RecordRefusals(refusals *arrival.Refusals, o operation.Operation, handler echo.HandlerFunc) echo.HandlerFunc {
	if o.ID != "v2RegisterHost" {
		return handler
	}
	return func(c echo.Context) error {
		r := c.Request()
		body, err := io.ReadAll(io.LimitReader(r.Body, registrationBytes))
		if err != nil {
			return problem.BadRequest("the registration can't be read: %s", err)
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		var sent struct {
			HostID string `json:"host_id"`
		}
		if json.Unmarshal(body, &sent) != nil {
			sent.HostID = ""
		}
		err = handler(c)
		if err == nil {
			refusals.Registered(sent.HostID)
			return nil
		}
		refused := problem.From(err)
		address, _, splitErr := net.SplitHostPort(r.RemoteAddr)
		if splitErr != nil {
			address = r.RemoteAddr
		}
		refusals.Refused(arrival.Refusal{Address: address, InfraEnvID: c.Param("infra_env_id"), HostID: sent.HostID,
			Status: refused.Status, Reason: sentence.Shorten(refused.Error(), 400)})
		return err
	}
}
