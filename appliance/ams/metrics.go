package ams

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Metrics counts the calls and outcomes between a site and AMS, for Prometheus. Use [NewMetrics];
// the zero value is not usable.
type Metrics struct{ set *metrics.Set }

// NewMetrics returns empty metrics.
func NewMetrics() *Metrics { return &Metrics{metrics.NewSet()} }

// Called counts a finished call; see ClientOptions.Watch.
func (m *Metrics) Called(call Call) {
	code := "none"
	if call.Status != 0 {
		code = strconv.Itoa(call.Status)
	}
	m.set.GetOrCreateCounter(fmt.Sprintf("landfall_ams_requests_total{op=%q,code=%q}", call.Op, code)).Inc()
	m.set.GetOrCreateFloatCounter(fmt.Sprintf("landfall_ams_request_duration_seconds_sum{op=%q}",
		call.Op)).Add(call.Took.Seconds())
	m.set.GetOrCreateCounter(fmt.Sprintf("landfall_ams_request_duration_seconds_count{op=%q}", call.Op)).Inc()
}

func (m *Metrics) attempted(came result) {
	outcome := [...]string{synced: "told", waiting: "waiting", stopped: "attention", leased: "leased"}[came.state]
	m.set.GetOrCreateCounter(fmt.Sprintf("landfall_ams_attempts_total{outcome=%q}", outcome)).Inc()
}

func (m *Metrics) courier(kind CourierKind, err error) {
	outcome := "done"
	if err != nil {
		outcome = "refused"
	}
	m.set.GetOrCreateCounter(fmt.Sprintf("landfall_ams_courier_files_total{kind=%q,outcome=%q}", string(kind),
		outcome)).Inc()
}

// states lists the states of the relay. Each is a gauge with the value 0 or 1.
var states = []State{Off, NoCredentials, ByHand, Offline, Online, PausedCredentials, PausedPermission, PausedIdentity,
	PausedPerson}

// WriteMetrics writes the state of the relay and the counters since the start in Prometheus' text
// format.
func (r *Relay) WriteMetrics(ctx context.Context, out io.Writer) error {
	s, err := r.Status(ctx, Selection{})
	if err != nil {
		return err
	}
	now := r.options.Clock.Now()
	gauge := func(name string, value float64) { metrics.WriteGaugeFloat64(out, name, value) }
	for _, line := range []struct {
		state string
		count int
	}{{ClusterWaiting, s.Waiting}, {ClusterSent, s.Sent}, {ClusterAttention, s.Attention}, {ClusterLeft, s.Left}} {
		gauge(fmt.Sprintf("landfall_ams_outbox_clusters{state=%q}", line.state), float64(line.count))
	}
	leased := 0
	for _, courier := range s.Couriers {
		leased += courier.Clusters
	}
	gauge("landfall_ams_courier_leased_clusters", float64(leased))
	oldest := 0.0
	if !s.OldestWaiting.IsZero() {
		oldest = max(0, now.Sub(s.OldestWaiting).Seconds())
	}
	gauge("landfall_ams_oldest_waiting_seconds", oldest)
	gauge("landfall_ams_last_contact_timestamp_seconds", seconds(s.LastContact))
	gauge("landfall_ams_token_expiry_timestamp_seconds", seconds(s.TokenUntil))
	gauge("landfall_ams_clock_skew_seconds", s.ClockSkew)
	for _, state := range states {
		value := 0.0
		if s.State == state {
			value = 1
		}
		gauge(fmt.Sprintf("landfall_ams_relay_state{state=%q}", string(state)), value)
	}
	r.options.Metrics.set.WritePrometheus(out)
	return nil
}

// seconds returns a time in seconds since 1970; 0 for the zero time.
func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
}
