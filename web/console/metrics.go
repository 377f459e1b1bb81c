package console

import (
	"bytes"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"landfall/appliance/access"
	"landfall/web/operation"
)

// MetricsPath is the path of the metrics for Prometheus.
const MetricsPath = "/metrics"

// MetricsOperations returns the operation that shows metrics.
func MetricsOperations(of prometheus.Gatherer) []operation.Operation {
	return []operation.Operation{
		{ID: "getMetrics", Method: http.MethodGet, Path: MetricsPath, Access: operation.For(access.Viewer),
			Handler: func(c echo.Context) error { return writeMetrics(c, of) },
			Summary: "Show the metrics in the text format of Prometheus",
			Status:  http.StatusOK, Answer: operation.File{}},
	}
}

func writeMetrics(c echo.Context, of prometheus.Gatherer) error {
	families, err := of.Gather()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return err
		}
	}
	return c.Blob(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", text.Bytes())
}
