package replica

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance/doctor"
	"landfall/appliance/sentence"
)

// Finding states whether the replica is up to date, or returns nil if there is none.
func (s *Service) Finding() *doctor.Finding {
	state := s.State()
	if state == nil {
		return nil
	}
	finding := &doctor.Finding{Area: doctor.Protection, Subject: "replica", Status: doctor.Green,
		Check: "whether the replica has all changes"}
	since := state.Shipped.Format(time.RFC3339)
	switch {
	case state.Behind:
		finding.Status = doctor.Red
		finding.Result = fmt.Sprintf("%s has no change since %s", state.Place, since)
	case state.Failure != "":
		finding.Status = doctor.Amber
		finding.Result = fmt.Sprintf("%s can't be written", state.Place)
	case !state.Ready:
		finding.Status = doctor.Amber
		finding.Result = fmt.Sprintf("the first snapshot is being written to %s", state.Place)
	case state.PruneFailure != "":
		finding.Status = doctor.Amber
		finding.Result = fmt.Sprintf("%s has all changes, but states that are too old stay in it", state.Place)
		finding.Advice = sentence.Capitalize(sentence.Close(state.PruneFailure))
	case state.Usage.Shortened:
		finding.Status = doctor.Amber
		finding.Result = fmt.Sprintf("%s begins at %s only, because replica.bytes leaves no space for replica.keep",
			state.Place, state.Usage.Oldest.Format(time.RFC3339))
		finding.Advice = "Raise replica.bytes, or lower replica.keep."
	default:
		finding.Result = fmt.Sprintf("%s has all changes", state.Place)
	}
	if state.Failure != "" {
		finding.Advice = sentence.Capitalize(sentence.Close(state.Failure))
	}
	return finding
}

// Metrics of the replica.
var (
	lagDesc = prometheus.NewDesc("landfall_replica_lag_seconds",
		"Time for which the replica may lack changes; absent without a replica.", nil, nil)
	writtenDesc = prometheus.NewDesc("landfall_replica_written_bytes_total",
		"Bytes of the log that were written to the replica.", nil, nil)
	sizeDesc = prometheus.NewDesc("landfall_replica_size_bytes", "Size of the replica.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(to chan<- *prometheus.Desc) {
	to <- lagDesc
	to <- writtenDesc
	to <- sizeDesc
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(to chan<- prometheus.Metric) {
	state := s.State()
	if state == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, state.Lag)
	to <- prometheus.MustNewConstMetric(writtenDesc, prometheus.CounterValue, float64(state.Written))
	to <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(state.Usage.Bytes))
}
