// Package traffic counts the requests of operations and measures their time, for Prometheus.
package traffic

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"landfall/web/operation"
	"landfall/web/problem"
)

// Meter counts requests. Its labels are finite: the operations, the APIs and the statuses of HTTP.
type Meter struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New returns a meter without requests.
func New() *Meter {
	return &Meter{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "landfall_http_requests_total",
			Help: "Requests that have ended, by operation and HTTP status. An operation without an ID has its path."},
			[]string{"operation", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "landfall_http_request_duration_seconds",
			Help: "Time from the head of a request to the end of its response, by API. Endless responses are left out.",
			// an answer from memory, a sync of the disk, a slow disk, an image
			Buckets: []float64{0.001, 0.01, 0.1, 1, 10, 100, 1000}}, []string{"api"}),
	}
}

// Describe sends the descriptors of the metrics.
func (m *Meter) Describe(to chan<- *prometheus.Desc) {
	m.requests.Describe(to)
	m.duration.Describe(to)
}

// Collect sends the counts since the start.
func (m *Meter) Collect(to chan<- prometheus.Metric) {
	m.requests.Collect(to)
	m.duration.Collect(to)
}

// Wrap returns a handler of an operation that also counts its requests.
func (m *Meter) Wrap(o operation.Operation, next echo.HandlerFunc) echo.HandlerFunc {
	id := o.ID
	if id == "" {
		id = o.Path
	}
	duration := m.duration.WithLabelValues(api(o.Path))
	return func(c echo.Context) (err error) {
		began, status := time.Now(), http.StatusInternalServerError // of a panic
		defer func() {
			if c.Response().Committed {
				status = c.Response().Status
			}
			m.requests.WithLabelValues(id, strconv.Itoa(status)).Inc()
			if o.Endless == nil || !o.Endless(c.Request()) {
				duration.Observe(time.Since(began).Seconds())
			}
		}()
		if err = next(c); err != nil {
			status = problem.From(err).Status
		} else {
			status = c.Response().Status
		}
		return err
	}
}

// apis are the APIs by the beginnings of their paths.
var apis = [...]struct{ prefix, name string }{
	{"/api/assisted-install/", "assisted"}, {"/api/landfall/", "console"}, {"/api/accounts_mgmt/", "accounts"},
	{"/api/v1", "kubernetes"}, {"/apis", "kubernetes"}, {"/openapi", "kubernetes"},
	{"/by", "images"}, {"/i/", "images"}, {"/images", "images"}, {"/boot", "images"}, {"/ipxe", "images"},
	{"/grub", "images"}, {"/config", "images"},
}

// api returns the API of a path. All other paths are of the page and of the checks.
func api(path string) string {
	for _, known := range apis {
		if strings.HasPrefix(path, known.prefix) {
			return known.name
		}
	}
	return "other"
}
