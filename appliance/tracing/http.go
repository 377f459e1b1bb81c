package tracing

import (
	"net"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Names of attributes are those of the OpenTelemetry semantic conventions for HTTP spans, 1.41.

// StartRequest starts the span of a request to the appliance, whose trace continues that of the
// client (W3C Trace Context). path is without secrets. End it with [EndRequest].
func StartRequest(r *http.Request, route, path string) (*http.Request, trace.Span) {
	tracer, ok := r.Context().Value(tracerKey{}).(trace.Tracer)
	if !ok {
		return r, noop.Span{}
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	name := r.Method
	if route != "" {
		name += " " + route
	}
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("http.route", route),
		attribute.String("url.path", path), attribute.String("client.address", host)))
	return r.WithContext(ctx), span
}

// EndRequest ends the span of a request with the status and the size of its answer.
func EndRequest(span trace.Span, status int, bytes int64) {
	span.SetAttributes(attribute.Int("http.response.status_code", status),
		attribute.Int64("http.response.body.size", bytes))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Transport returns a transport that records the requests of other spans, from the request to the
// headers of the answer. Other servers do not learn the ID of the trace.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	parent := trace.SpanFromContext(r.Context())
	if !parent.IsRecording() {
		return t.next.RoundTrip(r)
	}
	attributes := []attribute.KeyValue{attribute.String("http.request.method", r.Method),
		attribute.String("server.address", r.URL.Hostname()), attribute.String("url.path", r.URL.Path)}
	if port, err := strconv.Atoi(r.URL.Port()); err == nil {
		attributes = append(attributes, attribute.Int("server.port", port))
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(r.Context(), r.Method,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err == nil {
		span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
		if response.StatusCode >= http.StatusBadRequest {
			span.SetStatus(codes.Error, "")
		}
	}
	End(span, err)
	return response, err
}

// CloseIdleConnections closes idle connections, for [http.Client].
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
