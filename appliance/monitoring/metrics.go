package monitoring

import (
	"io"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"landfall/appliance/authority"
	"landfall/appliance/overview"
	"landfall/appliance/storage"
	"landfall/store"
)

// Parts are what [Metrics] are read from.
type Parts struct {
	Version      string
	Usage        *storage.Usage
	Certificates *authority.Certificates // nil without TLS
	// Store and Overview are nil as long as a member of a fleet has no copy of the database.
	Store    *store.DB
	Overview *overview.Reader
	// Others are further collectors of metrics.
	Others []prometheus.Collector
	Clock  clockwork.Clock
}

// Metrics are all metrics of an appliance. They are not in the global registry, in which the
// packages of Kubernetes register hundreds of metrics.
type Metrics struct{ *prometheus.Registry }

// NewMetrics returns the metrics of an appliance.
func NewMetrics(of Parts) (*Metrics, error) {
	m := &Metrics{prometheus.NewRegistry()}
	all := append([]prometheus.Collector{newProgram(of.Version, of.Certificates), newDisk(of.Usage)}, of.Others...)
	if of.Store != nil {
		all = append(all, newStore(of.Store, of.Clock))
	}
	if of.Overview != nil {
		all = append(all, newSite(of.Overview))
	}
	for _, collector := range all {
		if err := m.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Write writes all metrics in the text format of Prometheus. If some cannot be collected, it writes
// the others and returns the error.
func (m *Metrics) Write(out io.Writer) error {
	families, err := m.Gather()
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(out, family); err != nil {
			return err
		}
	}
	return err
}
