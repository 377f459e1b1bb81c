package doctor

import (
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCertificates_validByAllClocks(t *testing.T) {
	diagnose := func(lags map[string]time.Duration) *Report {
		return Doctor{FindNeighbour: noNeighbour}.Diagnose(t.Context(), &Site{ClockLags: lags})
	}
	require.Equal(t, Green, find(t, diagnose(map[string]time.Duration{"host a": -time.Hour,
		"host b": 50 * time.Second}),
		"new certificates").Status, "a clock that is ahead accepts new certificates")
	behind := find(t, diagnose(map[string]time.Duration{"host a": time.Minute, "host b": 90 * time.Minute}),
		"new certificates")
	require.Equal(t, Amber, behind.Status)
	require.Equal(t, "by the clock of host b, the certificate becomes valid only in 1h30m0s", behind.Result)
	require.Contains(t, behind.Advice, "Synchronise the clocks of the site with one time server")
	for _, finding := range diagnose(nil).Findings {
		require.NotEqual(t, "new certificates", finding.Subject, "no clock was compared")
	}
}

func TestCertificates_newFailsWithSlowClock(t *testing.T) {
	now := time.Now()
	trusted := newAuthority(t, now)
	ok := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/json") }
	host := trusted.startRegistry(t, now, ok, func(c *x509.Certificate) { c.NotBefore = now.Add(-time.Minute) })
	finding := find(t, Doctor{}.Diagnose(t.Context(), &Site{Registries: []Registry{{Host: host}},
		Authorities: trusted.pool()}), host)
	require.Equal(t, Amber, finding.Status, finding)
	require.Contains(t, finding.Result, "its certificate is valid only since")
	require.Contains(t, finding.Advice, "A host rejects the certificate")
}
