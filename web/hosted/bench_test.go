package hosted_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"landfall/appliance/hosted"
	"landfall/web"
	hostedapi "landfall/web/hosted"
)

// BenchmarkSearch measures the searches of the document on a cluster's creation with 10,000
// clusters. The metric p99-ms is the limit; p99-cpu-ms is the same without the waits for a busy
// machine. A creation writes two bundles; its CPU time includes checkpoints and garbage collection.
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
	begun, used := time.Now(), processTime(b)
	const clusters = 10_000
	for i := range clusters {
		path := fmt.Sprintf("/subscriptions/%s/resourceGroups/rg%d/providers/Microsoft.RedHatOpenShift/"+
			"hcpOpenShiftClusters/c%d", s.subscription, i/2, i)
		require.Equal(b, http.StatusCreated, do("PUT", path+version, `{"location":"site"}`).Code)
	}
	created := float64(clusters) / time.Since(begun).Seconds()
	perCreation := (processTime(b) - used) / clusters
	for name, search := range map[string]string{
		"group": "azure.subscription_id='%s' and azure.resource_group_name='RG77'",
		"name in group": "azure.subscription_id='%s' and azure.resource_group_name='RG77' and " +
			"azure.resource_name='c155'",
	} {
		path := "/api/clusters_mgmt/v1/clusters?search=" + url.QueryEscape(fmt.Sprintf(search, s.subscription))
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var times, cpu []time.Duration
			for b.Loop() {
				at, before := time.Now(), threadTime(b)
				require.Equal(b, http.StatusOK, do("GET", path, "").Code)
				times, cpu = append(times, time.Since(at)), append(cpu, threadTime(b)-before)
			}
			b.ReportMetric(percentile99(times), "p99-ms")
			b.ReportMetric(percentile99(cpu), "p99-cpu-ms")
			b.ReportMetric(created, "creations/s")
			b.ReportMetric(float64(perCreation.Microseconds())/1000, "cpu-ms/creation")
		})
	}
}

// percentile99 returns the 99th percentile in milliseconds.
func percentile99(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)*99/100].Microseconds()) / 1000
}

// threadTime returns the CPU time of the calling thread.
func threadTime(b *testing.B) time.Duration { return clockTime(b, unix.CLOCK_THREAD_CPUTIME_ID) }

// processTime returns the CPU time of the process.
func processTime(b *testing.B) time.Duration { return clockTime(b, unix.CLOCK_PROCESS_CPUTIME_ID) }

func clockTime(b *testing.B, clock int32) time.Duration {
	var now unix.Timespec
	require.NoError(b, unix.ClockGettime(clock, &now))
	return time.Duration(now.Nano())
}
