//go:build etcd

package appliance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/appliance/fleet/etcdtest"
	"landfall/appliance/fleet/membership"
	"landfall/web/console"
)

// These benchmarks measure a fleet of three members, each in a process of its own, and a real etcd
// that syncs its disk. The clients, the members and etcd share the machine's cores.
// docs/performance.md explains each figure.

const (
	loadClusters      = 1000
	loadHostsEach     = 3
	loadClients       = 32
	fleetTakeovers    = 20
	pollsOfRound      = 128 // of each client
	creationsOfClient = 8   // in a round
)

// startBenchFleet starts a fleet with data of a large site.
func startBenchFleet(b *testing.B, clusters int) (*fleetTest, *seeded) {
	b.Helper()
	s := newSite(b)
	var filled *seeded
	f := &fleetTest{site: s, server: etcdtest.Start(b, etcdtest.Options{Sync: true}), direct: true}
	f.start(b, func() { filled = s.seed(b, clusters, loadHostsEach) })
	return f, filled
}

// others returns the members that do not lead.
func (f *fleetTest) others(b *testing.B) []*fleetMember {
	leader := f.leader(b)
	return slices.DeleteFunc(slices.Clone(f.members), func(m *fleetMember) bool { return m == leader })
}

// polls are the polls of clients, each with a connection of its own.
type polls struct {
	workload
	latencies [loadClients][]time.Duration
}

func newPolls(b *testing.B, address string, hosts []hostRef) *polls {
	wires := make([]*rawClient, loadClients)
	for i := range wires {
		wires[i] = dial(b, address)
	}
	p := &polls{}
	p.clients, p.do = loadClients, func(client, serial int) error {
		began := time.Now()
		err := pollOnce(wires[client], hosts[serial%len(hosts)])
		p.latencies[client] = append(p.latencies[client], time.Since(began))
		return err
	}
	return p
}

// quantile returns a quantile of the latencies in milliseconds.
func (p *polls) quantile(q float64) float64 {
	all := slices.Sorted(slices.Values(slices.Concat(p.latencies[:]...)))
	return all[int(q*float64(len(all)-1))].Seconds() * 1000
}

func pollOnce(wire *rawClient, host hostRef) error {
	status, answer, err := wire.do(http.MethodGet, host.instructions()+"?discovery_agent_version=agent", nil)
	if err == nil && (status != http.StatusOK || !bytes.Contains(answer, []byte(`"instructions"`))) {
		err = fmt.Errorf("a poll was answered %d: %s", status, answer)
	}
	return err
}

// BenchmarkFleetPolls polls for instructions at the leader and through a follower, in alternating
// rounds. The CPU times are those of one poll, of all members and of the clients.
func BenchmarkFleetPolls(b *testing.B) {
	f, filled := startBenchFleet(b, loadClusters)
	direct, through := newPolls(b, f.leader(b).address, filled.hosts), newPolls(b, f.others(b)[0].address, filled.hosts)
	// The first poll of a host prepares its response.
	direct.run(b, len(filled.hosts))
	through.run(b, pollsOfRound*loadClients)
	direct.reset()
	through.reset()
	through.latencies = [loadClients][]time.Duration{}
	var cpu [2]time.Duration // of the members
	for b.Loop() {
		for i, p := range []*polls{direct, through} {
			before := f.cpu(b)
			p.run(b, pollsOfRound*loadClients)
			cpu[i] += f.cpu(b) - before
		}
	}
	b.ReportMetric(direct.rate(), "direct-polls/s")
	b.ReportMetric(through.rate(), "follower-polls/s")
	b.ReportMetric(through.rate()/direct.rate(), "follower/direct")
	for i, p := range []*polls{direct, through} {
		each := p.cpuEach()*1000 + float64(cpu[i].Microseconds())/float64(p.done)
		b.ReportMetric(each, []string{"direct-CPU-us", "follower-CPU-us"}[i])
	}
	b.ReportMetric(through.quantile(0.50), "follower-p50-ms")
	b.ReportMetric(through.quantile(0.99), "follower-p99-ms")
	b.ReportMetric(0, "ns/op")
}

// cpu returns the CPU time of the members.
func (f *fleetTest) cpu(b *testing.B) (sum time.Duration) {
	for _, m := range f.members {
		sum += (&child{cmd: m.process}).cpu(b)
	}
	return sum
}

// BenchmarkFleetCreations creates clusters at the leader with one and with 32 clients, at a single
// machine with 32 clients, and writes values of the size of such a record to etcd with one client,
// in alternating rounds.
func BenchmarkFleetCreations(b *testing.B) {
	single := newSite(b)
	single.config.TLS.Enabled = true
	alone := newApplianceProcess(b, single)
	alone.start(b)
	f, _ := startBenchFleet(b, 1)
	var serials sync.Mutex
	serial := 0
	creating := func(clients int, address string) *workload {
		wires := make([]*rawClient, clients)
		for i := range wires {
			wires[i] = dial(b, address)
		}
		return &workload{clients: clients, do: func(client, _ int) error {
			serials.Lock()
			r := f.site.clusterCreation(serial)
			serial++
			serials.Unlock()
			status, answer, err := wires[client].do(http.MethodPost, r.path, r.body)
			if err == nil && status != r.status {
				err = fmt.Errorf("%s answered %d: %s", r.path, status, answer)
			}
			return err
		}}
	}
	leader := f.leader(b)
	one, many := creating(1, leader.address), creating(loadClients, leader.address)
	singly := creating(loadClients, alone.address)
	one.run(b, 10)
	size := f.newestRecord(b)
	value := string(bytes.Repeat([]byte("x"), size))
	etcd := &workload{clients: 1, do: func(_, serial int) error {
		_, err := f.etcd.Put(b.Context(), fmt.Sprint("/alone/", serial), value)
		return err
	}}
	all := []*workload{one, many, singly, etcd}
	records, creations := 0.0, 0
	round := func() {
		before := f.records(b)
		one.run(b, 2*roundLength)
		records += f.records(b) - before
		creations += 2 * roundLength
		many.run(b, creationsOfClient*loadClients)
		singly.run(b, creationsOfClient*loadClients)
		etcd.run(b, 2*roundLength)
	}
	round() // fills caches
	for _, w := range all {
		w.reset()
	}
	for b.Loop() {
		round()
	}
	b.ReportMetric(records/float64(creations), "1-client-records")
	b.ReportMetric(etcd.rate(), "etcd/s")
	b.ReportMetric(float64(size), "value-B")
	b.ReportMetric(one.rate(), "1-client/s")
	b.ReportMetric(many.rate(), "32-clients/s")
	b.ReportMetric(singly.rate(), "32-clients-single/s")
	b.ReportMetric(one.rate()/etcd.rate(), "1-client/etcd")
	b.ReportMetric(many.rate()/etcd.rate(), "32-clients/etcd")
	b.ReportMetric(many.rate()/singly.rate(), "32-clients/single")
	b.ReportMetric(0, "ns/op")
}

// newestRecord returns the size of the newest record in etcd.
func (f *fleetTest) newestRecord(b *testing.B) int {
	newest, err := f.etcd.Get(b.Context(), "/landfall/log/", clientv3.WithLastKey()...)
	require.NoError(b, err)
	require.NotEmpty(b, newest.Kvs)
	return len(newest.Kvs[0].Value)
}

// records returns the number of the newest record in etcd.
func (f *fleetTest) records(b *testing.B) float64 {
	status, err := f.leader(b).status()
	require.NoError(b, err)
	return float64(status.Records)
}

// BenchmarkFleetTakeover kills the leader of a fleet with a large site, and measures the time until
// another member has answered a host's poll and a creation of a cluster.
func BenchmarkFleetTakeover(b *testing.B) {
	f, filled := startBenchFleet(b, loadClusters)
	var taken []time.Duration
	for b.Loop() {
		taken = append(taken, f.takeover(b, filled, len(taken)))
	}
	for len(taken) < fleetTakeovers {
		taken = append(taken, f.takeover(b, filled, len(taken)))
	}
	slices.Sort(taken)
	b.ReportMetric(taken[len(taken)/2].Seconds(), "takeover-p50-s")
	b.ReportMetric(taken[len(taken)-1].Seconds(), "takeover-slowest-s")
	b.ReportMetric(float64(len(taken)), "takeovers")
	b.ReportMetric(0, "ns/op")
}

// takeover kills the leader, measures, and starts the killed member again.
func (f *fleetTest) takeover(b *testing.B, filled *seeded, number int) time.Duration {
	leader, asked := f.leader(b), f.others(b)[number%2]
	leader.kill(b)
	began := time.Now()
	repeat(b, func() error { return poll(asked, filled.hosts[number]) })
	r := f.site.clusterCreation(number)
	repeat(b, func() error {
		answer, err := http.Post(asked.address+r.path, "application/json", bytes.NewReader(r.body))
		if err != nil {
			return err
		}
		if answer.StatusCode != r.status {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	})
	spent := time.Since(began)
	f.site.config.Fleet.Name = leader.name
	leader.start(b)
	// The started member follows when the fleet has three members and none of them is behind.
	repeat(b, func() error { return f.complete(b) })
	return spent
}

// poll polls through a member, on a new connection.
func poll(at *fleetMember, host hostRef) error {
	answer, err := http.Get(at.address + host.instructions())
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// complete returns nil if all members are connected and have all records.
func (f *fleetTest) complete(b *testing.B) error {
	var status membership.Status
	if err := json.Unmarshal(fetched(b, f.leader(b).address+console.FleetRoute), &status); err != nil {
		return err
	}
	if len(status.Members) != len(f.members) || slices.ContainsFunc(status.Members, func(m membership.Member) bool {
		return m.Behind > 0
	}) {
		return fmt.Errorf("the members are %v", status.Members)
	}
	return nil
}

// repeat calls a function until it returns nil.
func repeat(b *testing.B, do func() error) {
	b.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if err = do(); err == nil {
			return
		}
	}
	require.NoError(b, err)
}
