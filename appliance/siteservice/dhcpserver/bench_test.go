package dhcpserver

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
)

// BenchmarkServer_leases measures leases to 64 clients at a time. A lease is an offer, and an
// acknowledgement after the lease is in the store on the disk.
func BenchmarkServer_leases(b *testing.B) {
	s := newSite(b)
	s.Range = Range{address("192.0.2.2"), address("192.0.2.250")}
	s.settings.Relayed = []Subnet{{Network: prefix("10.0.0.0/8"),
		Range: Range{address("10.0.0.2"), address("10.255.0.0")}}}
	const clients = 64
	var next atomic.Uint32
	b.ResetTimer()
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := next.Add(1); n <= uint32(b.N); n = next.Add(1) {
				hardware := binary.BigEndian.AppendUint32([]byte{0x52, 0x54}, n)
				request, err := dhcpv4.NewDiscovery(hardware, dhcpv4.WithRelay(net.IPv4(10, 0, 0, 1)))
				if err != nil {
					b.Error(err)
					return
				}
				offer := s.Answer(b.Context(), eth1(), request)
				if offer == nil {
					b.Error("no offer")
					return
				}
				request, err = dhcpv4.NewRequestFromOffer(offer, dhcpv4.WithRelay(net.IPv4(10, 0, 0, 1)))
				if err != nil {
					b.Error(err)
					return
				}
				if ack := s.Answer(b.Context(), eth1(), request); ack == nil ||
					ack.MessageType() != dhcpv4.MessageTypeAck {
					b.Error("no acknowledgement")
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	require.NoError(b, b.Context().Err())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "leases/s")
}
