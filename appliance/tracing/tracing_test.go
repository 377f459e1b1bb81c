package tracing_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"landfall/appliance/tracing"
	"landfall/appliance/tracing/tracingtest"
)

func record(t *testing.T, options tracing.Options) *tracing.Recorder {
	t.Helper()
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	recorder, err := tracing.Open(t.Context(), options)
	require.NoError(t, err)
	return recorder
}

// The collector receives the spans of a request and of its parts, with the outcome of each.
func TestRecorder_sendsSpansOfARequest(t *testing.T) {
	collector := tracingtest.New(t)
	server := httptest.NewTLSServer(collector)
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20secret")
	recorder := record(t, tracing.Options{Endpoint: server.URL, CAFile: ca, Percent: 100, Version: "1.2.3",
		Instance: "https://192.0.2.1:8090"})

	mirror := httptest.NewServer(http.NotFoundHandler())
	defer mirror.Close()
	r := httptest.NewRequestWithContext(recorder.Context(t.Context()), http.MethodPost, "/clusters/7?api_key=hidden", nil)
	r.Header.Set("Traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	r, span := tracing.StartRequest(r, "/clusters/:id", r.URL.Path)
	require.Equal(t, "0123456789abcdef0123456789abcdef", tracing.ID(r.Context()))
	ctx, part := tracing.Start(r.Context(), "part", attribute.String("landfall.cluster", "7"))
	client := &http.Client{Transport: tracing.Transport(http.DefaultTransport.(*http.Transport).Clone())}
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, mirror.URL+"/v2/?token=hidden", nil)
	require.NoError(t, err)
	answer, err := client.Do(ask)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	client.CloseIdleConnections()
	tracing.End(part, errors.New("the disk is full"))
	tracing.EndRequest(span, http.StatusInsufficientStorage, 12)
	require.NoError(t, recorder.Close())

	require.Len(t, collector.Spans(), 3)
	request, inner, outgoing := collector.Named("POST /clusters/:id")[0], collector.Named("part")[0],
		collector.Named("GET")[0]
	require.Equal(t, v1.Span_SPAN_KIND_SERVER, request.Kind)
	require.Equal(t, "0123456789abcdef", request.Parent)
	require.True(t, request.Failed)
	require.Equal(t, "/clusters/7", request.Attributes["url.path"])
	require.Equal(t, "192.0.2.1", request.Attributes["client.address"])
	require.Contains(t, request.Attributes["http.response.status_code"], "507")
	require.Equal(t, map[string]string{"service.name": "landfall", "service.version": "1.2.3",
		"service.instance.id": "https://192.0.2.1:8090"}, request.Resource)
	require.Equal(t, request.ID, inner.Parent)
	require.Equal(t, "the disk is full", inner.Message)
	require.Equal(t, "7", inner.Attributes["landfall.cluster"])
	require.Equal(t, inner.ID, outgoing.Parent)
	require.Equal(t, v1.Span_SPAN_KIND_CLIENT, outgoing.Kind)
	require.True(t, outgoing.Failed)
	require.Equal(t, "127.0.0.1", outgoing.Attributes["server.address"])
	for _, s := range collector.Spans() {
		require.Equal(t, "0123456789abcdef0123456789abcdef", s.Trace)
		for _, value := range s.Attributes {
			require.NotContains(t, value, "hidden")
		}
	}
	require.Equal(t, "Bearer secret", collector.Headers()[0].Get("Authorization"))
}

// Other servers do not learn the ID of a trace.
func TestTransport_sendsNoHeader(t *testing.T) {
	recorder := record(t, tracing.Options{Endpoint: "http://127.0.0.1:1", Percent: 100})
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer server.Close()
	ctx, _ := tracing.Start(recorder.Context(t.Context()), "part")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	answer, err := (&http.Client{Transport: tracing.Transport(http.DefaultTransport)}).Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Empty(t, got.Get("Traceparent"))
}

// A percentage decides for whole traces, whatever the client says.
func TestRecorder_recordsAPercentage(t *testing.T) {
	collector := tracingtest.New(t)
	server := httptest.NewServer(collector)
	defer server.Close()
	recorder := record(t, tracing.Options{Endpoint: server.URL, Percent: 20})
	for range 1000 {
		ctx, span := tracing.Start(recorder.Context(t.Context()), "work")
		_, part := tracing.Start(ctx, "part")
		part.End()
		span.End()
	}
	r := httptest.NewRequestWithContext(recorder.Context(t.Context()), http.MethodGet, "/", nil)
	r.Header.Set("Traceparent", "00-ffffffffffffffffffffffffffffffff-0123456789abcdef-01")
	r, span := tracing.StartRequest(r, "/", "/")
	require.Empty(t, tracing.ID(r.Context()), "the client asks for a trace that is not among the 20 %")
	tracing.EndRequest(span, http.StatusOK, 0)
	require.NoError(t, recorder.Close())
	works := len(collector.Named("work"))
	require.InDelta(t, 200, works, 100)
	require.Len(t, collector.Named("part"), works)
	require.Len(t, collector.Spans(), 2*works)
}

// While the collector refuses spans, the log says so once, and the metric counts them.
func TestRecorder_collectorFails(t *testing.T) {
	collector := tracingtest.New(t)
	server := httptest.NewServer(collector)
	defer server.Close()
	var log bytes.Buffer
	recorder := record(t, tracing.Options{Endpoint: server.URL, Percent: 100,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	send := func() {
		_, span := tracing.Start(recorder.Context(t.Context()), "work")
		span.End()
		require.NoError(t, recorder.Flush(t.Context()))
	}
	collector.Refuse(true)
	send()
	send()
	require.Equal(t, 1, strings.Count(log.String(), "Traces can't be sent."))
	collector.Refuse(false)
	send()
	require.Contains(t, log.String(), "Traces are sent again.")
	require.NoError(t, testutil.CollectAndCompare(recorder, strings.NewReader(`
# HELP landfall_tracing_spans_total Spans for the collector of traces: sent, or failed because it did not take them.
# TYPE landfall_tracing_spans_total counter
landfall_tracing_spans_total{result="failed"} 2
landfall_tracing_spans_total{result="sent"} 1
`)))
	require.NoError(t, recorder.Close())
}

// Without a collector, work has no spans, and a context stays as it is.
func TestRecorder_none(t *testing.T) {
	recorder := record(t, tracing.Options{})
	require.Nil(t, recorder)
	ctx := context.Background()
	require.Equal(t, ctx, recorder.Context(ctx))
	within, span := tracing.Start(recorder.Context(ctx), "work")
	require.Equal(t, ctx, within)
	require.False(t, span.IsRecording())
	tracing.End(span, errors.New("failed"))
	require.Zero(t, testutil.CollectAndCount(recorder))
	require.NoError(t, recorder.Close())
}

func TestOpen_refusesWrongOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	for want, options := range map[string]tracing.Options{
		"tracing.percent is 101; expected a number from 0 to 100":               {Percent: 101},
		"tracing.ca_file contains no certificate; expected certificates in PEM": {CAFile: file},
		"read tracing.ca_file: open /missing: no such file or directory":        {CAFile: "/missing"},
	} {
		options.Endpoint = "https://192.0.2.1:4318"
		_, err := tracing.Open(t.Context(), options)
		require.EqualError(t, err, want)
	}
}
