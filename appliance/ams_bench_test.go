package appliance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams"
	"landfall/appliance/ams/amstest"
	"landfall/web/console"
)

// BenchmarkAMS_callsWhileServiceHangs compares an appliance whose AMS never answers with one that
// has AMS disabled. Both run the same calls in alternating rounds: create, rename, read and delete
// a cluster. The reported ratios are those of the first appliance to the second.
func BenchmarkAMS_callsWhileServiceHangs(b *testing.B) {
	hanging := amstest.New(clockwork.NewRealClock())
	token := hanging.AddAccount(amstest.Account{ID: "2GOuAccount", Username: "site", Organization: "2GOuOurs"})
	hanging.Break(amstest.Fault{Do: amstest.Hang()})
	server := httptest.NewServer(hanging)
	b.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	start := func(enabled bool) *rawClient {
		s := newSite(b)
		c := &s.config.AMS
		c.Enabled, c.URL, c.TokenURL, c.CallInterval = enabled, server.URL, server.URL+amstest.TokenPath,
			time.Millisecond
		address, _ := s.startQuietly(b)
		connection := dial(b, address)
		if enabled {
			body, err := json.Marshal(ams.Secret{OfflineToken: token})
			require.NoError(b, err)
			status, answer, err := connection.do(http.MethodPost, console.AMSPath+"/credentials", body)
			require.NoError(b, err)
			require.Equal(b, http.StatusNoContent, status, string(answer))
		}
		return connection
	}
	with, without := start(true), start(false)
	version := newSite(b).release.Version
	var took [2][]time.Duration
	runRound := func(which int, connection *rawClient, serial int) {
		began := time.Now()
		body := fmt.Sprintf(`{"name":"c%d","openshift_version":%q,"pull_secret":%q}`, serial, version, pullSecret)
		id := mustCall(b, connection, http.MethodPost, apiPath+"/clusters", body, http.StatusCreated)
		path := apiPath + "/clusters/" + id
		mustCall(b, connection, http.MethodPatch, path, fmt.Sprintf(`{"name":"d%d"}`, serial), http.StatusCreated)
		mustCall(b, connection, http.MethodGet, path, "", http.StatusOK)
		mustCall(b, connection, http.MethodDelete, path, "", http.StatusNoContent)
		took[which] = append(took[which], time.Since(began))
	}
	for serial := range 8 {
		runRound(0, with, serial)
		runRound(1, without, serial)
	}
	took = [2][]time.Duration{}
	for serial := 8; b.Loop(); serial++ {
		for range 32 {
			runRound(0, with, serial)
			runRound(1, without, serial)
		}
	}
	require.NotEmpty(b, hanging.Requests(), "AMS hangs")
	for i := range took {
		slices.Sort(took[i])
	}
	at := func(which int, q float64) float64 {
		return float64(took[which][int(q*float64(len(took[which])-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0, 0.5), "hanging-p50-ms")
	b.ReportMetric(at(1, 0.5), "without-p50-ms")
	b.ReportMetric(at(0, 0.5)/at(1, 0.5), "p50-ratio")
	b.ReportMetric(at(0, 0.9)/at(1, 0.9), "p90-ratio")
	b.ReportMetric(0, "ns/op")
}

// mustCall sends a request, requires the status, and returns the ID in the response, if any.
func mustCall(b *testing.B, connection *rawClient, method, path, body string, want int) string {
	status, answer, err := connection.do(method, path, []byte(body))
	require.NoError(b, err)
	require.Equal(b, want, status, string(answer))
	var object struct {
		ID string `json:"id"`
	}
	if len(answer) > 0 {
		require.NoError(b, json.Unmarshal(answer, &object))
	}
	return object.ID
}
