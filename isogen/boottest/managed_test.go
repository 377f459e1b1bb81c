//go:build boot

package boottest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
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

// managedSite is an appliance with its Kubernetes API, TLS and authentication, in a separate
// process, and a mirror with a release.
type managedSite struct {
	program   string
	address   string
	release   string
	authority string       // the file with the appliance's certificate authority
	contexts  string       // the configuration directory of the test's own logins
	token     string       // of a program with the role admin
	client    *http.Client // verifies the appliance
}

// newManagedSite starts an appliance with the live ISO at a path.
func newManagedSite(t *testing.T, iso string) *managedSite {
	t.Helper()
	mirror, err := registry.New(t.Context(), hostAddress+":0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mirror.Close()) })
	pushed, err := registry.PushPayload(t.Context(), mirror.Addr, registry.Payload{})
	require.NoError(t, err)

	port := freePort(t)
	_, registryPort, err := net.SplitHostPort(mirror.Addr)
	require.NoError(t, err)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s := &managedSite{program: builtProgram(t), release: pushed.Release,
		address: fmt.Sprintf("https://%s:%d", hostAddress, port), authority: filepath.Join(data, "ca.crt"),
		contexts: t.TempDir()}
	fill(t, "registries.conf", filepath.Join(dir, "registries.conf"),
		map[string]any{"Mirrors": []string{mirror.Addr, guestAddress + ":" + registryPort}})
	fill(t, "requirements.json", filepath.Join(dir, "requirements.json"), nil)
	config := filepath.Join(dir, "config.yaml")
	fill(t, "config.yaml", config, map[string]any{
		"Listen": fmt.Sprintf("%s:%d", hostAddress, port), "URLs": []string{s.guestURL(), s.address}, "ISO": iso,
		"Release": pushed.Release, "Version": pushed.Version,
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
	local := strings.Replace(s.address, "https://", "http://", 1)
	require.Eventually(t, func() bool {
		response, err := http.Get(local + "/readyz")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "the appliance did not start")
	s.setUp(t, filepath.Join(data, "setup-code"))
	return s
}

// guestURL is the appliance's URL in the emulator's network.
func (s *managedSite) guestURL() string {
	return strings.Replace(s.address, hostAddress, guestAddress, 1)
}

// setUp makes the first administrator with the setup code, and a token.
func (s *managedSite) setUp(t *testing.T, setupCode string) {
	t.Helper()
	certificate := read(t, s.authority)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certificate))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport}
	require.Equal(t, http.StatusUnauthorized, s.request(t, "/api/v1/namespaces").StatusCode)

	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("correct horse battery staple"), 0o600))
	s.landfall(t, "login", "--setup-code", setupCode, "--user", "ada", "--password-file", password)
	s.token = s.landfall(t, "token", "create", "boot-test", "--role", "admin")
}

// landfall runs a command of the product, and returns its output without the last line break. The
// command uses the site's token, once there is one.
func (s *managedSite) landfall(t *testing.T, args ...string) string {
	t.Helper()
	var errOut bytes.Buffer
	command := exec.CommandContext(t.Context(), s.program, args...)
	command.Env = append(os.Environ(), "LANDFALL_URL="+s.address, "LANDFALL_CA="+s.authority, "LANDFALL_TOKEN="+s.token,
		"XDG_CONFIG_HOME="+s.contexts)
	command.Stderr = &errOut
	out, err := command.Output()
	require.NoError(t, err, "landfall %s: %s%s", args[0], out, errOut.String())
	return strings.TrimSpace(string(out))
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
	s.landfall(t, "apply", "-f", manifests, "--wait", "--timeout", installLimit.String())
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
	response := s.request(t, path)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.NewDecoder(response.Body).Decode(into))
}

// request requests a path of the Kubernetes API with the site's token, once there is one.
func (s *managedSite) request(t *testing.T, path string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.address+path, nil)
	require.NoError(t, err)
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.client.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, response.Body.Close()) })
	return response
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
