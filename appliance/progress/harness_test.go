package progress

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
)

const clusterID = "0a5d0f3e-0000-4000-8000-000000000001"

var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// site builds the evidence about one cluster. Its clock stands at the last event.
type site struct {
	t *testing.T
	Evidence
}

func newSite(t *testing.T, hosts ...string) *site {
	id, status := strfmt.UUID(clusterID), lifecycle.ClusterInstalling
	s := &site{t: t, Evidence: Evidence{Now: start, Cluster: &models.Cluster{ID: &id, Name: "north",
		OpenshiftVersion: "4.20.8", Status: &status, StatusInfo: conv.Pointer(""),
		ControlPlaneCount: int64(len(hosts)), InstallStartedAt: strfmt.DateTime(start)}}}
	for i, name := range hosts {
		host := strfmt.UUID(name)
		row := &record.Host{Hostname: name}
		row.API.ID, row.API.InfraEnvID, row.API.Role = &host, "env", models.HostRoleMaster
		row.API.Bootstrap = i == 0 && len(hosts) > 1
		row.API.Status, row.API.StatusInfo = conv.Pointer(lifecycle.HostInstallingInProgress), conv.Pointer("")
		row.API.Progress = &models.HostProgressInfo{}
		row.API.ProgressStages = record.HostStages(row, len(hosts) == 1)
		s.Hosts = append(s.Hosts, row)
	}
	return s
}

func (s *site) row(name string) *record.Host {
	for _, row := range s.Hosts {
		if row.Hostname == name {
			return row
		}
	}
	s.t.Fatalf("there is no host %s", name)
	return nil
}

func (s *site) add(seconds int, name, host string, props event.Props) {
	text, err := json.Marshal(props)
	require.NoError(s.t, err)
	at := start.Add(time.Duration(seconds) * time.Second)
	when := strfmt.DateTime(at)
	ev := &models.Event{Name: name, EventTime: &when, Props: string(text)}
	if host != "" {
		ev.HostID = conv.Pointer(strfmt.UUID(host))
	}
	s.Events, s.Now = append(s.Events, ev), at
}

// stage adds the report of a stage.
func (s *site) stage(seconds int, host string, stage models.HostStage) {
	s.row(host).API.Progress.CurrentStage = stage
	s.add(seconds, event.HostStage, host, event.Props{"event": lifecycle.StageText(stage, "33%")})
}

// host moves a host to a state.
func (s *site) host(seconds int, host, to, info string) {
	row := s.row(host)
	from := *row.API.Status
	row.API.Status, row.API.StatusInfo = &to, &info
	s.add(seconds, event.HostStatus, host, event.Props{"src_status": from, "new_status": to, "info": info})
}

// cluster moves the cluster to a state.
func (s *site) cluster(seconds int, to, info string) {
	s.Cluster.Status, s.Cluster.StatusInfo = &to, &info
	s.add(seconds, event.ClusterStatus, "", event.Props{"cluster_status": to, "status_info": info})
	switch to {
	case lifecycle.ClusterInstalled, lifecycle.ClusterFailed, lifecycle.ClusterCancelled:
		s.Cluster.InstallCompletedAt = strfmt.DateTime(s.Now)
	}
}

func (s *site) derive() *Progress { return Derive(s.Evidence) }

// fail ends the installation because of one host.
func (s *site) fail(seconds int, host, info string) {
	s.host(seconds, host, lifecycle.HostFailed, info)
	s.cluster(seconds, lifecycle.ClusterFailed, "The installation failed: host "+host+": "+info)
	s.stopOthers(seconds)
}

// stopOthers ends the hosts of a failed cluster.
func (s *site) stopOthers(seconds int) {
	for _, row := range s.Hosts {
		if *row.API.Status != lifecycle.HostFailed {
			s.host(seconds, row.Hostname, lifecycle.HostFailed, lifecycle.InfoClusterFailed)
		}
	}
}

// brief describes stages as "<name> <state> <seconds>".
func brief(stages []Stage) []string {
	list := make([]string, 0, len(stages))
	for _, stage := range stages {
		list = append(list, stage.Name+" "+string(stage.State)+" "+strconv.FormatFloat(stage.Seconds, 'f', -1, 64))
	}
	return list
}

func names(parts []Part) []string {
	list := make([]string, 0, len(parts))
	for _, part := range parts {
		list = append(list, part.Name)
	}
	return list
}
