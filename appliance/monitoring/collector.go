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

	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance/health"
)

// collector collects the metrics of a site.
type collector struct {
	monitor *Monitor

	build, clusters, hosts, servers, failedServers, free, size, parts, fullIn, ready, commits, failedCommits, writing,
	stalled, interruptions, interrupted, certificates *prometheus.Desc
}

func newCollector(m *Monitor) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("landfall_"+name, help, labels, nil)
	}
	return &collector{
		monitor: m,
		build: desc("build_info", "Always 1. The labels are the version of the program and of Go.", "version",
			"goversion"),
		clusters:      desc("clusters", "Clusters, by status.", "status"),
		hosts:         desc("hosts", "Hosts, by status.", "status"),
		servers:       desc("bmc_servers", "Servers that are controlled by their BMCs."),
		failedServers: desc("bmc_failed_servers", "Servers with an error of their BMCs."),
		free:          desc("disk_free_bytes", "Free space of the file system with the data directory."),
		size:          desc("disk_size_bytes", "Size of the file system with the data directory."),
		parts: desc("data_bytes", "Size of an entry of the data directory; \"database\" is the database with the keys.",
			"part"),
		fullIn: desc("disk_full_in_seconds", "Time until the disk is full if the data directory continues to grow "+
			"as in the last days; +Inf if it does not grow."),
		ready:         desc("ready", "1 if a check of /readyz passes, 0 if it fails.", "check"),
		commits:       desc("store_commits_total", "Records that were written to the log ahead of the database."),
		failedCommits: desc("store_failed_commits_total", "Records that could not be written."),
		writing:       desc("store_commit_seconds_total", "Time in which records were written and synced."),
		stalled: desc("store_stalled_seconds",
			"Time for which no change has ended although changes wait; 0 if none waits."),
		interruptions: desc("interruptions_total",
			"Interruptions of the process: it was stopped, its machine was paused, or its disk hung."),
		interrupted: desc("interrupted_seconds_total", "Time of these interruptions."),
		certificates: desc("certificate_expiry_timestamp_seconds", "End of a certificate in use: of the server, or of "+
			"its authority.", "certificate"),
	}
}

// Describe sends the descriptors.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.build, c.clusters, c.hosts, c.servers, c.failedServers, c.free, c.size,
		c.parts, c.fullIn, c.ready, c.commits, c.failedCommits, c.writing, c.stalled, c.interruptions, c.interrupted,
		c.certificates} {
		to <- desc
	}
}

// Collect sends the current values. If the disk hangs, the values that need no disk are still sent.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		send(prometheus.GaugeValue, desc, value, labels...)
	}
	counter := func(desc *prometheus.Desc, value float64) { send(prometheus.CounterValue, desc, value) }
	options := c.monitor.options
	gauge(c.build, 1, options.Version, runtime.Version())
	activity := options.Store.Activity()
	counter(c.commits, float64(activity.Commits))
	counter(c.failedCommits, float64(activity.Failed))
	counter(c.writing, activity.Writing.Seconds())
	stalled := 0.0
	if !activity.StalledSince.IsZero() {
		stalled = max(0, options.Clock.Since(activity.StalledSince).Seconds())
	}
	gauge(c.stalled, stalled)
	interruptions := options.Pulse.Interruptions()
	counter(c.interruptions, float64(interruptions.Count))
	counter(c.interrupted, interruptions.Time.Seconds())
	if options.Certificates != nil {
		for _, validity := range options.Certificates.Validities() {
			gauge(c.certificates, float64(validity.Until.Unix()), validity.Subject)
		}
	}
	for _, result := range c.monitor.Ready.Results(context.Background(), health.All) {
		value := 1.0
		if result.Err != nil {
			value = 0
		}
		gauge(c.ready, value, result.Name)
	}
	site, err := options.Overview.Overview()
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.clusters, err)
		return
	}
	for status, count := range site.Clusters {
		gauge(c.clusters, float64(count), status)
	}
	for status, count := range site.Hosts {
		gauge(c.hosts, float64(count), status)
	}
	gauge(c.servers, float64(site.Servers))
	gauge(c.failedServers, float64(site.FailedServers))
	if site.Disk.Total > 0 {
		gauge(c.free, float64(site.Disk.Free))
		gauge(c.size, float64(site.Disk.Total))
	}
	for _, part := range site.Disk.Parts {
		name := part.Name
		if name == "" {
			name = "database"
		}
		gauge(c.parts, float64(part.Bytes), name)
	}
	fullIn := math.Inf(1)
	if site.Disk.FullIn > 0 {
		fullIn = float64(site.Disk.FullIn)
	}
	gauge(c.fullIn, fullIn)
}
