package appliance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// rateRound is the duration of a round of requests to one appliance.
const rateRound = 2 * time.Second

// BenchmarkKubernetesRates compares the rates of writing requests with the Kubernetes API disabled,
// enabled, and watched by a client. Rounds against three appliances alternate, so that a drifting
// speed of the machine affects all. The work of the controllers after a round counts as CPU time,
// not as time of the requests.
func BenchmarkKubernetesRates(b *testing.B) {
	for _, clients := range []int{1, 8, 32} {
		for _, workload := range []struct {
			name string
			next func(b *testing.B, s *site) func(serial int) request
		}{{"clusters", clusterCreations}, {"infra-envs", infraEnvCreations}, {"hosts", hostRegistrations},
			{"inventories", inventoryReplies}} {
			b.Run(fmt.Sprintf("%s/clients=%d", workload.name, clients), func(b *testing.B) {
				measureRates(b, clients, workload.next)
			})
		}
	}
}

func measureRates(b *testing.B, clients int, prepare func(*testing.B, *site) func(int) request) {
	type column struct {
		connections []*rawClient
		next        func(serial int) request
		serial      atomic.Int64
		done        int
		spent, cpu  time.Duration
	}
	columns := make([]*column, 3)
	for i := range columns {
		s := newSite(b)
		s.config.Kubernetes.Enabled = i > 0
		columns[i] = &column{next: prepare(b, s)}
		address, _ := s.startQuietly(b)
		if i == 2 {
			watchObjects(b, address)
		}
		for range clients {
			columns[i].connections = append(columns[i].connections, dial(b, address))
		}
	}
	round := func(c *column, length time.Duration) {
		start, cpu, before := time.Now(), cpuTime(b), c.serial.Load()
		var running sync.WaitGroup
		for _, connection := range c.connections {
			running.Go(func() {
				for time.Since(start) < length {
					r := c.next(int(c.serial.Add(1)))
					status, answer, err := connection.do(http.MethodPost, r.path, r.body)
					if err != nil || status != r.status {
						b.Errorf("%s answered %d: %s (%v)", r.path, status, answer, err)
						return
					}
				}
			})
		}
		running.Wait()
		c.done += int(c.serial.Load() - before)
		c.spent += time.Since(start)
		waitForRest(b)
		c.cpu += cpuTime(b) - cpu
	}
	for _, c := range columns {
		round(c, rateRound/4) // fills caches
		c.done, c.spent, c.cpu = 0, 0, 0
	}
	for b.Loop() {
		for _, c := range columns {
			round(c, rateRound)
		}
	}
	rate := func(c *column) float64 { return float64(c.done) / c.spent.Seconds() }
	cpu := func(c *column) float64 { return c.cpu.Seconds() * 1000 / float64(c.done) }
	off, on, watched := columns[0], columns[1], columns[2]
	b.ReportMetric(rate(off), "disabled/s")
	b.ReportMetric(rate(on), "enabled/s")
	b.ReportMetric(rate(on)/rate(off), "enabled/disabled")
	b.ReportMetric(rate(watched), "watched/s")
	b.ReportMetric(rate(watched)/rate(off), "watched/disabled")
	b.ReportMetric(cpu(off), "disabled-CPU-ms")
	b.ReportMetric(cpu(on), "enabled-CPU-ms")
	b.ReportMetric(0, "ns/op")
}

// watchObjects watches the objects of clusters, infra-envs and hosts until the benchmark ends.
func watchObjects(b *testing.B, address string) {
	for _, resource := range []string{"hive.openshift.io/v1/clusterdeployments",
		"extensions.hive.openshift.io/v1beta1/agentclusterinstalls",
		"agent-install.openshift.io/v1beta1/infraenvs", agentsResource} {
		watchResource(b, address, resource, func(*bufio.Reader) error { return nil })
	}
}

const agentsResource = "agent-install.openshift.io/v1beta1/agents"

// watchResource watches the objects of a resource until the benchmark ends. It calls read for each
// event.
func watchResource(b *testing.B, address, resource string, read func(*bufio.Reader) error) {
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/apis/"+resource+"?watch=1", nil)
	require.NoError(b, err)
	response := awaitStarted(b, request)
	ended := make(chan struct{})
	b.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		lines := bufio.NewReaderSize(response.Body, 1<<20)
		for err == nil {
			if err = read(lines); err == nil {
				_, err = lines.ReadSlice('\n')
				for errors.Is(err, bufio.ErrBufferFull) {
					_, err = lines.ReadSlice('\n')
				}
			}
		}
		if err = response.Body.Close(); err != nil {
			b.Log(err)
		}
	}()
}

// BenchmarkKubernetesReport measures the time from a report of an agent to the event that a client
// receives that watches Agents. The reports come one at a time, to an appliance without other load.
func BenchmarkKubernetesReport(b *testing.B) {
	s := newSite(b)
	s.config.Kubernetes.Enabled = true
	next := inventoryReplies(b, s)
	address, _ := s.startQuietly(b)
	seen := make(chan time.Time, 4096)
	watchResource(b, address, agentsResource, func(lines *bufio.Reader) error {
		_, err := lines.Peek(1)
		seen <- time.Now()
		return err
	})
	waitForRest(b)
	client := dial(b, address)
	var times, answered []time.Duration
	for serial := 0; b.Loop(); serial++ {
		for len(seen) > 0 {
			<-seen
		}
		r, start := next(serial), time.Now()
		status, answer, err := client.do(http.MethodPost, r.path, r.body)
		require.NoError(b, err)
		require.Equal(b, r.status, status, string(answer))
		answered = append(answered, time.Since(start))
		times = append(times, (<-seen).Sub(start))
		b.StopTimer()
		<-time.After(30 * time.Millisecond) // the controllers' events after the report
		b.StartTimer()
	}
	slices.Sort(times)
	slices.Sort(answered)
	b.ReportMetric(answered[len(answered)/2].Seconds()*1000, "answer-median-ms")
	b.ReportMetric(times[len(times)/2].Seconds()*1000, "median-ms")
	b.ReportMetric(times[len(times)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// awaitStarted repeats a request until the Kubernetes API has started.
func awaitStarted(b *testing.B, request *http.Request) *http.Response {
	for {
		response, err := http.DefaultClient.Do(request)
		require.NoError(b, err)
		if response.StatusCode == http.StatusOK {
			return response
		}
		require.Equal(b, http.StatusServiceUnavailable, response.StatusCode)
		require.NoError(b, response.Body.Close())
		<-time.After(10 * time.Millisecond)
	}
}

// waitForRest waits until the process needs little CPU time.
func waitForRest(b *testing.B) {
	const interval = 100 * time.Millisecond
	for before := cpuTime(b); ; {
		<-time.After(interval)
		now := cpuTime(b)
		if now-before < interval/10 {
			return
		}
		before = now
	}
}

func clusterCreations(_ *testing.B, s *site) func(int) request { return s.clusterCreation }

func infraEnvCreations(_ *testing.B, s *site) func(int) request {
	return func(serial int) request {
		body := fmt.Sprintf(`{"name":"env%d","openshift_version":%q,"pull_secret":%q}`, serial, s.release.Version,
			pullSecret)
		return request{apiPath + "/infra-envs", []byte(body), http.StatusCreated}
	}
}

func hostRegistrations(b *testing.B, s *site) func(int) request {
	seeded := s.seed(b, 64, 0)
	return func(serial int) request {
		env := seeded.pool
		if serial < 3*len(seeded.infraEnvs) {
			env = seeded.infraEnvs[serial/3]
		}
		return registration(env, uuid.NewString())
	}
}

func inventoryReplies(b *testing.B, s *site) func(int) request {
	return changedInventories(b, s.seed(b, 32, 3))
}
