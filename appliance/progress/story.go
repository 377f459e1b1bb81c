package progress

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
)

// roleBootstrap is the role of the control-plane host on which the installation begins.
const roleBootstrap = string(models.HostRoleBootstrap)

// stagePreparation is the stage of a host before its installer starts.
const stagePreparation = "Preparation"

// step is the beginning of a phase or a stage.
type step struct {
	name string
	at   time.Time
}

// change is a new state of a host or a cluster.
type change struct {
	host     string // ID, or "" for the cluster
	from, to string
	info     string
	at       time.Time
}

// story is an installation as the events tell it.
type story struct {
	clusterPhases []step
	finalStages   []step
	hostStages    map[string][]step // by the host's ID
	changes       []change
}

// read reads the events since the start of an installation. It ignores events that it cannot read:
// the missing times are then unknown.
func read(events []*models.Event, started time.Time) *story {
	s := &story{clusterPhases: []step{{PhasePreparing, started}}, hostStages: make(map[string][]step)}
	// The API cuts times to milliseconds.
	started = started.Truncate(time.Millisecond)
	for _, ev := range events {
		if at := moment(conv.Value(ev.EventTime)); !at.Before(started) {
			s.add(ev, at)
		}
	}
	return s
}

func (s *story) add(ev *models.Event, at time.Time) {
	var props struct {
		Event     string `json:"event"`
		From      string `json:"src_status"`
		To        string `json:"new_status"`
		Info      string `json:"info"`
		Status    string `json:"cluster_status"`
		Why       string `json:"status_info"`
		Finishing string `json:"finalizing_stage"`
	}
	if json.Unmarshal([]byte(ev.Props), &props) != nil {
		return
	}
	host := ""
	if ev.HostID != nil {
		host = ev.HostID.String()
	}
	switch ev.Name {
	case event.HostStage:
		s.enterStage(host, stageIn(props.Event), at)
	case event.HostStatus:
		s.changes = append(s.changes, change{host, props.From, props.To, props.Info, at})
		switch props.To {
		case lifecycle.HostPreparing:
			s.enterStage(host, stagePreparation, at)
		case lifecycle.HostInstalling:
			s.enterStage(host, string(models.HostStageStartingInstallation), at)
		}
	case event.ClusterStatus:
		s.changes = append(s.changes, change{"", "", props.Status, props.Why, at})
		switch props.Status {
		case lifecycle.ClusterInstalling:
			s.enterPhase(PhaseInstalling, at)
		case lifecycle.ClusterFinalizing:
			s.enterPhase(PhaseFinalizing, at)
		}
	case event.FinalizingStage:
		s.finalStages = append(s.finalStages, step{props.Finishing, at})
	}
}

// enterStage notes the first beginning of a stage of a host.
func (s *story) enterStage(host, stage string, at time.Time) {
	known := slices.ContainsFunc(s.hostStages[host], func(one step) bool { return one.name == stage })
	if stage != "" && !known {
		s.hostStages[host] = append(s.hostStages[host], step{stage, at})
	}
}

// enterPhase notes the first beginning of a phase. A cluster returns to a phase after a person has
// corrected a host.
func (s *story) enterPhase(phase string, at time.Time) {
	if !slices.ContainsFunc(s.clusterPhases, func(one step) bool { return one.name == phase }) {
		s.clusterPhases = append(s.clusterPhases, step{phase, at})
	}
}

// stageIn returns the stage in the text of an event: see [lifecycle.StageText].
func stageIn(text string) string {
	name, _, _ := strings.Cut(text, " (")
	return strings.TrimSuffix(name, ".")
}

// stateOfEnd returns the state of the part that was running when the cluster reached a state.
func stateOfEnd(clusterStatus string) State {
	switch clusterStatus {
	case lifecycle.ClusterInstalled, lifecycle.ClusterAddingHosts:
		return Done
	case lifecycle.ClusterFailed:
		return Failed
	case lifecycle.ClusterPendingUserAction:
		return Blocked
	}
	if isInstalling(clusterStatus) {
		return Running
	}
	return Stopped
}

func (s *story) phases(clusterStatus string, end time.Time, usual usual) []Stage {
	list := timed(s.clusterPhases, stateOfEnd(clusterStatus), end)
	for _, name := range []string{PhasePreparing, PhaseInstalling, PhaseFinalizing}[len(list):] {
		list = append(list, Stage{Name: name, State: Waiting})
	}
	for i := range list {
		usual.apply(&list[i], usual.phases[list[i].Name])
	}
	return list
}

func (s *story) finalizing(clusterStatus string, end time.Time) []Stage {
	return timed(s.finalStages, stateOfEnd(clusterStatus), end)
}

// timed returns stages with their durations. The last one has the given state, and ends at end.
func timed(steps []step, last State, end time.Time) []Stage {
	list := make([]Stage, 0, len(steps))
	for i, one := range steps {
		stage := Stage{Name: one.name, State: Done, Started: one.at}
		until := end
		if i+1 < len(steps) {
			until = steps[i+1].at
		} else {
			stage.State = last
		}
		stage.Seconds = max(0, until.Sub(one.at).Seconds())
		list = append(list, stage)
	}
	return list
}

// host describes a host's installation.
func (s *story) host(row *record.Host, end time.Time, usual usual) Host {
	api := &row.API
	h := Host{ID: api.ID.String(), InfraEnvID: api.InfraEnvID.String(), Role: roleOf(row), Name: nameOf(row),
		Status: conv.Value(api.Status), StatusInfo: conv.Value(api.StatusInfo)}
	if api.Progress != nil {
		h.Stage, h.StageInfo = string(api.Progress.CurrentStage), api.Progress.ProgressInfo
		h.Percent = api.Progress.InstallationPercentage
	}
	h.State = s.stateOfHost(h.ID, h.Status, h.Stage)
	done := string(models.HostStageDone)
	steps := slices.DeleteFunc(slices.Clone(s.hostStages[h.ID]), func(one step) bool {
		if one.name == done {
			end = one.at
		}
		return one.name == done
	})
	if left, ok := s.leftInstallation(h.ID); ok && h.State != Done {
		end = left
	}
	h.Stages = timed(steps, h.State, end)
	if h.State == Running || h.State == Blocked {
		h.Stages = append(h.Stages, later(steps, api.ProgressStages)...)
	}
	for i := range h.Stages {
		usual.apply(&h.Stages[i], usual.stages[h.Role][h.Stages[i].Name])
	}
	return h
}

// later returns the stages that follow the last reported one. A host leaves out some stages.
func later(reported []step, order []models.HostStage) []Stage {
	last := -1
	for _, one := range reported {
		last = max(last, slices.Index(order, models.HostStage(one.name)))
	}
	var list []Stage
	for _, stage := range order[last+1:] {
		if stage != models.HostStageDone {
			list = append(list, Stage{Name: string(stage), State: Waiting})
		}
	}
	return list
}

func (s *story) stateOfHost(id, status, stage string) State {
	switch status {
	case lifecycle.HostInstalled, lifecycle.HostAdded:
		return Done
	case lifecycle.HostFailed:
		if stage == string(models.HostStageDone) {
			return Done // the cluster failed after the host was installed
		}
		for _, c := range s.changes {
			if c.host == id && c.to == lifecycle.HostFailed && !isConsequence(c) {
				return Failed
			}
		}
		return Stopped
	case lifecycle.HostPreparingFailed:
		return Failed
	case lifecycle.HostPendingUserAction:
		return Blocked
	case lifecycle.HostPreparing, lifecycle.HostPrepared, lifecycle.HostInstalling, lifecycle.HostInstallingInProgress:
		return Running
	}
	return Stopped
}

// leftInstallation returns the time at which a host's installation ended without success.
func (s *story) leftInstallation(id string) (time.Time, bool) {
	for _, c := range slices.Backward(s.changes) {
		if c.host == id && (c.to == lifecycle.HostFailed || c.to == lifecycle.HostCancelled) {
			return c.at, true
		}
	}
	return time.Time{}, false
}

func roleOf(row *record.Host) string {
	if row.API.Bootstrap {
		return roleBootstrap
	}
	return string(row.API.Role)
}

func nameOf(row *record.Host) string {
	return cmp.Or(row.API.RequestedHostname, row.Hostname, row.API.ID.String())
}
