package console

import (
	"bytes"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/monitoring"
	"landfall/web/operation"
)

// MetricsPath is the path of the metrics for Prometheus.
const MetricsPath = "/metrics"

// MetricsOperations returns the operation that shows metrics. HEAD says without them whether a
// client may read them.
func MetricsOperations(of *monitoring.Metrics) []operation.Operation {
	return []operation.Operation{
		{ID: "getMetrics", Method: http.MethodGet, Head: true, Path: MetricsPath, Access: operation.For(access.Viewer),
			Handler: func(c echo.Context) error {
				if c.Request().Method == http.MethodHead {
					return c.NoContent(http.StatusOK)
				}
				var text bytes.Buffer
				if err := of.Write(&text); err != nil && text.Len() == 0 {
					return err
				}
				return c.Blob(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", text.Bytes())
			},
			Summary: "Show the metrics in the text format of Prometheus",
			Status:  http.StatusOK, Answer: operation.File{}},
	}
}
