package hosted_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted"
	"landfall/web"
	hostedapi "landfall/web/hosted"
)

// BenchmarkSearch measures the searches of the document on a cluster's creation with 10,000
// clusters. The metric p99-ms is the limit.
func BenchmarkSearch(b *testing.B) {
	s := newSite(b)
	s.addManagement()
	server := web.New(web.Options{Spelling: hostedapi.Spelling})
	require.NoError(b, server.Register(hostedapi.Operations(&hosted.Service{Provider: s.Service}, nil)...))
	do := func(method, path, body string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(method, path, nil)
		if body != "" {
			request = httptest.NewRequest(method, path, strings.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
		}
		server.ServeHTTP(answer, request)
		return answer
	}
	begun := time.Now()
	const clusters = 10_000
	for i := range clusters {
		path := fmt.Sprintf("/subscriptions/%s/resourceGroups/rg%d/providers/Microsoft.RedHatOpenShift/"+
			"hcpOpenShiftClusters/c%d", s.subscription, i/2, i)
		require.Equal(b, http.StatusCreated, do("PUT", path+version, `{"location":"site"}`).Code)
	}
	created := float64(clusters) / time.Since(begun).Seconds()
	for name, search := range map[string]string{
		"group": "azure.subscription_id='%s' and azure.resource_group_name='RG77'",
		"name in group": "azure.subscription_id='%s' and azure.resource_group_name='RG77' and " +
			"azure.resource_name='c155'",
	} {
		path := "/api/clusters_mgmt/v1/clusters?search=" + url.QueryEscape(fmt.Sprintf(search, s.subscription))
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				at := time.Now()
				require.Equal(b, http.StatusOK, do("GET", path, "").Code)
				times = append(times, time.Since(at))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(created, "creations/s")
		})
	}
}
