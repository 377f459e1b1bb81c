package image_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Parameters of [BenchmarkImageSlowClients].
const (
	slowClients = 1000
	slowPiece   = 4 << 10 // bytes that each client reads in a second
	slowTime    = time.Minute
	calmTime    = 10 * time.Second
)

// BenchmarkImageSlowClients has 1,000 clients download an image at 4 KiB a second for a minute,
// while another one reads ranges of 32 KiB as fast as possible. It measures the throughput of that
// one alone and beside the others, and the cost of the others.
func BenchmarkImageSlowClients(b *testing.B) {
	c, used := startContest(b, 64<<20)
	for b.Loop() {
		lively := c.dial(b, true)
		alone := lively.readRanges(b, calmTime)
		idle := used()
		slow := make([]*rawClient, slowClients)
		for i := range slow {
			slow[i] = c.dial(b, true)
			conn, ok := slow[i].conn.(*net.TCPConn)
			require.True(b, ok)
			require.NoError(b, conn.SetReadBuffer(slowPiece)) // or the system would buffer the image for them
			_, err := io.WriteString(conn, slow[i].request+"\r\n")
			require.NoError(b, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- readSlowly(slow) }()
		beside := lively.readRanges(b, slowTime)
		require.NoError(b, <-ended, "none was dropped")
		now := used()
		for _, client := range slow {
			require.NoError(b, client.conn.Close())
		}
		b.ReportMetric(float64(len(alone))/calmTime.Seconds(), "alone-ranges/s")
		b.ReportMetric(float64(len(beside))/slowTime.Seconds(), "beside-ranges/s")
		b.ReportMetric(percentile(alone, 99), "alone-p99-ms")
		b.ReportMetric(percentile(beside, 99), "beside-p99-ms")
		b.ReportMetric(percentile(beside, 100), "beside-slowest-ms")
		b.ReportMetric(float64(now.RSS-idle.RSS)/(1<<20), "MiB-above-idle")
		b.ReportMetric(0, "ns/op")
	}
}

// readSlowly reads a piece for each client once a second. With so small a buffer, the system
// decides when it has the next piece.
func readSlowly(clients []*rawClient) error {
	var reading errgroup.Group
	for _, client := range clients {
		reading.Go(func() error {
			second := time.NewTicker(time.Second)
			defer second.Stop()
			for end := time.Now().Add(slowTime); time.Now().Before(end); <-second.C {
				if _, err := client.conn.Read(client.buffer[:slowPiece]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return reading.Wait()
}

// readRanges reads ranges one after the other for some time, and returns the duration of each.
func (c *rawClient) readRanges(b *testing.B, during time.Duration) []time.Duration {
	const size = 32 << 10
	var took []time.Duration
	for at, start := int64(0), time.Now(); time.Since(start) < during; at += size {
		from, asked := at%(64<<20), time.Now()
		n, err := c.get(fmt.Sprintf("%d-%d", from, from+size-1))
		require.NoError(b, err)
		require.EqualValues(b, size, n)
		require.NoError(b, c.skip(n))
		took = append(took, time.Since(asked))
	}
	return took
}

// percentile returns milliseconds.
func percentile(took []time.Duration, p int) float64 {
	slices.Sort(took)
	return took[(len(took)-1)*p/100].Seconds() * 1e3
}
