package engine

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
)

// moved is how the event of a new state tells it.
var moved = regexp.MustCompile(`: (\S+) -> (\S+)\. `)

// check holds the invariants after a change:
//
//   - a host is in the cluster that its record names and in no other, and in one infra-env;
//   - each object that could move without anything happening has a deadline, and not a late one;
//   - the events of an object tell its states without a gap, and each event is in the store;
//   - what AMS is to hear is what the cluster's history calls for, one generation a difference.
func (s *site) check(c *change) {
	s.checkEvents(c)
	var places []string
	err := clusterHosts.Keys(s.tx, "", func(key string) error { places = append(places, key); return nil })
	if err != nil {
		s.fail("%v", err)
	}
	deadlines := make(map[string]time.Time)
	due, err := lifeDeadlines.Due(s.tx, s.clock.Now().Add(1000*time.Hour), 0)
	if err != nil {
		s.fail("%v", err)
	}
	for _, d := range due {
		deadlines[d.Key] = d.At
	}
	for key, h := range c.hosts { // the others are as they were
		s.seen.states["host "+*h.API.Status].Add(1)
		s.checkPlace(key, h, places)
		if told := s.chains[h.API.ID.String()]; told != *h.API.Status {
			s.fail("host %s is %s, its events end at %s", key, *h.API.Status, told)
		}
		s.checkDeadline(deadlines, hostDeadline(key), s.hostMovesBy(h), *h.API.Status)
	}
	row := c.clusters[walkCluster]
	if row == nil {
		return
	}
	s.seen.states["cluster "+*row.API.Status].Add(1)
	if !s.history {
		s.chains[walkCluster] = *row.API.Status
	}
	if told := s.chains[walkCluster]; told != *row.API.Status {
		s.fail("the cluster is %s, its events end at %s", *row.API.Status, told)
	}
	s.checkDeadline(deadlines, clusterDeadline(walkCluster), s.clusterMovesBy(row), *row.API.Status)
	s.checkOutbox(row)
}

func (s *site) checkPlace(key string, h *hostRecord, places []string) {
	var in []string
	for _, place := range places {
		if cluster, host, _ := strings.Cut(place, "/"); host == key {
			in = append(in, cluster)
		}
	}
	want := []string(nil)
	if h.API.ClusterID != nil {
		want = []string{h.API.ClusterID.String()}
	}
	if !slices.Equal(in, want) {
		s.fail("host %s names the clusters %v and is among the hosts of %v", key, want, in)
	}
	var envs []string
	err := hostPlaces.Keys(s.tx, h.API.ID.String()+"/", func(place string) error { envs = append(envs, place); return nil })
	if err != nil || len(envs) != 1 || envs[0] != h.API.ID.String()+"/"+h.API.InfraEnvID.String() {
		s.fail("host %s is in the infra-envs %v: %v", key, envs, err)
	}
}

func (s *site) checkDeadline(deadlines map[string]time.Time, key string, by time.Time, status string) {
	if by.IsZero() {
		return
	}
	at, ok := deadlines[key]
	// What was looked at and did not move is looked at again within a minute.
	if latest := s.clock.Now().Add(time.Minute); by.Before(latest) {
		by = latest
	}
	if !ok || at.After(by) {
		s.fail("%s is %s and moves by %s at the latest; its deadline is %s", key, status, by, at)
	}
}

// hostMovesBy is when a host moves at the latest if nothing happens to it, zero for never. It is told from the facts about the
// Assisted Installer's limits, not from the engine's code.
func (s *site) hostMovesBy(h *hostRecord) time.Time {
	silent := s.clock.Now().Add(3 * time.Minute)
	entered, stage := time.Time(h.API.StatusUpdatedAt), time.Time(h.API.StageUpdatedAt)
	switch *h.API.Status {
	case discovering, known, insufficient, pendingForInput, discoveringUnbound, knownUnbound, insufficientUnbound, unbinding, prepared, preparingFailed:
		return silent
	case preparing:
		return earlier(silent, entered.Add(8*time.Minute))
	case installing:
		return entered.Add(20 * time.Minute)
	case inProgress:
		if h.API.Progress.StageTimedOut {
			return time.Time{}
		}
		limit := time.Hour
		switch h.API.Progress.CurrentStage {
		case models.HostStageStartingInstallation, models.HostStageWritingImageToDisk:
			limit = 30 * time.Minute
		case stageCopyingRegistry:
			limit = 90 * time.Minute
		case models.HostStageRebooting:
			limit = 80 * time.Minute
		case models.HostStageWaitingForIgnition:
			limit = 24 * time.Hour
		}
		return stage.Add(limit)
	case resetting:
		return entered.Add(3 * time.Minute)
	case reclaiming, reclaimRebooting:
		return entered.Add(time.Hour)
	case failed, cancelled:
		if h.API.LogsInfo == models.LogsStateEmpty && time.Time(h.API.LogsStartedAt).IsZero() {
			return entered.Add(2 * time.Minute)
		}
	}
	return time.Time{}
}

func (s *site) clusterMovesBy(row *clusterRecord) time.Time {
	entered, started := time.Time(row.API.StatusUpdatedAt), time.Time(row.API.InstallStartedAt)
	switch *row.API.Status {
	case clusterPreparing:
		return entered.Add(10 * time.Minute)
	case clusterInstalling, clusterUserAction:
		return started.Add(24 * time.Hour)
	case clusterFinalizing:
		if s.e.Timeouts.WarnOnly {
			return started.Add(24 * time.Hour)
		}
		return earlier(entered.Add(5*time.Hour), started.Add(24*time.Hour))
	case clusterFailed, clusterCancelled:
		if row.API.LogsInfo == models.LogsStateEmpty {
			return entered.Add(10 * time.Minute)
		}
	}
	return time.Time{}
}

// checkEvents follows what the events of a change tell of states.
func (s *site) checkEvents(c *change) {
	events := 0
	for _, line := range c.lines {
		if len(line.attrs) < 2 || line.attrs[0] != "event" {
			continue
		}
		events++
		s.trace = append(s.trace, "    "+line.message)
		about := make(map[string]string)
		for i := 0; i+1 < len(line.attrs); i += 2 {
			kind, _ := line.attrs[i].(string)
			id, _ := line.attrs[i+1].(string)
			about[kind] = id
		}
		id := walkCluster
		switch line.attrs[1] {
		case eventHostRegistered:
			s.chains[about["host"]] = discoveringUnbound
			if about["cluster"] != "" {
				s.chains[about["host"]] = discovering
			}
			continue
		case eventHostStatus:
			id = about["host"]
		case eventClusterStatus:
		default:
			continue
		}
		states := moved.FindStringSubmatch(line.message)
		if states == nil || states[1] != s.chains[id] {
			s.fail("an event tells %q of what was %s", line.message, s.chains[id])
			return
		}
		s.chains[id] = states[2]
	}
	if events != c.events {
		s.fail("%d events were written and %d told", c.events, events)
	}
	s.events += events
}

// checkOutbox compares what AMS is to hear with what the cluster has gone through.
func (s *site) checkOutbox(row *clusterRecord) {
	want := s.outbox
	want.Phase, want.DisplayName = outbox.Reserved, row.API.Name
	if id := row.API.OpenshiftClusterID.String(); id != "" {
		want.ExternalClusterID = id // what is reset stays in AMS until another id takes its place
	}
	if url := consoleURLIfUp(row); url != "" && slices.Contains([]string{clusterFinalizing, clusterInstalled}, *row.API.Status) {
		want.ConsoleURL = url
	}
	if want.MustExist = want.MustExist || slices.Contains([]string{clusterInstalled, clusterAddingHosts}, *row.API.Status); want.MustExist {
		want.Phase = outbox.Active
	}
	held, err := outbox.Rows.Get(s.tx, walkCluster)
	if err != nil {
		s.fail("AMS is to hear nothing: %v", err)
		return
	}
	if want != s.outbox || !s.history {
		want.Generation++
		want.CreatedAt, want.ChangedAt = held.CreatedAt, held.ChangedAt
		s.outbox, s.history = want, true
	}
	if *held != s.outbox {
		s.fail("AMS is to hear %+v and the history is %+v", held, s.outbox)
	}
}

// checkRest tells whether what is left after silence is where something must come from outside.
func (s *site) checkRest() {
	resting := []string{
		disconnected, disconnectedUnbound, binding, pendingUserAction, installed, added, failed, cancelled, resetPending, unbindingPending,
		disabled, disabledUnbound,
	}
	err := hostRows.Each(s.tx, "", func(key string, h *hostRecord) error {
		tolerated := *h.API.Status == inProgress && h.API.Progress.StageTimedOut && h.day2() // limits only warn, and its cluster is installed
		if !slices.Contains(resting, *h.API.Status) && !tolerated {
			s.fail("host %s stays %s and nothing is waited for", key, *h.API.Status)
		}
		return nil
	})
	row, getErr := clusterRows.Get(s.tx, walkCluster)
	if err != nil || getErr != nil {
		s.fail("%v %v", err, getErr)
		return
	}
	if slices.Contains(clusterRunning, *row.API.Status) || *row.API.Status == clusterPreparing {
		s.fail("the cluster stays %s and nothing is waited for", *row.API.Status)
	}
}

// checkEmpty looks for what a deleted site has left, and counts its events.
func (s *site) checkEmpty() {
	if s.fault != "" || s.over {
		return
	}
	left := func(what string) func(string) error {
		return func(key string) error {
			s.fail("%s is left of what was deleted: %s", what, key)
			return nil
		}
	}
	events := 0
	for _, err := range []error{
		hostRows.Keys(s.tx, "", left("a host")), clusterRows.Keys(s.tx, "", left("a cluster")), reportRows.Keys(s.tx, "", left("a report")),
		verdictRows.Keys(s.tx, "", left("a verdict")), clusterHosts.Keys(s.tx, "", left("a host of a cluster")), hostPlaces.Keys(s.tx, "", left("a host's place")),
		pendingWork.Keys(s.tx, "", left("a preparation")),
		eventRows.Keys(s.tx, "", func(string) error { events++; return nil }),
	} {
		if err != nil {
			s.fail("%v", err)
		}
	}
	due, err := lifeDeadlines.Due(s.tx, s.clock.Now().Add(1000*time.Hour), 0)
	if err != nil || len(due) > 0 {
		s.fail("deadlines are left of what was deleted: %v %v", due, err)
	}
	if events != s.events {
		s.fail("%d events are in the store and %d were told", events, s.events)
	}
}
