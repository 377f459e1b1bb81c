package traffic_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/traffic"
)

func TestTraffic_ratesOfTheLastSeconds(t *testing.T) {
	clock := clockwork.NewFakeClock()
	counted := traffic.New(clock)
	a, b := counted.Begin("192.0.2.1"), counted.Begin("192.0.2.2")
	a.Add(100)
	clock.Advance(5 * time.Second)
	a.Add(200)
	b.Add(1000)
	b.End()
	begun := clock.Now().UTC()
	clients := counted.Clients()
	require.Equal(t, []traffic.Client{
		{Address: "192.0.2.2", Bytes: 1000, Rate: 100, Last: begun},
		{Address: "192.0.2.1", Pulls: 1, Bytes: 300, Rate: 30, Last: begun},
	}, clients)
	clock.Advance(6 * time.Second)
	require.Equal(t, int64(20), counted.Clients()[1].Rate, "the first bytes are older than ten seconds")
	clock.Advance(time.Hour)
	require.Zero(t, counted.Clients()[0].Rate)
	require.Equal(t, int64(1300), counted.Total())
}

// The clients are bounded in number. One that pulls is never forgotten.
func TestTraffic_forgetsIdleClients(t *testing.T) {
	clock := clockwork.NewFakeClock()
	counted := traffic.New(clock)
	counted.Begin("pulling").Add(1)
	for i := range 1000 {
		clock.Advance(time.Second)
		pull := counted.Begin(fmt.Sprint(i))
		pull.Add(1)
		pull.End()
	}
	clients := counted.Clients()
	require.Len(t, clients, 256)
	require.Contains(t, clients, traffic.Client{Address: "pulling", Pulls: 1, Bytes: 1,
		Last: clients[len(clients)-1].Last})
	require.Equal(t, int64(1001), counted.Total())
}
