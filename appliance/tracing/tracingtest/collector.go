// Package tracingtest has a collector of OpenTelemetry traces for tests.
package tracingtest

import (
	"encoding/hex"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	Name, Trace, ID, Parent string // IDs in hexadecimal digits
	Kind                    v1.Span_SpanKind
	Failed                  bool
	Message                 string // of a failure
	Attributes              map[string]string
	Resource                map[string]string
}

// Collector receives spans by OTLP over HTTP.
type Collector struct {
	t testing.TB

	mu      sync.Mutex
	refuses bool
	spans   []Span
	headers []http.Header
}

// New returns a collector, which is an [http.Handler] for the path /v1/traces.
func New(t testing.TB) *Collector { return &Collector{t: t} }

// Refuse makes the collector refuse spans, or take them again.
func (c *Collector) Refuse(refuses bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = refuses
}

// Spans returns the received spans.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// Named returns the received spans with a name.
func (c *Collector) Named(name string) (spans []Span) {
	for _, span := range c.Spans() {
		if span.Name == name {
			spans = append(spans, span)
		}
	}
	return spans
}

// Headers returns the headers of all requests.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	assert.NoError(c.t, err)
	assert.Equal(c.t, "/v1/traces", r.URL.Path)
	var request collector.ExportTraceServiceRequest
	assert.NoError(c.t, proto.Unmarshal(body, &request))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	if c.refuses {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, from := range request.ResourceSpans {
		resource := map[string]string{}
		for _, a := range from.Resource.Attributes {
			resource[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, spanOf(s, resource))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func spanOf(s *v1.Span, resource map[string]string) Span {
	span := Span{Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
		Parent: hex.EncodeToString(s.ParentSpanId), Kind: s.Kind, Attributes: map[string]string{}, Resource: resource,
		Failed: s.Status.GetCode() == v1.Status_STATUS_CODE_ERROR, Message: s.Status.GetMessage()}
	for _, a := range s.Attributes {
		span.Attributes[a.Key] = a.Value.String()
		if text := a.Value.GetStringValue(); text != "" {
			span.Attributes[a.Key] = text
		}
	}
	return span
}
