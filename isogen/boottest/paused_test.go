//go:build boot

package boottest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cavaliercoder/go-cpio"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/presence"
	"landfall/appliance/simulate"
	"landfall/appliance/simulate/registry"
)

// Times of the paused appliance: how long a host may be silent, and how long the machine is paused
// while its own clocks go on. A host may be silent for longer than the tolerance of the clock, as
// with the default, and than an emulated machine beside other work needs for a request.
const (
	silence = 6 * time.Second
	pause   = 3 * silence
)

// longPause returns how long the machine is paused while its clocks stand still. That is more than
// what the appliance tolerates as an inaccurate clock. The clock of the hardware has only whole
// seconds.
func longPause() time.Duration { return presence.ClockTolerance(silence) + 3*time.Second }

// appliancePort is the port of the appliance in its machine.
const appliancePort = "8090"

// applianceSystem runs the appliance. Like a time service, it sets the clock when the clock differs
// from the hardware's by more than two seconds.
const applianceSystem = initHead + `
load_modules
hostname localhost
network_up
mkdir -p /tmp
landfall serve --config /etc/landfall.yaml &
while kill -0 $!; do
    behind=$(($(cat /sys/class/rtc/rtc0/since_epoch) - $(date +%s)))
    if [ "$behind" -gt 2 ]; then
        hwclock --hctosys --utc
        echo "CLOCK SET BY $behind"
    fi
    sleep 1
done
poweroff -f
`

// TestInstallation_survivesPause pauses the machine of an appliance, twice, in the middle of an
// installation, for longer than a host may be silent. The emulator stops the machine, whose clock
// is set after that; and the emulator is stopped, and the clocks of the machine go on.
func TestInstallation_survivesPause(t *testing.T) {
	t.Parallel() // the test mostly waits
	s := newPausedSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	clusterID, envID := s.create(t)
	first, second := newMoment(), newMoment()
	group := &simulate.HostGroup{URL: s.address, InfraEnvID: envID, Count: 3, Speed: 400,
		Observer: func(event simulate.Event) {
			switch event.Stage {
			case models.HostStageWritingImageToDisk:
				first.hold(ctx)
			case models.HostStageConfiguring:
				second.hold(ctx)
			}
		}}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	s.await(t, clusterID, models.ClusterStatusReady)
	s.post(t, "/api/assisted-install/v2/clusters/"+clusterID+"/actions/install", nil, http.StatusAccepted)

	first.await(t, ctx)
	_, err := s.line.execute("stop", nil)
	require.NoError(t, err)
	first.pass(longPause())
	_, err = s.line.execute("cont", nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(string(read(t, s.console)), "CLOCK SET BY") },
		time.Minute, 50*time.Millisecond, "the clock of the machine was not behind")

	second.await(t, ctx)
	require.NoError(t, s.line.program.Process.Signal(syscall.SIGSTOP))
	second.pass(pause)
	require.NoError(t, s.line.program.Process.Signal(syscall.SIGCONT))

	require.NoError(t, <-ended)
	s.await(t, clusterID, models.ClusterStatusInstalled)
	found := regexp.MustCompile(`(?m)^landfall_interruptions_total (.+)$`).FindSubmatch(s.get(t, "/metrics"))
	require.NotNil(t, found, "the metric is missing")
	require.NotEqual(t, "0", string(found[1]), "the interruption was not noticed")
	var events []struct{ Name, Message, Severity string }
	require.NoError(t, json.Unmarshal(s.get(t, "/api/assisted-install/v2/events?cluster_id="+clusterID), &events))
	require.NotEmpty(t, events)
	for _, e := range events {
		require.NotContains(t, []string{"error", "critical"}, e.Severity, e.Message)
		require.NotContains(t, e.Message, "disconnected")
	}
}

// moment is a moment of an installation at which the machine is paused.
type moment struct {
	reached, paused chan struct{}
	once            sync.Once
}

func newMoment() *moment { return &moment{reached: make(chan struct{}), paused: make(chan struct{})} }

// hold holds the hosts until the machine is paused, so that the pause does not come too late.
func (m *moment) hold(ctx context.Context) {
	m.once.Do(func() { close(m.reached) })
	select {
	case <-m.paused:
	case <-ctx.Done():
	}
}

func (m *moment) await(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-m.reached:
	case <-ctx.Done():
		require.NoError(t, ctx.Err(), "the installation does not continue")
	}
}

// pass lets the hosts continue and returns after a time.
func (m *moment) pass(wait time.Duration) {
	close(m.paused)
	timer := time.NewTimer(wait)
	<-timer.C
}

// pausedSite is an appliance in an emulated machine, and a mirror with a release.
type pausedSite struct {
	address string // from outside of the machine
	version string // of the release
	console string
	line    *qmp
}

// newPausedSite starts the machine and returns when the appliance is ready.
func newPausedSite(t *testing.T) *pausedSite {
	t.Helper()
	_, err := exec.LookPath(qemuProgram)
	require.NoError(t, err, howToInstall)
	mirror, err := registry.New(t.Context(), hostAddress+":0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mirror.Close()) })
	pushed, err := registry.PushPayload(t.Context(), mirror.Addr, registry.Payload{})
	require.NoError(t, err)
	_, registryPort, err := net.SplitHostPort(mirror.Addr)
	require.NoError(t, err)
	forwarded := fmt.Sprintf("%s:%d", hostAddress, freePort(t))
	dir := t.TempDir()
	s := &pausedSite{address: "http://" + forwarded, version: pushed.Version, console: filepath.Join(dir, "console")}

	config, rules, iso := filepath.Join(dir, "landfall.yaml"), filepath.Join(dir, "registries.conf"),
		filepath.Join(dir, "live.iso")
	fill(t, "registries.conf", rules, map[string]any{"Mirrors": []string{mirror.Addr,
		guestAddress + ":" + registryPort}})
	fill(t, "paused.yaml", config, map[string]any{"Port": appliancePort, "URL": s.address, "Silence": silence,
		"Release": pushed.Release, "Version": pushed.Version})
	_, err = simulate.WriteBaseISO(iso, simulate.BaseISO{})
	require.NoError(t, err)
	initrd := filepath.Join(dir, "initrd")
	system := initramfs(t, applianceSystem)
	system = append(system, make([]byte, -len(system)&3)...) // the next archive is aligned
	require.NoError(t, os.WriteFile(initrd, append(system, archiveOf(t, map[string]string{
		"bin/landfall": builtProgram(t), "etc/landfall.yaml": config, "etc/registries.conf": rules,
		"etc/live.iso": iso})...), 0o600))
	s.boot(t, initrd, forwarded)
	require.Eventually(t, func() bool {
		response, err := http.Get(s.address + "/readyz")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, bootLimit, 50*time.Millisecond, "the appliance did not start")
	return s
}

// boot starts the machine without firmware. Its port of the appliance is forwarded.
func (s *pausedSite) boot(t *testing.T, initrd, forwarded string) {
	t.Helper()
	program := exec.Command(qemuProgram, "-M", "q35", "-accel", "tcg", "-cpu", processor, "-m", "1024", "-smp", "1",
		"-display", "none", "-monitor", "none", "-qmp", "stdio", "-no-reboot", "-serial", "file:"+s.console,
		"-kernel", filepath.Join(kernelDir(t), "vmlinuz"), "-initrd", initrd,
		"-append", "console=ttyS0,115200n8 quiet panic=-1 "+noTimerCheck,
		"-netdev", "user,id=net,hostfwd=tcp:"+forwarded+"-:"+appliancePort,
		"-device", "virtio-net-pci,netdev=net,romfile=")
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	program.Stderr = os.Stderr
	in, err := program.StdinPipe()
	require.NoError(t, err)
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	s.line = &qmp{program: program, in: in, replies: make(chan reply, 1)}
	ended := make(chan struct{})
	go func() {
		s.line.listen(out)
		close(ended)
	}()
	t.Cleanup(func() {
		require.NoError(t, program.Process.Kill())
		<-ended
		require.Error(t, program.Wait(), "it was killed")
		if t.Failed() {
			t.Logf("the console of the appliance:\n%s", read(t, s.console))
		}
	})
	_, err = s.line.execute("qmp_capabilities", nil)
	require.NoError(t, err)
}

// archiveOf returns an initramfs with files, by their names.
func archiveOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := cpio.NewWriter(&b)
	for name, path := range files {
		content := read(t, path)
		require.NoError(t, archive.WriteHeader(&cpio.Header{Name: name, Mode: cpio.ModeRegular | 0o755, Links: 1,
			Size: int64(len(content))}))
		_, err := archive.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	return b.Bytes()
}

// create makes a cluster and its infra-env.
func (s *pausedSite) create(t *testing.T) (clusterID, envID string) {
	t.Helper()
	const secret = `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`
	clusterID = s.post(t, "/api/assisted-install/v2/clusters", map[string]any{"name": "paused",
		"base_dns_domain": "site.test", "openshift_version": s.version, "pull_secret": secret,
		"api_vips":     []map[string]string{{"ip": "192.168.100.4"}},
		"ingress_vips": []map[string]string{{"ip": "192.168.100.5"}}}, http.StatusCreated)
	envID = s.post(t, "/api/assisted-install/v2/infra-envs", map[string]any{"name": "paused", "cluster_id": clusterID,
		"openshift_version": s.version, "pull_secret": secret}, http.StatusCreated)
	return clusterID, envID
}

// await waits until the cluster has a status.
func (s *pausedSite) await(t *testing.T, clusterID, status string) {
	t.Helper()
	var cluster models.Cluster
	require.Eventually(t, func() bool {
		cluster = models.Cluster{}
		return json.Unmarshal(s.get(t, "/api/assisted-install/v2/clusters/"+clusterID), &cluster) == nil &&
			*cluster.Status == status
	}, installLimit, 200*time.Millisecond, "the cluster is not %s: %+v", status, &cluster)
}

func (s *pausedSite) get(t *testing.T, path string) []byte {
	t.Helper()
	response, err := http.Get(s.address + path)
	require.NoError(t, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", answer)
	return answer
}

// post posts a body and returns the ID in the answer.
func (s *pausedSite) post(t *testing.T, path string, body any, code int) (id string) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	response, err := http.Post(s.address+path, "application/json", bytes.NewReader(text))
	require.NoError(t, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, code, response.StatusCode, "%s", answer)
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal(answer, &made))
	return made.ID
}
