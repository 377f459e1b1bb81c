package appliance_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/porttest"
)

// settling is the time that the first start has for the checks of the database's content.
const settling = 3 * time.Second

// idleFor is the duration of the idle measurement.
const idleFor = 10 * time.Second

// clockTicks is the number of units of CPU time in /proc per second; it is 100 on every
// architecture that Go supports.
const clockTicks = 100

// BenchmarkStart repeatedly starts the program on a database of 1,000 clusters and 3,000 hosts, and
// on one of more than 200 MB, because a start reads the whole database. It measures the time until
// a host's poll is answered, and the resources in use while the program idles.
func BenchmarkStart(b *testing.B) {
	b.Run("open", func(b *testing.B) { measureStart(b, newSite(b), 3) })
	b.Run("authenticated", func(b *testing.B) { measureStart(b, newSite(b).withAuth(), 3) })
	b.Run("large", func(b *testing.B) { measureStart(b, newSite(b), 4) })
}

func measureStart(b *testing.B, s *site, hostsEach int) {
	seeded := s.seed(b, 1000, hostsEach)
	// the same for all starts: another address would change all discovery images
	s.config.Listen = porttest.Reserve(b)
	program := buildProgram(b)
	built, err := os.Stat(program)
	require.NoError(b, err)
	// the first start checks all discovery images; later starts do not
	host := polled{hostRef: seeded.hosts[0]}
	first := s.exec(b, program, host)
	host.token = s.agentTokens(b, "http://"+s.config.Listen, seeded.hosts[:1])[host.infraEnv]
	<-time.After(settling)
	first.stop(b)
	var ready []time.Duration
	for b.Loop() {
		child := s.exec(b, program, host)
		ready = append(ready, child.ready)
		child.stop(b)
	}
	for len(ready) < 5 { // enough for a median
		child := s.exec(b, program, host)
		ready = append(ready, child.ready)
		child.stop(b)
	}
	slices.Sort(ready)
	idle := s.exec(b, program, host)
	before := idle.cpu(b)
	<-time.After(idleFor)
	b.ReportMetric((idle.cpu(b)-before).Seconds()*1000, "idle-CPU-ms")
	b.ReportMetric(float64(idle.status(b, "VmRSS"))/1024, "idle-RSS-MiB")
	b.ReportMetric(float64(idle.status(b, "RssAnon"))/1024, "idle-anonymous-MiB")
	idle.stop(b)
	b.ReportMetric(float64(ready[len(ready)/2].Microseconds())/1000, "ready-ms")
	b.ReportMetric(float64(ready[len(ready)-1].Microseconds())/1000, "ready-slowest-ms")
	b.ReportMetric(float64(built.Size())/1e6, "binary-MB")
	b.ReportMetric(float64(usedBytes(b, s.config.DataDir))/1e6, "database-MB")
	b.ReportMetric(0, "ns/op")
}

// child is the program in a process of its own.
type child struct {
	cmd   *exec.Cmd
	ready time.Duration // time from exec to the first response
}

// polled is the host that polls after the start. Without its token, the appliance may refuse it.
type polled struct {
	hostRef
	token string
}

// exec starts the program on the site's database and returns when a host's poll is answered.
func (s *site) exec(b *testing.B, program string, host polled) *child {
	address := s.config.Listen
	image, release := s.config.OSImages[0], s.config.ReleaseImages[0]
	cmd := exec.Command(program, "serve", "--allowed-hosts", "appliance", "--auth", s.config.Auth,
		"--tls-enabled="+strconv.FormatBool(s.config.TLS.Enabled), "--listen", address, "--data-dir", s.config.DataDir,
		"--mirror-idms-files", strings.Join(s.config.Mirror.IDMSFiles, ","),
		"--egress-allow", strings.Join(s.config.Egress.Allow, ","),
		"--os-images", fmt.Sprintf("[{openshift_version: %q, cpu_architecture: %s, path: %s, sha256: %s}]",
			image.OpenshiftVersion, image.CPUArchitecture, image.Path, image.SHA256),
		"--release-images", fmt.Sprintf("[{openshift_version: %q, cpu_architecture: %s, url: %s, default: true}]",
			release.OpenshiftVersion, release.CPUArchitecture, release.URL))
	var output strings.Builder
	cmd.Stderr = &output
	start := time.Now()
	require.NoError(b, cmd.Start())
	c := &child{cmd: cmd}
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			require.NoError(b, conn.Close())
			break
		}
		if time.Since(start) > 10*time.Second {
			c.stop(b)
			b.Fatalf("the program does not respond: %s", output.String())
		}
		<-ticks.C
	}
	connection := s.dial(b, "http://"+address)
	connection.token = host.token
	status, answer, err := connection.do(http.MethodGet, host.instructions(), nil)
	c.ready = time.Since(start)
	require.NoError(b, err, output.String())
	if s.config.Auth == config.AuthNone || host.token != "" {
		require.Equal(b, http.StatusOK, status, string(answer))
	}
	return c
}

// stop ends the program with SIGTERM.
func (c *child) stop(b *testing.B) {
	require.NoError(b, c.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(b, c.cmd.Wait())
}

// status returns a field of the process's status in KiB.
func (c *child) status(b *testing.B, name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	require.NoError(b, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			require.NoError(b, err)
			return kib
		}
	}
	b.Fatalf("/proc has no %s", name)
	return 0
}

// cpu returns the CPU time of the process in user and kernel mode, from fields 14 and 15 of
// /proc/<pid>/stat.
func (c *child) cpu(b *testing.B) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	require.NoError(b, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	total := 0
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		require.NoError(b, err)
		total += ticks
	}
	return time.Duration(total) * time.Second / clockTicks
}
