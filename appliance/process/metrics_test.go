package process

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestMetricCollectors(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, collector := range MetricCollectors() {
		require.NoError(t, registry.Register(collector))
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, family := range families {
		names[family.GetName()] = true
	}
	for _, name := range []string{
		"process_resident_memory_bytes", "process_resident_memory_anon_bytes", "process_open_fds",
		"process_cpu_seconds_total", "process_start_time_seconds", "process_num_threads",
		"process_io_storage_written_bytes_total", "go_goroutines", "go_gc_duration_seconds", "go_gc_cpu_seconds_total",
		"go_gc_pauses_seconds", "go_sched_latencies_seconds", "go_memstats_heap_inuse_bytes",
	} {
		require.Contains(t, names, name)
	}
}
