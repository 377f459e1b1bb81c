// Package monitoring has the Prometheus metrics of a site: its clusters and hosts, its disk, its
// store, its certificates, its readiness, and the interruptions of the process.
//
// The names follow Prometheus' conventions: the prefix landfall_, base units, the suffix _total of
// counters. The values of every label are finite: states, names of checks, entries of the data
// directory. docs/metrics.md lists all metrics that the appliance serves.
package monitoring

import (
	"context"
	"math"
	"runtime"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance/authority"
	"landfall/appliance/engine/presence"
	"landfall/appliance/health"
	"landfall/appliance/overview"
	"landfall/appliance/storage"
	"landfall/store"
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("landfall_"+name, help, labels, nil)
}

// collector collects metrics of one source. Registries collect from several at a time, so a disk
// that hangs delays only what needs it.
type collector struct {
	descs   []*prometheus.Desc
	collect func(to chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) { c.collect(to) }

func gauge(to chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func counter(to chan<- prometheus.Metric, desc *prometheus.Desc, value float64) {
	to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value)
}

// newProgram collects what needs no data. certificates may be nil.
func newProgram(version string, certificates *authority.Certificates) prometheus.Collector {
	build := newDesc("build_info", "Always 1. The labels are the version of the program and of Go.", "version",
		"goversion")
	expiry := newDesc("certificate_expiry_timestamp_seconds", "End of a certificate in use: of the server, or of its "+
		"authority.", "certificate")
	return &collector{[]*prometheus.Desc{build, expiry}, func(to chan<- prometheus.Metric) {
		gauge(to, build, 1, version, runtime.Version())
		if certificates == nil {
			return
		}
		for _, validity := range certificates.Validities() {
			gauge(to, expiry, float64(validity.Until.Unix()), validity.Subject)
		}
	}}
}

func newDisk(usage *storage.Usage) prometheus.Collector {
	free := newDesc("disk_free_bytes", "Free space of the file system with the data directory.")
	size := newDesc("disk_size_bytes", "Size of the file system with the data directory.")
	parts := newDesc("data_bytes",
		"Size of an entry of the data directory; \"database\" is the database with the keys.", "part")
	full := newDesc("disk_full_in_seconds", "Time until the disk is full if the data directory continues to grow "+
		"as in the last days; +Inf if it does not grow.")
	return &collector{[]*prometheus.Desc{free, size, parts, full}, func(to chan<- prometheus.Metric) {
		disk, err := usage.Read()
		if err != nil {
			to <- prometheus.NewInvalidMetric(free, err)
			return
		}
		if disk.Total > 0 {
			gauge(to, free, float64(disk.Free))
			gauge(to, size, float64(disk.Total))
		}
		for _, part := range disk.Parts {
			name := part.Name
			if name == "" {
				name = "database"
			}
			gauge(to, parts, float64(part.Bytes), name)
		}
		fullIn := math.Inf(1)
		if disk.FullIn > 0 {
			fullIn = float64(disk.FullIn)
		}
		gauge(to, full, fullIn)
	}}
}

func newStore(db *store.DB, clock clockwork.Clock) prometheus.Collector {
	commits := newDesc("store_commits_total", "Records that were written to the log ahead of the database.")
	failed := newDesc("store_failed_commits_total", "Records that could not be written.")
	writing := newDesc("store_commit_seconds_total", "Time in which records were written and synced.")
	stalled := newDesc("store_stalled_seconds",
		"Time for which no change has ended although changes wait; 0 if none waits.")
	return &collector{[]*prometheus.Desc{commits, failed, writing, stalled}, func(to chan<- prometheus.Metric) {
		activity := db.Activity()
		counter(to, commits, float64(activity.Commits))
		counter(to, failed, float64(activity.Failed))
		counter(to, writing, activity.Writing.Seconds())
		waiting := 0.0
		if !activity.StalledSince.IsZero() {
			waiting = max(0, clock.Since(activity.StalledSince).Seconds())
		}
		gauge(to, stalled, waiting)
	}}
}

func newSite(reader *overview.Reader) prometheus.Collector {
	clusters := newDesc("clusters", "Clusters, by status.", "status")
	hosts := newDesc("hosts", "Hosts, by status.", "status")
	servers := newDesc("bmc_servers", "Servers that are controlled by their BMCs.")
	failed := newDesc("bmc_failed_servers", "Servers with an error of their BMCs.")
	return &collector{[]*prometheus.Desc{clusters, hosts, servers, failed}, func(to chan<- prometheus.Metric) {
		site, err := reader.Overview()
		if err != nil {
			to <- prometheus.NewInvalidMetric(clusters, err)
			return
		}
		for status, count := range site.Clusters {
			gauge(to, clusters, float64(count), status)
		}
		for status, count := range site.Hosts {
			gauge(to, hosts, float64(count), status)
		}
		gauge(to, servers, float64(site.Servers))
		gauge(to, failed, float64(site.FailedServers))
	}}
}

// newEngine collects what the engine notices, and the checks of readiness.
func newEngine(pulse *presence.Pulse, checks *health.Checks) prometheus.Collector {
	ready := newDesc("ready", "1 if a check of /readyz passes, 0 if it fails.", "check")
	count := newDesc("interruptions_total",
		"Interruptions of the process: it was stopped, its machine was paused, or its disk hung.")
	lasted := newDesc("interrupted_seconds_total", "Time of these interruptions.")
	return &collector{[]*prometheus.Desc{ready, count, lasted}, func(to chan<- prometheus.Metric) {
		interruptions := pulse.Interruptions()
		counter(to, count, float64(interruptions.Count))
		counter(to, lasted, interruptions.Time.Seconds())
		for _, result := range checks.Results(context.Background(), health.All) {
			value := 1.0
			if result.Err != nil {
				value = 0
			}
			gauge(to, ready, value, result.Name)
		}
	}}
}
