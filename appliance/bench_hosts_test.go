package appliance_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/web/console"
)

// BenchmarkHostTable reads the table of 3,000 hosts with inventories of 22 KB: the first time, and
// again when no host has changed. A reading took 45 ms on two cores of an EPYC: 2.6 MB.
func BenchmarkHostTable(b *testing.B) {
	s := newSite(b)
	seeded := s.seed(b, 1, 1)
	address, _ := s.startQuietly(b)
	client := dial(b, address)
	for n := range 3000 {
		host := hostRef{seeded.pool, fmt.Sprintf("00000000-0000-4000-8000-%012d", n)}
		for _, r := range []request{registration(seeded.pool, host.id), {host.instructions(),
			stepReply(b, inventoryOf(b, n, reportedMemory)), http.StatusNoContent}} {
			status, answer, err := client.do(http.MethodPost, r.path, r.body)
			require.NoError(b, err)
			require.Equal(b, r.status, status, string(answer))
		}
	}
	read := func() (bytes int) {
		status, answer, err := client.do(http.MethodGet, console.HostsRoute, nil)
		require.NoError(b, err)
		require.Equal(b, http.StatusOK, status)
		return len(answer)
	}
	b.ResetTimer()
	size := 0
	for b.Loop() {
		size = read()
	}
	b.ReportMetric(float64(size)/1e6, "MB")
}
