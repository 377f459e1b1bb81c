//go:build siteclients

package clienttest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
	"landfall/appliance/discovery"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/siteservice"
	"landfall/appliance/siteservice/namespacetest"
	"landfall/isogen"
	"landfall/logtest"
	"landfall/store"
)

// TestMain runs the tests in a network namespace of their own.
func TestMain(m *testing.M) { namespacetest.Main(m, "the services of the site with real clients") }

const (
	serverAddress = "192.0.2.10"
	// waitLimit is the maximum time for something that usually takes a few seconds.
	waitLimit = 2 * time.Minute
)

// site is a cable between the appliance's interface and the namespace of a client.
type site struct {
	near, far string // interfaces
	holder    *exec.Cmd
	db        *store.DB
	clock     *clockwork.FakeClock
	services  *siteservice.Manager
}

func command(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(arguments, " "), out)
	return string(out)
}

// newSite lays the cable and starts the appliance's services.
func newSite(t *testing.T, configured siteservice.Configured) *site {
	t.Helper()
	s := lay(t)
	s.start(t, configured)
	return s
}

// lay lays the cable.
func lay(t *testing.T) *site {
	t.Helper()
	for _, program := range []string{"udhcpc", "dig", "/usr/sbin/chronyd", "tftp", "/usr/sbin/dnsmasq"} {
		_, err := exec.LookPath(program)
		require.NoError(t, err, "run .ci/install-siteclients, as `make test` does")
	}
	command(t, "ip", "link", "set", "lo", "up")
	s := &site{near: "eth1", far: "far"}
	s.holder = exec.Command("unshare", "--net", "sleep", "infinity")
	s.holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, s.holder.Start())
	t.Cleanup(func() {
		require.NoError(t, s.holder.Process.Kill())
		require.Error(t, s.holder.Wait(), "it was killed")
	})
	ours, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", s.holder.Process.Pid))
		return err == nil && theirs != ours
	}, waitLimit, 10*time.Millisecond, "the client has no namespace of its own")
	command(t, "ip", "link", "add", s.near, "type", "veth", "peer", "name", s.far)
	t.Cleanup(func() { command0("ip", "link", "del", s.near) })
	command(t, "ip", "link", "set", s.far, "netns", strconv.Itoa(s.holder.Process.Pid))
	command(t, "ip", "address", "add", serverAddress+"/24", "dev", s.near)
	command(t, "ip", "link", "set", s.near, "up")
	s.client(t, "ip", "link", "set", s.far, "up")
	return s
}

// command0 runs a command whose failure does not matter, because the kernel has cleaned up already.
func command0(name string, arguments ...string) { _ = exec.Command(name, arguments...).Run() }

// start starts the appliance's services.
func (s *site) start(t *testing.T, configured siteservice.Configured) {
	t.Helper()
	var err error
	s.clock = clockwork.NewFakeClockAt(time.Now())
	s.db, err = store.Open(context.Background(), t.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	if configured.DHCP.Lease == 0 {
		configured.DHCP.Lease = time.Hour
	}
	s.services, err = siteservice.New(siteservice.Options{DB: s.db, Site: view.NewReader(s.db, nil, nil, nil),
		Configured: configured, Clock: s.clock, Logger: logtest.New(t, slog.LevelInfo),
		Images: bootFiles{},
		Servers: func() ([]*bmc.Server, error) {
			return []*bmc.Server{{Desired: bmc.Desired{BootMAC: bootMAC, InfraEnvID: infraEnv}}}, nil
		},
		CheckNetworkBoot: func(string, string) error { return nil },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.services.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// client runs a command in the namespace of the client and returns its output.
func (s *site) client(t *testing.T, arguments ...string) string {
	t.Helper()
	return command(t, "nsenter", append([]string{"-t", strconv.Itoa(s.holder.Process.Pid), "-n"}, arguments...)...)
}

// program starts a program in the namespace of the client. The returned function ends it.
func (s *site) program(t *testing.T, arguments ...string) (stop func()) {
	t.Helper()
	return here(t, append([]string{"nsenter", "-t", strconv.Itoa(s.holder.Process.Pid), "-n"}, arguments...)...)
}

// here starts a program. The returned function ends it.
func here(t *testing.T, arguments ...string) (stop func()) {
	t.Helper()
	program := exec.Command(arguments[0], arguments[1:]...)
	var out bytes.Buffer
	program.Stdout, program.Stderr, program.WaitDelay = &out, &out, time.Second
	require.NoError(t, program.Start())
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		require.NoError(t, program.Process.Kill(), "%s", &out)
		require.Error(t, program.Wait(), "it was killed")
	}
	t.Cleanup(stop)
	return stop
}

// status returns the status of a service.
func (s *site) status(service siteservice.Service) siteservice.Status {
	for _, status := range s.services.Statuses() {
		if status.Service == service {
			return status
		}
	}
	return siteservice.Status{}
}

// await waits until a service has a state. advance lets time pass for the service in the meantime.
func (s *site) await(t *testing.T, service siteservice.Service, state siteservice.State, advance time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool {
		if advance > 0 {
			s.clock.Advance(advance)
		}
		return s.status(service).State == state
	}, waitLimit, 100*time.Millisecond, "%s is not %s: %+v", service, state, s.status(service))
}

// addCluster stores the cluster berlin.
func (s *site) addCluster(t *testing.T) {
	t.Helper()
	id := strfmt.UUID(uuid.NewString())
	cluster := &record.Cluster{API: models.Cluster{ID: &id, Name: "berlin", BaseDNSDomain: "site.example",
		APIVips: []*models.APIVip{{IP: "192.0.2.5"}}, IngressVips: []*models.IngressVip{{IP: "192.0.2.6"}}}}
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return record.Clusters.Put(tx, id.String(), cluster)
	}))
}

// leaseScript prints what udhcpc has received.
func leaseScript(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lease")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n[ \"$1\" = bound ] && "+
		"echo \"BOUND $ip/$mask router $router dns $dns ntp $ntpsrv lease $lease server $serverid\"\nexit 0\n"), 0o700))
	return file
}

// The machine that boots, its infra-env, and its files.
const (
	bootMAC  = "52:54:00:00:00:07"
	bootPath = "52-54-00-00-00-07" // in the names of files
	infraEnv = "0b5e9c3e-5cb4-4d4f-8e0a-3f8f2f1c8a11"
)

// shim is a boot loader of several blocks.
func shim() []byte { return bytes.Repeat([]byte("shim"), 20_000) }

// bootFiles implements siteservice.Images.
type bootFiles struct{}

func (bootFiles) NetworkBoot(context.Context, string, netip.Addr) (discovery.BootURLs, error) {
	return discovery.BootURLs{HTTPBootURL: "http://192.0.2.10:8091/i/abc.iso",
		IPXEURL: "http://192.0.2.10:8091/i/abc.ipxe"}, nil
}

func (bootFiles) BootMenu(_ context.Context, infraEnvID, mac string, at netip.Addr) ([]byte, error) {
	return fmt.Appendf(nil, "menu of %s for %s at %s\n", infraEnvID, mac, at), nil
}

func (bootFiles) BootLoaders(context.Context, string) (*isogen.BootLoaders, error) {
	return &isogen.BootLoaders{First: "shimx64.efi", Files: map[string][]byte{"shimx64.efi": shim()}}, nil
}
