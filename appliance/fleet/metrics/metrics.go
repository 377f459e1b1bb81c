// Package metrics has the Prometheus metrics of a fleet, as one member sees it: who leads, what the
// members lack, and the servers of etcd.
//
// The labels are names of members and URLs of servers of etcd. What is not known is left out.
package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance/fleet/membership"
)

const (
	// fresh is the age up to which a status of the fleet is shown again. To read one, the member
	// asks etcd and the other members.
	fresh = 5 * time.Second
	// patience is how long a scrape waits for a newer status. It is shorter than the time in which
	// a leader that stops finishes its requests.
	patience = time.Second
	// oldest is the age of the status that a scrape shows if a newer one takes longer, as it does
	// without etcd. Prometheus itself shows values of the last five minutes.
	oldest = 5 * time.Minute
	// readTime limits how long a status is read.
	readTime = 30 * time.Second
)

// Options configures a [Collector].
type Options struct {
	// Of knows the members and etcd.
	Of interface {
		Status(ctx context.Context) (*membership.Status, error)
	}
	// Leads reports whether this member leads.
	Leads func() bool
	// Leaders knows who leads, without asking. *fleet.Forwarder implements it.
	Leaders interface {
		// Led reports whether a member leads, as far as is known.
		Led() bool
		// Changes returns how often another member began to lead.
		Changes() uint64
	}
	Clock clockwork.Clock
}

// Collector collects the metrics of a fleet. Its [Collector.Run] must run.
type Collector struct {
	Options
	leads, led, changes, connected, records, lag, contents, liveISOs, blobs, healthy, latency, size, used,
	quota *prometheus.Desc

	due chan struct{} // holds an item when a scrape needs a newer status

	mu   sync.Mutex
	last *membership.Status // nil before the first one
	at   time.Time          // of last
	next chan struct{}      // closed when the next status was read
}

// New returns a collector.
func New(options Options) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("landfall_fleet_"+name, help, labels, nil)
	}
	return &Collector{Options: options, due: make(chan struct{}, 1), next: make(chan struct{}),
		leads: desc("leads", "1 if this member leads the fleet, 0 if it follows."),
		led:   desc("has_leader", "1 if a member leads, as far as this one knows, 0 if none does."),
		changes: desc("leader_changes_total", "How often this member saw another leader begin, or one after a time "+
			"without a leader, since its start."),
		connected: desc("member_connected", "1 if a member is connected to etcd, 0 if it is away.", "member"),
		records:   desc("member_missing_records", "Records of the log that a member lacks.", "member"),
		lag: desc("member_lag_seconds", "Time for which the oldest record has existed that a member lacks; 0 if it "+
			"lacks none.", "member"),
		contents: desc("member_missing_contents", "Contents of files that a member still lacks of those that it has "+
			"to keep.", "member"),
		liveISOs: desc("member_missing_live_isos", "Imported live ISOs that a member still lacks.", "member"),
		blobs:    desc("member_missing_blobs", "Blobs of pushed images that a member still lacks.", "member"),
		healthy: desc("etcd_healthy", "1 if a server of etcd answers, has space and is not damaged, otherwise 0.",
			"server"),
		latency: desc("etcd_latency_seconds", "Time of the last read from a server of etcd that needed the majority "+
			"of the servers.", "server"),
		size:  desc("etcd_size_bytes", "Size of the database of a server of etcd.", "server"),
		used:  desc("etcd_used_bytes", "What a defragmentation would leave of that size.", "server"),
		quota: desc("etcd_quota_bytes", "Largest size of the database of a server of etcd, if it says it.", "server"),
	}
}

// Run reads the status of the fleet when a scrape needs it, until the context ends.
func (c *Collector) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.due:
		}
		if _, ok := c.newerThan(fresh); !ok {
			c.read(ctx)
		}
	}
}

func (c *Collector) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	status, err := c.Of.Status(ctx) // it fails only if the context ends
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last, c.at = status, c.Clock.Now()
	}
	close(c.next)
	c.next = make(chan struct{})
}

// newerThan returns the last status unless it is older than an age.
func (c *Collector) newerThan(age time.Duration) (*membership.Status, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.last != nil && c.Clock.Since(c.at) < age
}

// status returns the status of the fleet, or nil if none is known that is new enough.
func (c *Collector) status() *membership.Status {
	c.mu.Lock()
	next := c.next
	c.mu.Unlock()
	if status, ok := c.newerThan(fresh); ok {
		return status
	}
	select {
	case c.due <- struct{}{}:
	default: // another scrape waits for it, too
	}
	limit := c.Clock.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-next:
	case <-limit.Chan():
	}
	if status, ok := c.newerThan(oldest); ok {
		return status
	}
	return nil
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.leads, c.led, c.changes, c.connected, c.records, c.lag, c.contents,
		c.liveISOs, c.blobs, c.healthy, c.latency, c.size, c.used, c.quota} {
		to <- desc
	}
}

// values are the metrics of one scrape.
type values chan<- prometheus.Metric

func (v values) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	v <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func (v values) is(desc *prometheus.Desc, holds bool, labels ...string) {
	value := 0.0
	if holds {
		value = 1
	}
	v.gauge(desc, value, labels...)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	v := values(to)
	leads := c.Leads()
	v.is(c.leads, leads)
	v.is(c.led, leads || c.Leaders.Led())
	to <- prometheus.MustNewConstMetric(c.changes, prometheus.CounterValue, float64(c.Leaders.Changes()))
	status := c.status()
	if status == nil {
		return
	}
	for _, member := range status.Members {
		c.collectMember(v, &member, status.Problem == "")
	}
	for _, server := range status.Servers {
		v.is(c.healthy, server.Problem == "" && !server.NoSpace && !server.Damaged, server.URL)
		if server.Problem != "" {
			continue
		}
		v.gauge(c.latency, server.LatencySeconds, server.URL)
		v.gauge(c.size, float64(server.Bytes), server.URL)
		v.gauge(c.used, float64(server.UsedBytes), server.URL)
		if server.QuotaBytes > 0 {
			v.gauge(c.quota, float64(server.QuotaBytes), server.URL)
		}
	}
}

// collectMember collects the metrics of a member. withEtcd reports whether etcd answered: only then
// it is known whether the member is connected, and which records it had if it does not answer.
func (c *Collector) collectMember(v values, member *membership.Member, withEtcd bool) {
	if withEtcd {
		v.is(c.connected, member.Role != membership.RoleAway, member.Name)
	}
	if withEtcd || member.Answered {
		v.gauge(c.records, float64(member.Behind), member.Name)
		v.gauge(c.lag, member.LagSeconds, member.Name)
	}
	if member.Answered {
		v.gauge(c.contents, float64(member.MissingContents), member.Name)
		v.gauge(c.liveISOs, float64(member.MissingLiveISOs), member.Name)
		v.gauge(c.blobs, float64(member.MissingBlobs), member.Name)
	}
}
