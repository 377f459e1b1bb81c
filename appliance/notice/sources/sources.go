// Package sources finds the conditions of a site in which a person is needed, for notifications.
package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/bmc"
	"landfall/appliance/doctor"
	"landfall/appliance/engine/record"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/notice"
	"landfall/appliance/sentence"
	"landfall/store"
)

// Names of the conditions in notifications.
const (
	HostWaits      = "host_approval_pending"
	ServerFails    = "server_error"
	DiskFull       = "disk_space_low"
	MirrorUnusable = "mirror_not_usable"
	NameTaken      = "dns_name_taken"
	WorkersStalled = "hosted_workers_not_followed"
	FleetDegraded  = "fleet_degraded"
)

// Options are the parts of an appliance that know the conditions.
type Options struct {
	DB *store.DB
	// Waiting returns the hosts that wait for an approval.
	Waiting func() ([]*record.Host, error)
	Servers func() ([]*bmc.Server, error)
	Disk    func() doctor.Finding
	Mirrors func(context.Context) []doctor.Finding
	// Fleet returns what needs a person in the fleet.
	Fleet func(context.Context) ([]doctor.Finding, error)
}

const (
	often  = time.Minute
	seldom = 5 * time.Minute // for checks that send requests
)

// New returns the sources of conditions.
func New(o Options) []notice.Source {
	return []notice.Source{
		{Event: HostWaits, Find: o.waitingHosts, Interval: often,
			Several: "hosts wait for an approval", Path: "/hosts"},
		{Event: ServerFails, Find: o.failedServers, Interval: often, Patience: 2 * often,
			Several: "servers report an error", Path: "/servers"},
		{Event: DiskFull, Find: o.fullDisk, Interval: often, Path: "/"},
		{Event: MirrorUnusable, Find: o.unusableMirrors, Interval: seldom, Patience: seldom,
			Several: "registries of the mirror cannot be used", Path: "/doctor"},
		{Event: NameTaken, Find: o.takenNames, Interval: often, Path: "/"},
		{Event: WorkersStalled, Find: o.stalledWorkers, Interval: often, Patience: seldom,
			Several: "management clusters have workers that are not followed", Path: "/hosted"},
		{Event: FleetDegraded, Find: o.degradedFleet, Interval: often, Patience: 2 * often,
			Several: "parts of the fleet need a person", Path: "/doctor"},
	}
}

// waitingHosts finds the hosts that the Kubernetes API does not install before their approval.
func (o Options) waitingHosts(context.Context) (found []notice.Condition, err error) {
	hosts, err := o.Waiting()
	if err != nil || len(hosts) == 0 {
		return nil, err
	}
	err = o.DB.View(func(tx *store.Tx) error {
		for _, row := range hosts {
			id, infraEnv := row.API.ID.String(), row.API.InfraEnvID.String()
			name := cmp.Or(row.API.RequestedHostname, row.Hostname, id)
			c := notice.Condition{ID: id, Name: name, Path: "/hosts/" + infraEnv + "/" + id,
				Message: fmt.Sprintf("The host %s waits for an approval. Approve it on its page, or with landfall "+
					"host approve %[1]s.", name),
				Host: &notice.Subject{ID: id, Name: name, InfraEnvID: infraEnv}}
			if row.API.ClusterID != nil {
				c.Cluster = &notice.Subject{ID: row.API.ClusterID.String(), Name: row.API.ClusterID.String()}
				cluster, err := record.Clusters.Get(tx, c.Cluster.ID)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				if err == nil {
					c.Cluster.Name = cluster.API.Name
				}
			}
			found = append(found, c)
		}
		return nil
	})
	return found, err
}

// failedServers finds the servers whose BMC reports an error or does not respond.
func (o Options) failedServers(context.Context) (found []notice.Condition, err error) {
	servers, err := o.Servers()
	if err != nil {
		return nil, err
	}
	for _, server := range servers {
		if server.Error != nil {
			found = append(found, notice.Condition{ID: server.ID, Name: server.Name, Path: "/servers",
				Message: fmt.Sprintf("The server %s has an error. %s", server.Name, server.Error.Message)})
		}
	}
	return found, nil
}

// fullDisk finds the disk of the data directory when it is or soon will be full. Each of the two is
// a condition of its own.
func (o Options) fullDisk(context.Context) ([]notice.Condition, error) {
	disk := o.Disk()
	if disk.Status != doctor.Amber && disk.Status != doctor.Red {
		return nil, nil
	}
	return []notice.Condition{{ID: string(disk.Status), Path: "/",
		Message: text("The disk of the data directory needs space", disk)}}, nil
}

// unusableMirrors finds the registries of the mirror rules from which no image can be pulled.
func (o Options) unusableMirrors(ctx context.Context) (found []notice.Condition, err error) {
	for _, finding := range o.Mirrors(ctx) {
		if finding.Area == doctor.Registries && finding.Status == doctor.Red {
			found = append(found, notice.Condition{ID: finding.Subject, Name: finding.Subject, Path: "/doctor",
				Message: text("The registry "+finding.Subject+" of the mirror cannot be used", finding)})
		}
	}
	return found, ctx.Err()
}

// takenNames finds the DNS names that several clusters have. While the appliance's DNS service is
// off, the API accepts them, as upstream: a cluster may be created again before the old one is
// deleted.
func (o Options) takenNames(context.Context) (found []notice.Condition, err error) {
	counts := map[string]int{}
	err = o.DB.View(func(tx *store.Tx) error {
		return record.ClusterSummaries.Each(tx, "", func(_ string, row *record.ClusterSummary) error {
			// A cluster for hosts that join has the name of the cluster that they join.
			if row.API.BaseDNSDomain != "" && row.API.Kind != models.ClusterKindAddHostsCluster {
				counts[strings.ToLower(row.API.Name+"."+row.API.BaseDNSDomain)]++
			}
			return nil
		})
	})
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 1 {
			found = append(found, notice.Condition{ID: name, Name: name, Path: "/",
				Message: fmt.Sprintf("%d clusters have the DNS name %s. A client of one may reach the other, and the "+
					"DNS of the appliance answers for none of them. Delete or rename one.", counts[name], name)})
		}
	}
	return found, err
}

// stalledWorkers finds the management clusters whose workers from this appliance are not followed.
func (o Options) stalledWorkers(context.Context) (found []notice.Condition, err error) {
	return found, o.DB.View(func(tx *store.Tx) error {
		return workers.EachProblem(tx, func(consumer, reason string) error {
			found = append(found, notice.Condition{ID: consumer, Name: consumer, Path: "/hosted",
				Message: fmt.Sprintf("The workers of the management cluster %s are not followed. %s", consumer,
					reason)})
			return nil
		})
	})
}

// degradedFleet finds members of the fleet that are away, and servers of etcd that are not healthy.
func (o Options) degradedFleet(ctx context.Context) (found []notice.Condition, err error) {
	findings, err := o.Fleet(ctx)
	for _, finding := range findings {
		found = append(found, notice.Condition{ID: finding.Subject, Name: finding.Subject, Path: "/doctor",
			Message: text("The fleet needs a person. The "+finding.Subject, finding)})
	}
	return found, err
}

// text returns the message about a finding.
func text(problem string, finding doctor.Finding) string {
	return strings.TrimSpace(problem + ": " + sentence.Close(finding.Result) + " " + finding.Advice)
}
