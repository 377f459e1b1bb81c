// Package overview counts the clusters, hosts and servers of a site by state, and lists those that
// need a person. It reads rows only, so that a page of thousands of clusters stays small.
package overview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/backup"
	"landfall/appliance/bmc"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/replica"
	"landfall/appliance/sentence"
	"landfall/appliance/storage"
	"landfall/store"
)

// listLimit is the largest number of entries of each list. The counts include all.
const listLimit = 100

// Overview describes the site.
type Overview struct {
	At time.Time `json:"at"`
	// Clusters and Hosts are numbers by status.
	Clusters map[string]int `json:"clusters"`
	Hosts    map[string]int `json:"hosts"`
	// Servers is the number of servers that are controlled by their BMCs, and FailedServers the
	// number of those with an error.
	Servers       int `json:"servers"`
	FailedServers int `json:"failed_servers"`
	// Installations are under way, the oldest first.
	Installations []Installation `json:"installations"`
	// Attention lists what needs a person: failures first.
	Attention      []Item       `json:"attention"`
	AttentionTotal int          `json:"attention_total"` // including those above the limit of the list
	Disk           storage.Disk `json:"disk"`
	// Damage lists the stored data that is damaged and left out everywhere.
	Damage []store.Damage `json:"damage"`
	// Fleet reports whether this machine is a member of a fleet.
	Fleet bool `json:"fleet"`
}

// Installation is a cluster that is being installed.
type Installation struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Version string    `json:"openshift_version"`
	Status  string    `json:"status"`
	Info    string    `json:"status_info"`
	Percent int64     `json:"percent"`
	Started time.Time `json:"started_at,omitzero"`
}

// Item is a cluster, host, server, management cluster, replica or directory of backups that needs a
// person.
type Item struct {
	Kind     string `json:"kind"` // cluster, host, server, management-cluster, replica or backups
	ID       string `json:"id"`
	Name     string `json:"name"`
	Cluster  string `json:"cluster_id,omitempty"`   // of a host
	InfraEnv string `json:"infra_env_id,omitempty"` // of a host
	Status   string `json:"status"`
	Info     string `json:"status_info"`
}

// Reader reads the overview.
type Reader struct {
	db      *store.DB
	servers func() ([]*bmc.Server, error)
	usage   *storage.Usage
	replica func() *replica.State
	backups func() *backup.State
	clock   clockwork.Clock
}

// NewReader returns a reader for a store, a list of servers, the usage of a data directory and the
// states of its replica and of its scheduled backups.
func NewReader(db *store.DB, servers func() ([]*bmc.Server, error), usage *storage.Usage,
	replica func() *replica.State, backups func() *backup.State, clock clockwork.Clock) *Reader {
	return &Reader{db: db, servers: servers, usage: usage, replica: replica, backups: backups, clock: clock}
}

// Overview returns the current overview.
func (r *Reader) Overview() (*Overview, error) {
	shown := &Overview{At: r.clock.Now().UTC(), Clusters: map[string]int{}, Hosts: map[string]int{},
		Installations: []Installation{}, Attention: []Item{}, Fleet: r.db.Sequence() > 0}
	err := r.db.View(func(tx *store.Tx) error {
		if err := record.Clusters.Each(tx, "", shown.addCluster); err != nil {
			return err
		}
		return errors.Join(record.Hosts.Each(tx, "", shown.addHost), maestro.EachHold(tx, shown.addHold),
			shown.addWorkers(tx))
	})
	if err != nil {
		return nil, fmt.Errorf("read the clusters and hosts: %w", err)
	}
	if err := shown.addServers(r.servers); err != nil {
		return nil, err
	}
	shown.addReplica(r.replica())
	shown.addBackups(r.backups())
	slices.SortFunc(shown.Installations, func(a, b Installation) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(shown.Attention, func(a, b Item) int {
		return cmp.Or(cmp.Compare(urgency(a.Status), urgency(b.Status)), cmp.Compare(a.Name, b.Name))
	})
	shown.AttentionTotal = len(shown.Attention)
	shown.Attention = shown.Attention[:min(len(shown.Attention), listLimit)]
	shown.Installations = shown.Installations[:min(len(shown.Installations), listLimit)]
	damage := r.db.Damage()
	shown.Damage = damage[:min(len(damage), listLimit)]
	if shown.Disk, err = r.usage.Read(); err != nil {
		return nil, err
	}
	return shown, nil
}

func (o *Overview) addCluster(id string, row *record.Cluster) error {
	status := conv.Value(row.API.Status)
	o.Clusters[status]++
	switch status {
	case lifecycle.ClusterPreparing, lifecycle.ClusterInstalling, lifecycle.ClusterPendingUserAction,
		lifecycle.ClusterFinalizing:
		installation := Installation{ID: id, Name: row.API.Name, Version: row.API.OpenshiftVersion, Status: status,
			Info: conv.Value(row.API.StatusInfo), Started: time.Time(row.API.InstallStartedAt)}
		if row.API.Progress != nil {
			installation.Percent = row.API.Progress.TotalPercentage
		}
		o.Installations = append(o.Installations, installation)
	}
	if urgency(status) > 0 {
		o.Attention = append(o.Attention, Item{Kind: "cluster", ID: id, Name: row.API.Name, Status: status,
			Info: conv.Value(row.API.StatusInfo)})
	}
	return nil
}

func (o *Overview) addHost(_ string, row *record.Host) error {
	status := conv.Value(row.API.Status)
	o.Hosts[status]++
	if urgency(status) == 0 || status == lifecycle.HostInsufficient {
		return nil // the cluster of an insufficient host is listed
	}
	item := Item{Kind: "host", ID: row.API.ID.String(), InfraEnv: row.API.InfraEnvID.String(), Status: status,
		Info: conv.Value(row.API.StatusInfo),
		Name: cmp.Or(row.API.RequestedHostname, row.Hostname, row.API.ID.String())}
	if row.API.ClusterID != nil {
		item.Cluster = row.API.ClusterID.String()
	}
	o.Attention = append(o.Attention, item)
	return nil
}

func (o *Overview) addServers(servers func() ([]*bmc.Server, error)) error {
	all, err := servers()
	if err != nil {
		return fmt.Errorf("list the servers: %w", err)
	}
	o.Servers = len(all)
	for _, server := range all {
		if server.Error == nil {
			continue
		}
		o.FailedServers++
		o.Attention = append(o.Attention, Item{Kind: "server", ID: server.ID, Name: server.Name,
			Status: string(server.Error.Type), Info: server.Error.Message})
	}
	return nil
}

// behind is the status of a replica that has lacked changes for some time.
const behind = "behind"

func (o *Overview) addReplica(state *replica.State) {
	if state == nil || !state.Behind {
		return
	}
	o.Attention = append(o.Attention, Item{Kind: "replica", ID: state.Place, Name: state.Place, Status: behind,
		Info: fmt.Sprintf("It may lack all changes since %s. %s", state.Shipped.Format(time.RFC3339),
			sentence.Capitalize(sentence.Close(state.Failure)))})
}

// failing is the status of backups that can't be written, or of which old ones can't be removed.
const failing = "failing"

func (o *Overview) addBackups(state *backup.State) {
	if state == nil || state.Problem() == "" {
		return
	}
	o.Attention = append(o.Attention, Item{Kind: "backups", ID: state.Dir, Name: state.Dir, Status: failing,
		Info: state.Problem()})
}

// held is the status of a management cluster to which nothing is sent until a person has decided.
const held = "held"

func (o *Overview) addHold(hold *maestro.Hold) error {
	o.Attention = append(o.Attention, Item{Kind: "management-cluster", ID: hold.Consumer, Name: hold.Consumer,
		Status: held, Info: hold.Reason + " landfall hcp connection " + hold.Consumer + " shows what to decide."})
	return nil
}

// stalled is the status of a management cluster whose workers from this appliance are not followed.
const stalled = "workers-not-followed"

func (o *Overview) addWorkers(tx *store.Tx) error {
	return workers.EachProblem(tx, func(consumer, reason string) error {
		if slices.ContainsFunc(o.Attention, func(i Item) bool { return i.Status == held && i.ID == consumer }) {
			return nil // the hold is the reason
		}
		o.Attention = append(o.Attention, Item{Kind: "management-cluster", ID: consumer, Name: consumer,
			Status: stalled, Info: reason + " landfall hcp consumers workers " + consumer + " shows all hosts."})
		return nil
	})
}

// urgency orders the states that need a person, the most urgent first; 0 means that nobody is
// needed. Errors of servers follow failed installations.
func urgency(status string) int {
	switch status {
	case lifecycle.ClusterFailed:
		return 1
	case lifecycle.ClusterPendingUserAction, held, behind, failing, stalled:
		return 2
	case lifecycle.HostDisconnected, lifecycle.HostDisconnectedUnbound:
		return 4
	case lifecycle.ClusterReady:
		return 5
	case lifecycle.ClusterPendingForInput:
		return 6
	case lifecycle.ClusterInsufficient, lifecycle.HostInsufficientUnbound:
		return 7
	case lifecycle.HostKnownUnbound:
		return 8
	case string(bmc.RegistrationError), string(bmc.InspectionError), string(bmc.PreparationError),
		string(bmc.ProvisioningError), string(bmc.PowerManagementError), string(bmc.ProvisionedRegistrationError),
		string(bmc.DetachError):
		return 3
	}
	return 0
}
