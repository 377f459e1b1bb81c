//go:build boot

package boottest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/simulate/redfish"
	"landfall/appliance/simulate/registry"
)

// installLimit is the maximum time of an installation. Without hardware acceleration, an
// installation usually takes half a minute.
const installLimit = 5 * time.Minute

// The address of the host, and the same host's address in the emulator's network.
const (
	hostAddress  = "127.0.0.1"
	guestAddress = "10.0.2.2"
)

// managedSite is an appliance with its Kubernetes API, in a separate process, and a mirror with a
// release.
type managedSite struct {
	program string
	address string
	release string
}

// newManagedSite starts an appliance with the live ISO at a path.
func newManagedSite(t *testing.T, iso string) *managedSite {
	t.Helper()
	mirror, err := registry.New(t.Context(), hostAddress+":0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mirror.Close()) })
	pushed, err := registry.PushPayload(t.Context(), mirror.Addr, registry.Payload{})
	require.NoError(t, err)

	s := &managedSite{program: builtProgram(t), release: pushed.Release}
	port := freePort(t)
	_, registryPort, err := net.SplitHostPort(mirror.Addr)
	require.NoError(t, err)
	s.address = fmt.Sprintf("http://%s:%d", hostAddress, port)
	dir := t.TempDir()
	fill(t, "registries.conf", filepath.Join(dir, "registries.conf"),
		map[string]any{"Mirrors": []string{mirror.Addr, guestAddress + ":" + registryPort}})
	fill(t, "requirements.json", filepath.Join(dir, "requirements.json"), nil)
	config := filepath.Join(dir, "config.yaml")
	fill(t, "config.yaml", config, map[string]any{
		"Listen": fmt.Sprintf("%s:%d", hostAddress, port), "URLs": []string{fmt.Sprintf("http://%s:%d", guestAddress,
			port), s.address}, "ISO": iso, "Release": pushed.Release, "Version": pushed.Version,
	})

	var log bytes.Buffer
	appliance := exec.CommandContext(t.Context(), s.program, "serve", "--config", config)
	appliance.Cancel, appliance.WaitDelay = func() error { return appliance.Process.Signal(os.Interrupt) }, time.Minute
	appliance.Stdout, appliance.Stderr = &log, &log
	require.NoError(t, appliance.Start())
	t.Cleanup(func() {
		ended := appliance.Wait() // the context of the test ended
		if t.Failed() {
			t.Logf("the appliance ended (%v):\n%s", ended, log.String())
		}
	})
	require.Eventually(t, func() bool {
		response, err := http.Get(s.address + "/readyz")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "the appliance did not start")
	return s
}

// builtProgram is the path of the product: LANDFALL_BIN, or bin/landfall of this checkout.
func builtProgram(t *testing.T) string {
	t.Helper()
	program := os.Getenv("LANDFALL_BIN")
	if program == "" {
		program = filepath.Join("..", "..", "bin", "landfall")
	}
	path, err := filepath.Abs(program)
	require.NoError(t, err)
	require.FileExists(t, path, "run make build, as `make test-boot` does")
	return path
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", hostAddress+":0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().(*net.TCPAddr).Port
}

// fill replaces the placeholders in a file of testdata and writes the result.
func fill(t *testing.T, name, path string, with any) {
	t.Helper()
	text, err := template.ParseFiles(filepath.Join("testdata", name))
	require.NoError(t, err)
	var filled bytes.Buffer
	require.NoError(t, text.Execute(&filled, with))
	require.NoError(t, os.WriteFile(path, filled.Bytes(), 0o600))
}

// install applies the manifests of a single-node cluster to a machine and waits until the cluster
// is installed.
func (s *managedSite) install(t *testing.T, m identity, bmc *redfish.BMC) {
	t.Helper()
	manifests := filepath.Join(t.TempDir(), "site.yaml")
	fill(t, "site.yaml", manifests, map[string]any{"Name": m.name, "MAC": m.mac, "BMC": "redfish-virtualmedia+" +
		bmc.URL(), "Release": s.release})
	defer func() {
		if t.Failed() {
			s.describe(t, m)
		}
	}()
	run(t, s.program, "apply", "--url", s.address, "-f", manifests, "--wait", "--timeout", installLimit.String())
}

// agent returns the only host in the namespace of a machine.
func (s *managedSite) agent(t *testing.T, m identity) *agentinstall.Agent {
	t.Helper()
	var agents struct{ Items []agentinstall.Agent }
	s.read(t, "/apis/agent-install.openshift.io/v1beta1/namespaces/"+m.name+"/agents", &agents)
	require.Len(t, agents.Items, 1)
	return &agents.Items[0]
}

// read reads objects from the Kubernetes API.
func (s *managedSite) read(t *testing.T, path string, into any) {
	t.Helper()
	response, err := http.Get(s.address + path)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.NewDecoder(response.Body).Decode(into))
	require.NoError(t, response.Body.Close())
}

// provisioning returns the provisioning state of a machine's BareMetalHost.
func (s *managedSite) provisioning(t *testing.T, m identity) string {
	t.Helper()
	var host struct {
		Status struct{ Provisioning struct{ State string } }
	}
	s.read(t, "/apis/metal3.io/v1alpha1/namespaces/"+m.name+"/baremetalhosts/"+m.name, &host)
	return host.Status.Provisioning.State
}

// describe logs the status of the objects in the namespace of a machine.
func (s *managedSite) describe(t *testing.T, m identity) {
	t.Helper()
	for _, resources := range []string{"agent-install.openshift.io/v1beta1 infraenvs",
		"agent-install.openshift.io/v1beta1 agents", "metal3.io/v1alpha1 baremetalhosts"} {
		group, plural, _ := strings.Cut(resources, " ")
		var list struct{ Items []struct{ Status any } }
		s.read(t, "/apis/"+group+"/namespaces/"+m.name+"/"+plural, &list)
		text, err := json.MarshalIndent(list.Items, "", " ")
		require.NoError(t, err)
		t.Logf("%s: %s", plural, text)
	}
}
