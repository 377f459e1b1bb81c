package backup

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance/doctor"
	"landfall/appliance/sentence"
)

// State is the state of the scheduled backups.
type State struct {
	Dir  string
	Last time.Time // of the last backup; zero: none is known
	// Failure says why the last attempt failed. "": it did not.
	Failure string
	// PruneFailure says why old backups could not be removed. "": they were.
	PruneFailure string
}

// State returns the state of the scheduled backups, or nil if there are none.
func (s *Service) State() *State {
	if s.Schedule.Dir == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &State{Dir: s.Schedule.Dir, Last: s.last, Failure: sentence.New(s.failure),
		PruneFailure: sentence.New(s.kept)}
}

// Problem returns what a person must know about the backups, or "".
func (s *State) Problem() string {
	switch {
	case s.Failure != "":
		return fmt.Sprintf("The last attempt failed, and %s. %s", s.newest(), s.Failure)
	case s.PruneFailure != "":
		return "Old backups stay, so the directory fills up. " + s.PruneFailure
	}
	return ""
}

// newest says when the newest backup was written. It is a clause.
func (s *State) newest() string {
	if s.Last.IsZero() {
		return "no backup was written since the start"
	}
	return "the newest backup was written at " + s.Last.Format(time.RFC3339)
}

// Finding states whether scheduled backups are written, or returns nil if there are none.
func (s *Service) Finding() *doctor.Finding {
	state := s.State()
	if state == nil {
		return nil
	}
	finding := &doctor.Finding{Area: doctor.Protection, Subject: "backups", Status: doctor.Green,
		Check:  "whether scheduled backups are written, and old ones removed",
		Result: fmt.Sprintf("%s: %s", state.Dir, state.newest()), Advice: state.Problem()}
	if finding.Advice != "" {
		finding.Status = doctor.Amber
	}
	return finding
}

// Metrics of the scheduled backups.
var (
	lastDesc = prometheus.NewDesc("landfall_backup_last_timestamp_seconds",
		"Time of the last scheduled backup; absent until one is known.", nil, nil)
	failingDesc = prometheus.NewDesc("landfall_backup_failing",
		"1 if the last scheduled backup failed or old backups could not be removed, else 0; absent without "+
			"scheduled backups.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(to chan<- *prometheus.Desc) {
	to <- lastDesc
	to <- failingDesc
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(to chan<- prometheus.Metric) {
	state := s.State()
	if state == nil {
		return
	}
	if !state.Last.IsZero() {
		to <- prometheus.MustNewConstMetric(lastDesc, prometheus.GaugeValue, float64(state.Last.Unix()))
	}
	failing := 0.0
	if state.Problem() != "" {
		failing = 1
	}
	to <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, failing)
}
