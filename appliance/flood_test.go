package appliance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFlood_logins sends 10,000 logins from as many addresses, 500 at the same time. Two passwords
// are verified at a time, with 32 MiB each. Meanwhile, a program with a token is served.
func TestFlood_logins(t *testing.T) {
	g := newGuarded(t)
	code, err := g.SetupCode()
	require.NoError(t, err)
	logIn := func(path, address, body string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://127.0.0.1/api/landfall/v1/"+path,
			strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(address), 1).String()
		w := httptest.NewRecorder()
		g.server.ServeHTTP(w, r)
		return w.Code
	}
	const own = `{"name": "ada", "password": "correct horse battery staple"}`
	require.Less(t, logIn("setup", "127.0.0.1", `{"code": "`+code+`", `+own[1:]), 300)
	statuses := [600]atomic.Int64{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	logins := make(chan int)
	var group sync.WaitGroup
	for range 500 {
		group.Go(func() {
			for n := range logins {
				address := fmt.Sprintf("10.2.%d.%d", n>>8, n&255)
				statuses[logIn("login", address, fmt.Sprintf(`{"name": "name%d", "password": "wrong horse"}`, n))].Add(1)
			}
		})
	}
	for n := range 10_000 {
		logins <- n
		if n%500 == 0 {
			require.Equal(t, http.StatusOK, g.status(t, http.MethodGet, "/api/landfall/v1/whoami",
				g.callers["viewer"]))
		}
	}
	close(logins)
	group.Wait()
	runtime.ReadMemStats(&after)
	require.Less(t, (after.Sys-before.Sys)>>20, uint64(320), "MiB")
	refused, busy := statuses[http.StatusUnauthorized].Load(), statuses[http.StatusServiceUnavailable].Load()
	require.Equal(t, int64(10_000), refused+busy)
	require.Positive(t, refused)
	require.Greater(t, busy, int64(9000), "most are answered at once")
	require.Less(t, logIn("login", "127.0.0.1", own), 300, "afterwards")
}
