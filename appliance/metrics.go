package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance/process"
)

// newMetrics returns a registry of the metrics that the appliance serves. It is not the global
// registry, in which the packages of Kubernetes register hundreds of metrics.
func (a *Appliance) newMetrics() (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	for _, collector := range append(process.MetricCollectors(), a.ams) {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return registry, nil
}
