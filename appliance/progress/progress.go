// Package progress explains one installation of a cluster: the stages of each host with the time
// that each took, the time left by the site's earlier installations, and after a failure its root
// cause with a remedy.
//
// [Derive] computes this from rows and events and does no I/O. [Service] reads them, and records
// the durations of finished installations, because events are removed after some time.
package progress

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
)

// State is the state of a phase or a stage.
type State string

// States of phases and stages.
const (
	Waiting State = "waiting" // has not begun
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Stopped State = "stopped" // ended because another part failed, or by a person
	Blocked State = "blocked" // waits for a person
)

// Progress is one installation of a cluster.
type Progress struct {
	At         time.Time `json:"at"`
	ClusterID  string    `json:"cluster_id"`
	Name       string    `json:"name"`
	Version    string    `json:"openshift_version"`
	Status     string    `json:"status"`
	StatusInfo string    `json:"status_info"`
	Percent    int64     `json:"percent"`
	// Started is zero before the first installation, Ended before the end of this one.
	Started time.Time `json:"started_at,omitzero"`
	Ended   time.Time `json:"ended_at,omitzero"`
	// Estimate is nil if the installation has ended, or if no earlier installation is similar.
	Estimate *Estimate `json:"estimate,omitempty"`
	Phases   []Stage   `json:"phases"`
	Hosts    []Host    `json:"hosts"`
	// Finalizing lists the stages that the controller in the cluster reported.
	Finalizing []Stage    `json:"finalizing_stages"`
	Operators  []Operator `json:"operators"`
	Failure    *Failure   `json:"failure,omitempty"`
}

// Stage is a phase of the cluster or a stage of a host.
type Stage struct {
	Name    string    `json:"name"`
	State   State     `json:"state"`
	Started time.Time `json:"started_at,omitzero"`
	// Seconds is the time that the stage took, or has taken until now. It is 0 if the stage has not
	// begun, or if its beginning is not known.
	Seconds float64 `json:"seconds,omitempty"`
	// Usual is the median of earlier installations, in seconds, or 0.
	Usual float64 `json:"usual_seconds,omitempty"`
	// Late reports that a running stage takes much longer than ever before at this site.
	Late bool `json:"late,omitempty"`
}

// Host is a host in its installation.
type Host struct {
	ID         string  `json:"id"`
	InfraEnvID string  `json:"infra_env_id"`
	Name       string  `json:"name"`
	Role       string  `json:"role"` // bootstrap, master, worker or arbiter
	State      State   `json:"state"`
	Status     string  `json:"status"`
	StatusInfo string  `json:"status_info"`
	Stage      string  `json:"stage,omitempty"`
	StageInfo  string  `json:"stage_info,omitempty"`
	Percent    int64   `json:"percent"`
	Stages     []Stage `json:"stages"`
}

// Operator is an operator that the controller in the cluster monitors.
type Operator struct {
	Name    string `json:"name"`
	Builtin bool   `json:"builtin"`
	Status  string `json:"status"` // "" if it has not been reported
	Info    string `json:"status_info,omitempty"`
	Version string `json:"version,omitempty"`
}

// Phases of an installation.
const (
	PhasePreparing  = "Preparing"
	PhaseInstalling = "Installing"
	PhaseFinalizing = "Finalizing"
)

// Evidence is what is known about a cluster.
type Evidence struct {
	Cluster *models.Cluster // without hosts
	Hosts   []*record.Host
	Events  []*models.Event // of the cluster and its hosts, the oldest first
	Past    []*Past         // finished installations of the site
	Now     time.Time
}

// Derive explains the newest installation of a cluster.
func Derive(e Evidence) *Progress {
	cluster := e.Cluster
	p := &Progress{
		At: e.Now.UTC(), ClusterID: cluster.ID.String(), Name: cluster.Name, Version: cluster.OpenshiftVersion,
		Status: conv.Value(cluster.Status), StatusInfo: conv.Value(cluster.StatusInfo),
		Phases: []Stage{}, Hosts: []Host{}, Finalizing: []Stage{}, Operators: operators(cluster),
		Started: moment(cluster.InstallStartedAt),
	}
	if cluster.Progress != nil {
		p.Percent = cluster.Progress.TotalPercentage
	}
	if p.Started.IsZero() {
		return p
	}
	p.Ended = moment(cluster.InstallCompletedAt)
	story := read(e.Events, p.Started)
	usual := usualOf(e.Past, shapeOf(cluster, e.Hosts))
	end := cmp.Or(p.Ended, p.At)
	p.Phases = story.phases(p.Status, end, usual)
	for _, host := range e.Hosts {
		if !host.IsDay2() {
			p.Hosts = append(p.Hosts, story.host(host, end, usual))
		}
	}
	slices.SortStableFunc(p.Hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(rank(a.Role), rank(b.Role)), cmp.Compare(a.Name, b.Name))
	})
	p.Finalizing = story.finalizing(p.Status, end)
	p.Failure = story.failure(p, cluster)
	if p.Ended.IsZero() && isInstalling(p.Status) {
		p.Estimate = estimate(p, usual)
	}
	return p
}

// InProgress reports whether a cluster in this state is being installed, or its installation has
// ended and was not reset.
func InProgress(status string) bool {
	return isInstalling(status) || slices.Contains([]string{lifecycle.ClusterInstalled, lifecycle.ClusterAddingHosts,
		lifecycle.ClusterFailed, lifecycle.ClusterCancelled}, status)
}

func isInstalling(status string) bool {
	return status == lifecycle.ClusterPreparing || slices.Contains(lifecycle.ClusterInstallingStates, status)
}

func operators(cluster *models.Cluster) []Operator {
	list := make([]Operator, 0, len(cluster.MonitoredOperators))
	for _, o := range cluster.MonitoredOperators {
		list = append(list, Operator{Name: o.Name, Builtin: o.OperatorType == models.OperatorTypeBuiltin,
			Status: string(o.Status), Info: o.StatusInfo, Version: o.Version})
	}
	return list
}

// rank orders the roles of hosts.
func rank(role string) int {
	switch role {
	case roleBootstrap:
		return 0
	case string(models.HostRoleMaster):
		return 1
	case string(models.HostRoleArbiter):
		return 2
	}
	return 3
}

// moment returns a time of the API, or zero for the several zeros of the API.
func moment(at strfmt.DateTime) time.Time {
	if t := time.Time(at); t.Unix() > 0 {
		return t.UTC()
	}
	return time.Time{}
}
