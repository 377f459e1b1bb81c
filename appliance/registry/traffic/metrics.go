package traffic

import "github.com/prometheus/client_golang/prometheus"

// Collector returns the metrics of counters, which may be nil.
func Collector(of *Traffic) prometheus.Collector {
	return collector{of: of,
		total: prometheus.NewDesc("landfall_registry_sent_bytes_total",
			"Bytes that the appliance's registry sent to its clients.", nil, nil),
		client: prometheus.NewDesc("landfall_registry_client_sent_bytes_total",
			"Bytes that the appliance's registry sent to a client, for at most 256 clients.", []string{"client"}, nil)}
}

type collector struct {
	of            *Traffic
	total, client *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) { to <- c.total; to <- c.client }

// Collect implements prometheus.Collector. Rates are left to Prometheus.
func (c collector) Collect(to chan<- prometheus.Metric) {
	if c.of == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, float64(c.of.Total()))
	for _, client := range c.of.Clients() {
		to <- prometheus.MustNewConstMetric(c.client, prometheus.CounterValue, float64(client.Bytes), client.Address)
	}
}
