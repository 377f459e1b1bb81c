// Package tracing records requests and background work as OpenTelemetry traces and sends them to a
// collector of the site.
//
// The context of the appliance carries the tracer (see [Recorder.Context]), and all work inherits
// it. [Start] starts a span of such a context. Without a recorder, a span records nothing.
//
// A span has names, IDs, addresses of servers, paths and errors, as the log does. It has no query
// parameters, headers or bodies, because these may contain secrets.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// tracerKey is the key of a context's trace.Tracer.
type tracerKey struct{}

// Start starts a span, for example "reconcile". It is a part of the span to which the context
// belongs, or the first one of a trace. End it with [End].
func Start(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	tracer, ok := ctx.Value(tracerKey{}).(trace.Tracer)
	if !ok {
		return ctx, noop.Span{}
	}
	return tracer.Start(ctx, name, trace.WithAttributes(attributes...))
}

// End ends a span with the outcome of its work.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// ID returns the ID of the trace that a context belongs to, or "" if it is not recorded.
func ID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		return span.TraceID().String()
	}
	return ""
}
