package fleet_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkPolls sends polls of 32 clients through a follower to a leader that answers a fixed
// text.
func BenchmarkPolls(b *testing.B) {
	key := newKey(b)
	answer := strings.Repeat("x", 400)
	to := newLeader(b, key, "leader", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
	f := newFollower(b, key, time.Minute)
	f.Lead(to.peer())
	address := strings.TrimPrefix(f.boot.URL, "http://") // without TLS
	var left atomic.Int64
	left.Store(int64(b.N))
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for left.Add(-1) >= 0 {
				_, err := io.WriteString(conn, "GET "+pollPath+" HTTP/1.1\r\nHost: appliance\r\n"+
					"User-Agent: agent\r\nAccept: application/json\r\nX-Secret-Key: token\r\n\r\n")
				if err != nil {
					b.Error(err)
					return
				}
				got, err := http.ReadResponse(in, nil)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, got.Body)
				if got.StatusCode != http.StatusOK {
					b.Error(got.Status)
					return
				}
			}
		})
	}
	clients.Wait()
	require.Positive(b, b.N)
}
