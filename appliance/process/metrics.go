package process

import (
	"regexp"
	"runtime"
	"runtime/metrics"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/procfs"
)

// MetricCollectors returns the collectors of the metrics of this process and of its Go runtime. The
// collectors of the Prometheus library lack some metrics; a separate collector adds them.
func MetricCollectors() []prometheus.Collector {
	histograms := regexp.MustCompile(`^/(sched/latencies|gc/pauses):seconds$`)
	return []prometheus.Collector{
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: histograms})),
		newMetricCollector(),
	}
}

// metricCollector collects metrics from several sources.
type metricCollector []metricSource

// metricSource holds the metrics of one file in /proc/self or of the Go runtime.
type metricSource struct {
	metrics []metric
	read    func() ([]float64, error) // returns the value of each metric
}

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue}
}

func counter(name, help string) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue}
}

func newMetricCollector() metricCollector {
	return metricCollector{
		{read: readStatus, metrics: []metric{
			gauge("process_resident_memory_peak_bytes", "Largest resident memory size so far."),
			gauge("process_resident_memory_anon_bytes", "Resident anonymous memory, such as the Go heap."),
			gauge("process_resident_memory_file_bytes", "Resident memory of mapped files, such as the database."),
			gauge("process_resident_memory_shared_bytes", "Resident shared memory."),
			gauge("process_virtual_memory_peak_bytes", "Largest virtual memory size so far."),
		}},
		{read: readStat, metrics: []metric{
			counter("process_cpu_seconds_user_total", "CPU time spent in user space."),
			counter("process_cpu_seconds_system_total", "CPU time spent in the operating system."),
			counter("process_major_pagefaults_total", "Page faults that read from a disk."),
			counter("process_minor_pagefaults_total", "Page faults that did not read from a disk."),
			gauge("process_num_threads", "Number of threads of the operating system."),
		}},
		{read: readIO, metrics: []metric{
			counter("process_io_read_bytes_total", "Bytes read by system calls."),
			counter("process_io_written_bytes_total", "Bytes written by system calls."),
			counter("process_io_read_syscalls_total", "Number of system calls that read."),
			counter("process_io_write_syscalls_total", "Number of system calls that write."),
			counter("process_io_storage_read_bytes_total", "Bytes read from disks."),
			counter("process_io_storage_written_bytes_total", "Bytes written to disks."),
		}},
		{read: readRuntime, metrics: []metric{
			counter("go_gc_cpu_seconds_total", "Estimated CPU time of the garbage collector."),
			counter("go_gc_mark_assist_cpu_seconds_total",
				"Estimated CPU time of goroutines that helped the garbage collector."),
			counter("go_scavenge_cpu_seconds_total", "Estimated CPU time of returning memory to the operating system."),
			counter("go_mutex_wait_seconds_total", "Time that goroutines waited for mutexes."),
			counter("go_gc_forced_total", "Number of garbage collections that the program requested."),
			counter("go_cgo_calls_total", "Number of calls from Go to C."),
			gauge("go_memlimit_bytes", "Memory limit of the Go runtime (GOMEMLIMIT)."),
			gauge("go_gomaxprocs", "Number of threads that run Go code at a time (GOMAXPROCS)."),
			gauge("go_cpus", "Number of CPUs that the process can use."),
		}},
	}
}

// Describe sends the descriptors of all metrics.
func (c metricCollector) Describe(to chan<- *prometheus.Desc) {
	for _, source := range c {
		for _, metric := range source.metrics {
			to <- metric.desc
		}
	}
}

// Collect sends the current values. It omits the metrics of a source that cannot be read: there is
// no /proc on some systems, and /proc/self/io is unreadable in some containers.
func (c metricCollector) Collect(to chan<- prometheus.Metric) {
	for _, source := range c {
		values, err := source.read()
		if err != nil {
			continue
		}
		for i, metric := range source.metrics {
			to <- prometheus.MustNewConstMetric(metric.desc, metric.kind, values[i])
		}
	}
}

func readStatus() ([]float64, error) {
	self, err := procfs.Self()
	if err != nil {
		return nil, err
	}
	status, err := self.NewStatus()
	return []float64{float64(status.VmHWM), float64(status.RssAnon), float64(status.RssFile), float64(status.RssShmem),
		float64(status.VmPeak)}, err
}

// clockTicks is the number of ticks a second of the CPU times in /proc/self/stat.
const clockTicks = 100

func readStat() ([]float64, error) {
	self, err := procfs.Self()
	if err != nil {
		return nil, err
	}
	stat, err := self.Stat()
	return []float64{float64(stat.UTime) / clockTicks, float64(stat.STime) / clockTicks, float64(stat.MajFlt),
		float64(stat.MinFlt), float64(stat.NumThreads)}, err
}

func readIO() ([]float64, error) {
	self, err := procfs.Self()
	if err != nil {
		return nil, err
	}
	io, err := self.IO()
	return []float64{float64(io.RChar), float64(io.WChar), float64(io.SyscR), float64(io.SyscW), float64(io.ReadBytes),
		float64(io.WriteBytes)}, err
}

func readRuntime() ([]float64, error) {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
		{Name: "/cpu/classes/scavenge/total:cpu-seconds"},
		{Name: "/sync/mutex/wait/total:seconds"},
		{Name: "/gc/cycles/forced:gc-cycles"},
		{Name: "/cgo/go-to-c-calls:calls"},
		{Name: "/gc/gomemlimit:bytes"},
		{Name: "/sched/gomaxprocs:threads"},
	}
	metrics.Read(samples)
	values := make([]float64, 0, len(samples)+1)
	for _, sample := range samples {
		if sample.Value.Kind() == metrics.KindUint64 {
			values = append(values, float64(sample.Value.Uint64()))
		} else {
			values = append(values, sample.Value.Float64())
		}
	}
	return append(values, float64(runtime.NumCPU())), nil
}
