package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/porttest"
)

// BenchmarkScale runs the program as a process of its own with a site of hosts that behave like
// real ones. Each host polls once a minute and reports its connectivity with new latencies. Every
// tenth poll reports the inventory. One host in ten is a large server. Users read the lists all the
// time.
// In the first phase each inventory has changed. In the second phase the site idles, and
// inventories differ only in the disks' own readings. Time is compressed by a factor, and the CPU
// time is scaled back to real time. docs/performance.md explains each figure.
func BenchmarkScale(b *testing.B) {
	for _, size := range []struct{ clusters, hostsEach, factor int }{{300, 3, 12}, {1000, 10, 2}} {
		b.Run(fmt.Sprintf("hosts=%d", size.clusters*size.hostsEach), func(b *testing.B) {
			measureScale(b, size.clusters, size.hostsEach, size.factor)
		})
	}
}

// scaleMinutes is the number of simulated minutes of a measurement.
const scaleMinutes = 6

func measureScale(b *testing.B, clusters, hostsEach, factor int) {
	s := newSite(b)
	seeded := s.seed(b, clusters, hostsEach)
	s.config.Listen = porttest.Reserve(b)
	program := buildProgram(b)
	crowd := &crowd{seeded: seeded, hostsEach: hostsEach, factor: factor, address: "http://" + s.config.Listen,
		memory: make([]int64, len(seeded.hosts)), took: make(map[string][]time.Duration)}

	warm := s.exec(b, program, polled{hostRef: seeded.hosts[0]})
	crowd.run(b, 1, allReports) // every host reports everything once, large servers their whole inventory
	warm.stop(b)
	before := usedBytes(b, s.config.DataDir)

	child := s.exec(b, program, polled{hostRef: seeded.hosts[0]})
	crowd.run(b, 1, changedReports) // prepares each response once
	clear(crowd.took)
	idle, lived := child.cpu(b), time.Duration(0)
	for b.Loop() {
		crowd.run(b, scaleMinutes, changedReports)
		lived += scaleMinutes * time.Minute
	}
	b.ReportMetric(float64(child.ready.Microseconds())/1000, "ready-ms")
	b.ReportMetric((child.cpu(b)-idle).Seconds()/lived.Seconds(), "cores")
	b.ReportMetric(float64(child.status(b, "VmRSS"))/1024, "RSS-MiB")
	b.ReportMetric(float64(child.status(b, "RssAnon"))/1024, "anonymous-MiB")
	child.stop(b)
	grown := usedBytes(b, s.config.DataDir) - before
	b.ReportMetric(float64(grown)/1e6*float64(24*time.Hour)/float64(lived), "busy-MB/day")
	b.ReportMetric(float64(before)/1e6, "store-MB")
	for what, took := range crowd.took {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, what+"-p99-ms")
	}
	b.ReportMetric(float64(factor), "times-real")
	b.ReportMetric(float64(s.idleGrowth(b, program, crowd))/1e6*float64(24*time.Hour)/float64(scaleMinutes*time.Minute),
		"idle-MB/day")
	b.ReportMetric(0, "ns/op")
}

// idleGrowth returns the growth of the database in bytes during some idle minutes of the site.
func (s *site) idleGrowth(b *testing.B, program string, crowd *crowd) int64 {
	child := s.exec(b, program, polled{hostRef: crowd.seeded.hosts[0]})
	crowd.run(b, 1, unchangedReports) // the start itself writes, and hosts' clocks are checked
	child.stop(b)
	before := usedBytes(b, s.config.DataDir)
	child = s.exec(b, program, polled{hostRef: crowd.seeded.hosts[0]})
	crowd.run(b, scaleMinutes, unchangedReports)
	child.stop(b)
	return usedBytes(b, s.config.DataDir) - before
}

// buildProgram builds the program like the Makefile.
func buildProgram(b *testing.B) string {
	program := filepath.Join(b.TempDir(), "landfall")
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-trimpath", "-ldflags", "-s -w", "-o", program,
		"landfall")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(b, err, string(output))
	return program
}

// usedBytes returns the used bytes of a closed database.
func usedBytes(b *testing.B, dir string) int64 {
	path := filepath.Join(dir, "landfall.db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	info, err := os.Stat(path)
	require.NoError(b, err)
	var size int64
	require.NoError(b, db.View(func(tx *bolt.Tx) error {
		size = min(tx.Size(), info.Size()) - int64(db.Stats().FreePageN)*int64(db.Info().PageSize)
		return nil
	}))
	return size
}

// crowd holds the hosts of a site and the users who read its lists.
type crowd struct {
	seeded    *seeded
	hostsEach int
	factor    int
	address   string
	round     int
	memory    []int64 // usable memory in the last inventory of each host, in bytes

	mu   sync.Mutex
	took map[string][]time.Duration // latencies by kind of request
}

const crowdConnections = 16

// reportMode selects the reports of hosts.
type reportMode int

const (
	allReports       reportMode = iota // each host reports its inventory in each minute
	changedReports                     // every tenth poll reports a changed inventory
	unchangedReports                   // every tenth poll reports an inventory with changed disk temperatures only
)

// run simulates minutes in compressed time on a few connections. Each request is sent when it is
// due; the latency of a late request counts from the time at which it was due.
func (c *crowd) run(b *testing.B, minutes int, reportMode reportMode) {
	var running sync.WaitGroup
	start := time.Now()
	minute := time.Minute / time.Duration(c.factor)
	for client := range crowdConnections {
		running.Go(func() {
			rawClient := dial(b, c.address)
			for m := range minutes {
				for host := client; host < len(c.seeded.hosts); host += crowdConnections {
					due := start.Add(time.Duration(m)*minute +
						minute*time.Duration(host)/time.Duration(len(c.seeded.hosts)))
					<-time.After(time.Until(due))
					if err := c.reportMinute(b, rawClient, host, c.round+m, reportMode, due); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	running.Go(func() { c.readLists(b, start.Add(time.Duration(minutes)*minute)) })
	running.Wait()
	c.round += minutes
}

// reportMinute sends the requests of one host in one minute.
func (c *crowd) reportMinute(b *testing.B, rawClient *rawClient, host, round int, reportMode reportMode,
	due time.Time) error {
	at := c.seeded.hosts[host]
	path := at.instructions() + "?discovery_agent_version=agent&timestamp=" + fmt.Sprint(time.Now().Unix())
	if err := c.call(rawClient, "poll", http.MethodGet, path, nil, http.StatusOK, due); err != nil {
		return err
	}
	if err := c.call(rawClient, "connectivity", http.MethodPost, at.instructions(),
		c.connectivityReport(b, host, round),
		http.StatusNoContent, time.Now()); err != nil {
		return err
	}
	if reportMode != allReports && (host+round)%10 != 0 {
		return nil
	}
	what, smart := "inventory", 4
	if host%10 == 0 {
		what, smart = "big-inventory", 54
	}
	if reportMode != unchangedReports {
		c.memory[host] = reportedMemory + int64(round+1)<<20
	}
	inventory := inventoryWith(b, host, c.memory[host], smart)
	reply := stepReply(b, bytes.ReplaceAll(inventory, []byte(`temperature\":31`),
		fmt.Appendf(nil, `temperature\":%d`, 31+round%9)))
	return c.call(rawClient, what, http.MethodPost, at.instructions(), reply, http.StatusNoContent, time.Now())
}

func (c *crowd) call(rawClient *rawClient, what, method, path string, body []byte, wanted int, since time.Time) error {
	status, answer, err := rawClient.do(method, path, body)
	if err == nil && status != wanted {
		err = fmt.Errorf("%s: %s %s was answered %d: %s", what, method, path, status, answer)
	}
	took := time.Since(since)
	c.mu.Lock()
	c.took[what] = append(c.took[what], took)
	c.mu.Unlock()
	return err
}

// connectivityReport returns a host's report about the other hosts of its cluster. All round-trip
// times differ.
func (c *crowd) connectivityReport(b *testing.B, host, round int) []byte {
	report := models.ConnectivityReport{}
	first := host - host%c.hostsEach
	for other := first; other < first+c.hostsEach; other++ {
		if other == host {
			continue
		}
		address := fmt.Sprintf("192.168.100.%d", 10+other%240)
		report.RemoteHosts = append(report.RemoteHosts, &models.ConnectivityRemoteHost{
			HostID: strfmt.UUID(c.seeded.hosts[other].id),
			L2Connectivity: []*models.L2Connectivity{{OutgoingNic: "eno1", OutgoingIPAddress: "192.168.100.9",
				RemoteIPAddress: address, RemoteMac: fmt.Sprintf("52:54:00:%02x:%02x:00", other>>8&0xff, other&0xff),
				Successful: true}},
			L3Connectivity: []*models.L3Connectivity{{OutgoingNic: "eno1", RemoteIPAddress: address,
				AverageRTTMs: 0.2 + float64((host*7+other*13+round*31)%97)/1000, Successful: true}},
			MtuReport: []*models.MtuReport{{OutgoingNic: "eno1", RemoteIPAddress: address, MtuSuccessful: true}},
		})
	}
	output, err := json.Marshal(report)
	require.NoError(b, err)
	reply, err := json.Marshal(&models.StepReply{StepType: models.StepTypeConnectivityCheck,
		StepID: "connectivity-check-1", Output: string(output)})
	require.NoError(b, err)
	return reply
}

// readLists reads a list and a cluster every few seconds until the given time, like users with open
// pages.
func (c *crowd) readLists(b *testing.B, until time.Time) {
	rawClient := dial(b, c.address)
	ticker := time.NewTicker(3 * time.Second / time.Duration(c.factor) * 5)
	defer ticker.Stop()
	for n := 0; time.Now().Before(until); n++ {
		err := c.call(rawClient, "list-of-clusters", http.MethodGet, apiPath+"/clusters", nil, http.StatusOK,
			time.Now())
		env := c.seeded.infraEnvs[n%len(c.seeded.infraEnvs)]
		if err == nil {
			err = c.call(rawClient, "list-of-hosts", http.MethodGet, apiPath+"/infra-envs/"+env+"/hosts", nil,
				http.StatusOK,
				time.Now())
		}
		if err != nil {
			b.Error(err)
			return
		}
		<-ticker.C
	}
}

// BenchmarkLists reads the list of 600 clusters, and the 300 hosts of an infra-env with inventories
// of 22 KB and of 4 KB.
func BenchmarkLists(b *testing.B) {
	s := newSite(b)
	seeded := s.seed(b, 600, 1)
	address, _ := s.startQuietly(b)
	read := func(b *testing.B, path string) {
		rawClient := dial(b, address)
		var took []time.Duration
		size := 0
		for b.Loop() {
			began := time.Now()
			status, answer, err := rawClient.do(http.MethodGet, path, nil)
			took = append(took, time.Since(began))
			require.NoError(b, err)
			require.Equal(b, http.StatusOK, status)
			size = len(answer)
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(size)/1e6, "MB")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("clusters=600", func(b *testing.B) { read(b, apiPath+"/clusters") })
	for _, inventory := range []struct {
		name string
		of   func(number int) []byte
	}{
		{"22KB", func(number int) []byte { return inventoryOf(b, number, reportedMemory) }},
		{"4KB", func(number int) []byte { return smallInventory(b, number) }},
	} {
		env := seeded.pool
		rawClient := dial(b, address)
		for n := range 300 {
			host := hostRef{env, fmt.Sprintf("00000000-0000-4000-8000-%012d", n)}
			for _, r := range []request{registration(env, host.id), {host.instructions(), stepReply(b, inventory.of(n)),
				http.StatusNoContent}} {
				status, answer, err := rawClient.do(http.MethodPost, r.path, r.body)
				require.NoError(b, err)
				require.Equal(b, r.status, status, string(answer))
			}
		}
		b.Run("hosts=300/inventory="+inventory.name, func(b *testing.B) {
			read(b, apiPath+"/infra-envs/"+env+
				"/hosts")
		})
	}
}

// smallInventory returns the inventory of a virtual machine, 4 KB.
func smallInventory(tb testing.TB, number int) []byte {
	var inventory models.Inventory
	require.NoError(tb, json.Unmarshal(inventoryOf(tb, number, reportedMemory), &inventory))
	inventory.Disks, inventory.Interfaces = inventory.Disks[:1], inventory.Interfaces[:2]
	text, err := json.Marshal(&inventory)
	require.NoError(tb, err)
	return text
}

// BenchmarkOneChange measures sequential changes by one client on sites of 10 to 10,000 hosts. The
// cost of a change must not depend on the size of the site.
func BenchmarkOneChange(b *testing.B) {
	for _, hosts := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) { measureChanges(b, hosts) })
	}
}

func measureChanges(b *testing.B, hosts int) {
	s := newSite(b)
	seeded := s.seed(b, max(hosts/10, 1), 10)
	address, _ := s.startQuietly(b)
	rawClient := dial(b, address)
	change := func(name string, method string, wanted int, next func(serial int) (string, []byte)) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			serial := 0
			for b.Loop() {
				path, body := next(serial)
				began := time.Now()
				status, answer, err := rawClient.do(method, path, body)
				took = append(took, time.Since(began))
				require.NoError(b, err)
				require.Equal(b, wanted, status, string(answer))
				serial++
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
	reply := stepReply(b, inventoryOf(b, 0, reportedMemory))
	change("inventory", http.MethodPost, http.StatusNoContent, func(serial int) (string, []byte) {
		memory := fmt.Appendf(nil, "%d", reportedMemory+int64(serial+1)<<20)
		return seeded.hosts[0].instructions(), bytes.Replace(reply, fmt.Appendf(nil, "%d", reportedMemory), memory, 1)
	})
	_, answer, err := rawClient.do(http.MethodGet, apiPath+"/infra-envs/"+seeded.infraEnvs[0], nil)
	require.NoError(b, err)
	var env models.InfraEnv
	require.NoError(b, json.Unmarshal(answer, &env))
	change("patch", http.MethodPatch, http.StatusCreated, func(serial int) (string, []byte) {
		return apiPath + "/clusters/" + env.ClusterID.String(), fmt.Appendf(nil,
			`{"additional_ntp_source":"ntp%d.site.test"}`, serial)
	})
}
