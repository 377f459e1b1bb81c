package ams

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts the calls and outcomes between a site and AMS, for Prometheus. Use [NewMetrics];
// the zero value is not usable.
type Metrics struct {
	requests, attempts, courierFiles *prometheus.CounterVec
	durations                        *prometheus.SummaryVec
}

// NewMetrics returns empty metrics.
func NewMetrics() *Metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &Metrics{
		requests: counters("landfall_ams_requests_total", "Calls to AMS, by operation and HTTP status.", "op", "code"),
		durations: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "landfall_ams_request_duration_seconds", Help: "Duration of calls to AMS, by operation.",
		}, []string{"op"}),
		attempts: counters("landfall_ams_attempts_total", "Attempts to synchronize a cluster with AMS, by outcome.",
			"outcome"),
		courierFiles: counters("landfall_ams_courier_files_total", "Courier files, by kind and outcome.",
			"kind", "outcome"),
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.durations, m.attempts, m.courierFiles}
}

// Called counts a finished call; see ClientOptions.Watch.
func (m *Metrics) Called(call Call) {
	code := "none"
	if call.Status != 0 {
		code = strconv.Itoa(call.Status)
	}
	m.requests.WithLabelValues(call.Op, code).Inc()
	m.durations.WithLabelValues(call.Op).Observe(call.Took.Seconds())
}

func (m *Metrics) attempted(ended result) {
	outcome := [...]string{synced: "told", waiting: "waiting", stopped: "attention", leased: "leased"}[ended.state]
	m.attempts.WithLabelValues(outcome).Inc()
}

func (m *Metrics) courier(kind CourierKind, err error) {
	outcome := "done"
	if err != nil {
		outcome = "refused"
	}
	m.courierFiles.WithLabelValues(string(kind), outcome).Inc()
}

// states lists the states of the relay. Each is a gauge with the value 0 or 1.
var states = []State{Off, NoCredentials, ByHand, Offline, Online, PausedCredentials, PausedPermission, PausedIdentity,
	PausedPerson}

// relayGauges holds the descriptors of the metrics of the relay's state.
type relayGauges struct {
	clusters, leased, oldest, contact, token, skew, state *prometheus.Desc
}

func newRelayGauges() relayGauges {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return relayGauges{
		clusters: gauge("landfall_ams_outbox_clusters", "Clusters, by their state in the outbox.", "state"),
		leased:   gauge("landfall_ams_courier_leased_clusters", "Clusters in courier files without receipts."),
		oldest: gauge("landfall_ams_oldest_waiting_seconds",
			"Time since the oldest waiting cluster began to wait; 0 if no cluster waits."),
		contact: gauge("landfall_ams_last_contact_timestamp_seconds",
			"Time of the last answer of AMS; 0 if there was none."),
		token: gauge("landfall_ams_token_expiry_timestamp_seconds",
			"Time at which the access token expires; 0 without a token."),
		skew:  gauge("landfall_ams_clock_skew_seconds", "Difference between AMS's clock and the site's."),
		state: gauge("landfall_ams_relay_state", "1 for the current state of the relay, 0 for all others.", "state"),
	}
}

// Describe sends the descriptors of the relay's metrics.
func (r *Relay) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{r.gauges.clusters, r.gauges.leased, r.gauges.oldest, r.gauges.contact,
		r.gauges.token, r.gauges.skew, r.gauges.state} {
		to <- desc
	}
	for _, collector := range r.options.Metrics.collectors() {
		collector.Describe(to)
	}
}

// Collect sends the state of the relay and the counters since the start.
func (r *Relay) Collect(to chan<- prometheus.Metric) {
	for _, collector := range r.options.Metrics.collectors() {
		collector.Collect(to)
	}
	s, err := r.Status(context.Background(), Selection{})
	if err != nil {
		to <- prometheus.NewInvalidMetric(r.gauges.state, err)
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(r.gauges.clusters, float64(s.Waiting), ClusterWaiting)
	gauge(r.gauges.clusters, float64(s.Sent), ClusterSent)
	gauge(r.gauges.clusters, float64(s.Attention), ClusterAttention)
	gauge(r.gauges.clusters, float64(s.Left), ClusterLeft)
	leased := 0
	for _, courier := range s.Couriers {
		leased += courier.Clusters
	}
	gauge(r.gauges.leased, float64(leased))
	oldest := 0.0
	if !s.OldestWaiting.IsZero() {
		oldest = max(0, r.options.Clock.Now().Sub(s.OldestWaiting).Seconds())
	}
	gauge(r.gauges.oldest, oldest)
	gauge(r.gauges.contact, seconds(s.LastContact))
	gauge(r.gauges.token, seconds(s.TokenUntil))
	gauge(r.gauges.skew, s.ClockSkew)
	for _, state := range states {
		value := 0.0
		if s.State == state {
			value = 1
		}
		gauge(r.gauges.state, value, string(state))
	}
}

// seconds returns a time in seconds since 1970, or 0 for the zero time.
func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
}
