package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

// These benchmarks send requests to a whole appliance over real loopback connections. The clients
// share the machine's cores with the appliance. docs/performance.md explains each figure.
// The baseline of writes is plain bbolt commits, which no durable request can beat. One client,
// eight clients and plain commits run in alternating rounds, so that drifting speed of the disk or
// machine affects all of them.

const (
	roundLength = 48
	manyClients = 8
)

// workload is one of the operations that run in alternating rounds.
type workload struct {
	clients int
	do      func(client, serial int) error
	done    int
	spent   time.Duration
	cpu     time.Duration // CPU time of the process, clients included
}

// runRound runs the operation roundLength times.
func (c *workload) runRound(b *testing.B) { c.run(b, roundLength) }

// run runs the operation a number of times, distributed among the clients.
func (c *workload) run(b *testing.B, times int) {
	start, cpu := time.Now(), cpuTime(b)
	var running sync.WaitGroup
	for client := range c.clients {
		running.Go(func() {
			for i := client; i < times; i += c.clients {
				if err := c.do(client, c.done+i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	c.spent += time.Since(start)
	c.cpu += cpuTime(b) - cpu
	c.done += times
}

func (c *workload) reset() { c.done, c.spent, c.cpu = 0, 0, 0 }

func (c *workload) rate() float64 { return float64(c.done) / c.spent.Seconds() }

// cpuEach returns the CPU time of one operation in milliseconds.
func (c *workload) cpuEach() float64 { return c.cpu.Seconds() * 1000 / float64(c.done) }

// cpuTime returns the CPU time of the process in user and kernel mode.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// request holds path, body and expected status of a client's request.
type request struct {
	path   string
	body   []byte
	status int
}

// compare measures an operation with one and with eight clients against plain bbolt commits with
// values of the given size. next returns the request for a serial number. Each client has its own
// serial numbers.
func compare(b *testing.B, address string, valueSize int, next func(serial int) request) {
	connections := make([]*rawClient, manyClients)
	for i := range connections {
		connections[i] = dial(b, address)
	}
	var serials sync.Mutex
	serial := 0
	call := func(client, _ int) error {
		serials.Lock()
		r := next(serial)
		serial++
		serials.Unlock()
		status, answer, err := connections[client].do(http.MethodPost, r.path, r.body)
		if err == nil && status != r.status {
			err = fmt.Errorf("%s answered %d: %s", r.path, status, answer)
		}
		return err
	}
	one, many := &workload{clients: 1, do: call}, &workload{clients: manyClients, do: call}
	withoutRevision := &workload{clients: 1, do: plainCommits(b, valueSize)}
	for _, c := range []*workload{one, many, withoutRevision} {
		c.runRound(b) // the first requests fill caches and do not count
		c.reset()
	}
	for b.Loop() {
		one.runRound(b)
		many.runRound(b)
		withoutRevision.runRound(b)
	}
	b.ReportMetric(one.rate(), "1-client/s")
	b.ReportMetric(many.rate(), "8-clients/s")
	b.ReportMetric(withoutRevision.rate(), "bbolt-commits/s")
	b.ReportMetric(one.rate()/withoutRevision.rate(), "1-client/bbolt")
	b.ReportMetric(many.rate()/one.rate(), "8-clients/1-client")
	b.ReportMetric(one.cpuEach(), "1-client-CPU-ms")
	b.ReportMetric(many.cpuEach(), "8-clients-CPU-ms")
	b.ReportMetric(withoutRevision.cpuEach(), "bbolt-CPU-ms")
	b.ReportMetric(float64(valueSize), "value-B")
	b.ReportMetric(0, "ns/op") // the length of a round has no meaning
}

// plainCommits writes one value in each transaction to a separate bbolt database.
func plainCommits(b *testing.B, valueSize int) func(int, int) error {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "plain.db"), 0o600, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	value := bytes.Repeat([]byte("v"), valueSize)
	return func(int, int) error {
		return db.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("values"))
			if err != nil {
				return err
			}
			return bucket.Put([]byte(uuid.NewString()), value)
		})
	}
}

func BenchmarkClusterCreations(b *testing.B) {
	s := newSite(b)
	address, _ := s.startQuietly(b)
	first := s.clusterCreation(1 << 20)
	_, answer, err := dial(b, address).do(http.MethodPost, first.path, first.body)
	require.NoError(b, err)
	compare(b, address, len(answer), s.clusterCreation)
}

// clusterCreation returns the request that creates the cluster with a serial number.
func (s *site) clusterCreation(serial int) request {
	body := fmt.Sprintf(`{"name":"c%d","base_dns_domain":"site.test","openshift_version":%q,"pull_secret":%q,`+
		`"api_vips":[{"ip":"192.168.100.4"}],"ingress_vips":[{"ip":"192.168.100.5"}]}`, serial, s.release.Version,
		pullSecret)
	return request{apiPath + "/clusters", []byte(body), http.StatusCreated}
}

func BenchmarkHostRegistrations(b *testing.B) {
	s := newSite(b)
	seeded := s.seed(b, 64, 0)
	address, _ := s.startQuietly(b)
	// Each cluster gets three hosts. The remaining hosts register in infra-envs without a cluster.
	register := func(serial int) request {
		env := seeded.infraEnvs[serial/3%len(seeded.infraEnvs)]
		if serial >= 3*len(seeded.infraEnvs) {
			env = seeded.pool
		}
		return registration(env, uuid.NewString())
	}
	first := registration(seeded.pool, uuid.NewString())
	_, answer, err := dial(b, address).do(http.MethodPost, first.path, first.body)
	require.NoError(b, err)
	compare(b, address, len(answer), register)
}

func registration(infraEnv, host string) request {
	body := fmt.Sprintf(`{"host_id":%q,"discovery_agent_version":"agent"}`, host)
	return request{apiPath + "/infra-envs/" + infraEnv + "/hosts", []byte(body), http.StatusCreated}
}

// BenchmarkInventoryReplies sends inventories from hosts of three-node clusters. Each reply has
// another amount of usable memory and must be written. The inventory is that of a large server, see
// inventoryOf.
func BenchmarkInventoryReplies(b *testing.B) {
	s := newSite(b)
	seeded := s.seed(b, 2*manyClients, 3)
	address, _ := s.startQuietly(b)
	compare(b, address, len(inventoryOf(b, 0, 0)), changedInventories(b, seeded))
}

// changedInventories returns the requests that report inventories with another amount of memory
// each.
func changedInventories(b *testing.B, seeded *seeded) func(serial int) request {
	replies := make([][]byte, len(seeded.hosts))
	for i := range replies {
		replies[i] = stepReply(b, inventoryOf(b, i, reportedMemory))
	}
	return func(serial int) request {
		host := serial % len(seeded.hosts)
		changed := fmt.Appendf(nil, "%d", reportedMemory+int64(serial+1)<<20)
		body := bytes.Replace(replies[host], fmt.Appendf(nil, "%d", reportedMemory), changed, 1)
		return request{seeded.hosts[host].instructions(), body, http.StatusNoContent}
	}
}

func stepReply(tb testing.TB, inventory []byte) []byte {
	body, err := json.Marshal(&models.StepReply{StepType: models.StepTypeInventory, StepID: "inventory-1",
		Output: string(inventory)})
	require.NoError(tb, err)
	return body
}

// BenchmarkInstructionPolls polls for instructions from 3,000 hosts of 1,000 clusters on 16
// connections: first without a limit, then at a rate of 15,000/s, where a latency counts from the
// time at which the poll was due. The last polls use TLS connections and the tokens of agents.
func BenchmarkInstructionPolls(b *testing.B) {
	for _, rate := range []int{0, 15_000} {
		name := "unpaced"
		if rate > 0 {
			name = fmt.Sprintf("paced=%d/s", rate)
		}
		b.Run(name, func(b *testing.B) { pollInstructions(b, newSite(b), rate) })
	}
	b.Run("authenticated", func(b *testing.B) { pollInstructions(b, newSite(b).withAuth(), 0) })
}

func pollInstructions(b *testing.B, s *site, rate int) {
	const connections = 16
	seeded := s.seed(b, 1000, 3)
	address, _ := s.startQuietly(b)
	hosts := seeded.hosts
	tokens := s.agentTokens(b, address, hosts)
	query := "?discovery_agent_version=agent&timestamp="
	wires := make([]*rawClient, connections)
	poll := func(client, serial int) error {
		host := hosts[serial%len(hosts)]
		path := host.instructions() + query + fmt.Sprint(time.Now().Unix())
		wires[client].token = tokens[host.infraEnv]
		status, answer, err := wires[client].do(http.MethodGet, path, nil)
		if err == nil && (status != http.StatusOK || !bytes.Contains(answer, []byte(`"instructions"`))) {
			err = fmt.Errorf("a poll was answered %d: %s", status, answer)
		}
		return err
	}
	for i := range wires {
		wires[i] = s.dial(b, address)
	}
	for i := range hosts {
		require.NoError(b, poll(0, i)) // the first poll of a host prepares its response
	}
	latencies := make([][]time.Duration, connections)
	next := make([]chan struct{}, connections) // serial numbers for each connection, in order
	for client := range next {
		next[client] = make(chan struct{}, 4)
	}
	var running sync.WaitGroup
	failed := make(chan error, connections)
	start := time.Now()
	for client := range connections {
		running.Go(func() {
			serial := client * len(hosts) / connections
			for range next[client] {
				for range roundLength {
					due := time.Now()
					if rate > 0 {
						nth := len(latencies[client])*connections + client
						due = start.Add(time.Duration(nth) * time.Second / time.Duration(rate))
						<-time.After(time.Until(due))
					}
					if err := poll(client, serial); err != nil {
						failed <- err
						return
					}
					latencies[client] = append(latencies[client], time.Since(due))
					serial++
				}
			}
		})
	}
	for rounds := 0; b.Loop(); rounds++ {
		select {
		case next[rounds%connections] <- struct{}{}:
		case err := <-failed:
			b.Fatal(err)
		}
	}
	for client := range next {
		close(next[client])
	}
	running.Wait()
	spent := time.Since(start)
	all := slices.Concat(latencies...)
	slices.Sort(all)
	quantile := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	b.ReportMetric(float64(len(all))/spent.Seconds(), "polls/s")
	b.ReportMetric(quantile(0.50), "p50-ms")
	b.ReportMetric(quantile(0.99), "p99-ms")
	b.ReportMetric(0, "ns/op")
}
