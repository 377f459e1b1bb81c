package tracing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"landfall/appliance/roots"
)

// scope is the name of the instrumentation in spans.
const scope = "landfall"

const (
	// attributeBytes is the largest length of a text in a span.
	attributeBytes = 1024
	// closeTime limits the time in which the last spans are sent.
	closeTime = 5 * time.Second
)

// Options configures [Open].
type Options struct {
	// Endpoint is the URL that takes spans (OTLP over HTTP). "" means that nothing is recorded.
	Endpoint string
	// CAFile has certificates (PEM) with which the collector is verified, on top of the system's.
	// It may be "".
	CAFile string
	// Percent is the share of the traces that are recorded.
	Percent int
	// Version and Instance identify the appliance: its version and its URL.
	Version, Instance string
	Logger            *slog.Logger
}

// Recorder sends spans to a collector. While the collector is away, the last 2,048 spans wait, and
// later ones are dropped; nothing else waits for the collector. A nil *Recorder records nothing.
type Recorder struct {
	provider *sdk.TracerProvider
	exporter *exporter
}

// Open returns a recorder, or nil if there is no endpoint. It does not connect yet.
func Open(ctx context.Context, options Options) (*Recorder, error) {
	if options.Endpoint == "" {
		return nil, nil
	}
	if options.Percent < 0 || options.Percent > 100 {
		return nil, fmt.Errorf("tracing.percent is %d; expected a number from 0 to 100", options.Percent)
	}
	to := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(options.Endpoint)}
	if options.CAFile != "" {
		trust, err := trusting(options.CAFile)
		if err != nil {
			return nil, err
		}
		to = append(to, otlptracehttp.WithTLSClientConfig(trust))
	}
	client, err := otlptrace.New(ctx, otlptracehttp.NewClient(to...))
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to the collector of traces: %w", err)
	}
	r := &Recorder{exporter: &exporter{SpanExporter: client, log: options.Logger, endpoint: options.Endpoint}}
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = attributeBytes
	share := sdk.TraceIDRatioBased(float64(options.Percent) / 100)
	r.provider = sdk.NewTracerProvider(sdk.WithBatcher(r.exporter), sdk.WithRawSpanLimits(limits),
		// A client must not decide how much the appliance records.
		sdk.WithSampler(sdk.ParentBased(share, sdk.WithRemoteParentSampled(share))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "landfall"),
			attribute.String("service.version", options.Version),
			attribute.String("service.instance.id", options.Instance))))
	return r, nil
}

func trusting(caFile string) (*tls.Config, error) {
	certificates, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read tracing.ca_file: %w", err)
	}
	pool, ok := roots.With(certificates)
	if !ok {
		return nil, errors.New("tracing.ca_file contains no certificate; expected certificates in PEM")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// Context returns a context whose work is recorded.
func (r *Recorder) Context(ctx context.Context) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, tracerKey{}, r.provider.Tracer(scope))
}

// Close sends the spans that wait, for some seconds at most.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := r.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// exporter sends spans and reports when this begins to fail and when it works again.
type exporter struct {
	sdk.SpanExporter
	log          *slog.Logger
	endpoint     string
	failing      atomic.Bool
	sent, failed atomic.Int64 // spans
}

// ExportSpans implements sdk.SpanExporter. Its errors are logged here, because the SDK would write
// each of them to the standard logger.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.failed.Add(int64(len(spans)))
		if !e.failing.Swap(true) {
			e.log.Warn("Traces can't be sent. They are dropped until the collector answers.", "endpoint", e.endpoint,
				"error", err)
		}
		return nil
	}
	e.sent.Add(int64(len(spans)))
	if e.failing.Swap(false) {
		e.log.Info("Traces are sent again.", "endpoint", e.endpoint)
	}
	return nil
}

var spansDesc = prometheus.NewDesc("landfall_tracing_spans_total",
	"Spans for the collector of traces: sent, or failed because it did not take them.", []string{"result"}, nil)

// Describe implements prometheus.Collector.
func (*Recorder) Describe(to chan<- *prometheus.Desc) { to <- spansDesc }

// Collect implements prometheus.Collector. Without a collector of traces there are no metrics.
func (r *Recorder) Collect(to chan<- prometheus.Metric) {
	if r == nil {
		return
	}
	for result, count := range map[string]*atomic.Int64{"sent": &r.exporter.sent, "failed": &r.exporter.failed} {
		to <- prometheus.MustNewConstMetric(spansDesc, prometheus.CounterValue, float64(count.Load()), result)
	}
}
