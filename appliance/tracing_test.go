package appliance_test

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/tracing/tracingtest"
)

// An installation with a BMC leaves traces of the requests, of the BMC's jobs and of the
// preparation, each with its parts.
func TestTracing_installation(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20") // ms until spans are sent
	collector := tracingtest.New(t)
	server := httptest.NewServer(collector)
	t.Cleanup(server.Close)
	s := newSite(t)
	s.config.Tracing = config.Tracing{Endpoint: server.URL, Percent: 100}
	installOverBMC(t, s, nil)

	// hasPart reports whether a span with a name has a part whose name begins with a text.
	hasPart := func(name, part string) bool {
		spans := map[string]bool{}
		for _, span := range collector.Named(name) {
			spans[span.ID] = true
		}
		for _, span := range collector.Spans() {
			if spans[span.Parent] && strings.HasPrefix(span.Name, part) {
				return true
			}
		}
		return false
	}
	for _, want := range [][2]string{
		{"POST /api/assisted-install/v2/clusters", "store update"},
		{"prepare installation", "openshift-install create "},
		{"prepare installation", "GET"}, // of the mirror
		{"prepare installation", "store update"},
		{"bmc boot", "POST"},
		{"bmc boot", "store update"},
	} {
		eventually(t, want[0]+" has the part "+want[1], func() bool { return hasPart(want[0], want[1]) })
	}
	for _, span := range collector.Spans() {
		for _, text := range slices.AppendSeq([]string{span.Name, span.Message}, maps.Values(span.Attributes)) {
			require.NotContains(t, text, "calvin", "the password of the BMC")
			require.NotContains(t, text, "api_key")
		}
	}
}
