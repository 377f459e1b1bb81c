package nameserver

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// BenchmarkServer_answers measures answers by UDP to eight clients that each wait for the answer
// before they ask again. The clients run on the same processors as the server.
func BenchmarkServer_answers(b *testing.B) {
	s := newServer()
	s.Port = freePort(b)
	ctx, cancel := context.WithCancel(b.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, loopback(), func() { close(ready) }) }()
	<-ready
	packed, err := question("console.apps.berlin.site.example", dns.TypeA).Pack()
	require.NoError(b, err)
	server := netip.AddrPortFrom(address("127.0.0.1"), s.Port).String()
	const clients = 8
	b.ResetTimer()
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			conn, err := dns.Dial("udp", server)
			if err != nil {
				b.Error(err)
				return
			}
			buffer := make([]byte, dns.MaxMsgSize)
			for range b.N / clients {
				if _, err := conn.Conn.Write(packed); err != nil {
					b.Error(err)
				}
				if _, err := conn.Conn.Read(buffer); err != nil {
					b.Error(err)
				}
			}
			if err := conn.Close(); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
	cancel()
	require.NoError(b, <-ended)
}
