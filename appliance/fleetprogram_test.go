//go:build etcd

package appliance_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openshift/assisted-service/client/events"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/etcdtest"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/simulate"
	"landfall/appliance/upgrade"
	"landfall/porttest"
	"landfall/randtest"
)

// fleetMachine is a machine with the built program.
type fleetMachine struct {
	name, program, config, dir, log, address string
	profiles                                 string // path of the socket
	process                                  *exec.Cmd
}

// fleetSite is a site with machines, an etcd, and a cluster whose hosts use the first machine.
type fleetSite struct {
	*site
	program string
	etcd    *etcdtest.Server
	in      *crashTest
	image   [sha256.Size]byte // of the first discovery image
}

func newFleetSite(t *testing.T, program string) *fleetSite {
	t.Helper()
	s := &fleetSite{site: newSite(t), program: program, etcd: etcdtest.Start(t, etcdtest.Options{})}
	s.config.TLS.Enabled = true
	return s
}

// machine returns another machine. It is not started.
func (s *fleetSite) machine(t *testing.T, name string) *fleetMachine {
	t.Helper()
	s.config.Listen, s.config.BootListen = porttest.Reserve(t), porttest.Reserve(t)
	s.config.DataDir = filepath.Join(t.TempDir(), name)
	if len(s.config.URL) == 0 {
		s.config.URL = []string{"https://" + s.config.Listen}
	}
	profiles := filepath.Join(t.TempDir(), "pprof.sock")
	return &fleetMachine{name: name, program: s.program, dir: s.config.DataDir, address: "http://" + s.config.Listen,
		profiles: profiles, log: filepath.Join(t.TempDir(), "log"), config: programConfig(t, s.site, map[string]any{
			"allowed_hosts": []string{name + ".site.test"},
			"url":           s.config.URL,
			"boot_listen":   s.config.BootListen,
			"fleet":         map[string]any{"takeover": "4s"},
			"timeouts":      map[string]any{"host_disconnected": "4s"},
			"profiling":     map[string]any{"socket": profiles}})}
}

// command returns a command of the program without the variables of the tests, which it refuses.
func (m *fleetMachine) command(arguments ...string) *exec.Cmd {
	cmd := exec.Command(m.program, arguments...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LANDFALL_") })
	return cmd
}

// start starts the appliance, and returns when it is ready.
func (m *fleetMachine) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	m.process = m.command("serve", "--config", m.config)
	m.process.Stdout, m.process.Stderr = log, log
	require.NoError(t, m.process.Start())
	t.Cleanup(func() {
		if m.process != nil {
			_ = m.process.Process.Kill()
			_ = m.process.Wait()
		}
		if text, err := os.ReadFile(m.log); t.Failed() && err == nil {
			t.Logf("the end of the log of machine %s:\n%s", m.name, text[max(0, len(text)-8<<10):])
		}
	})
	m.awaitReady(t)
}

func (m *fleetMachine) awaitReady(t *testing.T) {
	t.Helper()
	ready := upgrade.ReadyAt(m.address, http.DefaultClient)
	soon(t, m.name+" is ready", func() bool { return ready(t.Context()) == nil })
}

// end waits until the process has ended without an error.
func (m *fleetMachine) end(t *testing.T) {
	t.Helper()
	require.NoError(t, m.process.Wait())
	m.process = nil
}

func (m *fleetMachine) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, m.process.Process.Signal(syscall.SIGTERM))
	m.end(t)
}

// run runs a command against the machine, and returns its output.
func (m *fleetMachine) run(t *testing.T, arguments ...string) string {
	t.Helper()
	text, err := m.command(append(arguments, "--url", m.address)...).CombinedOutput()
	require.NoError(t, err, "%s: %s", arguments, text)
	return string(text)
}

func (m *fleetMachine) status(t *testing.T) *membership.Status {
	t.Helper()
	status := new(membership.Status)
	require.NoError(t, json.Unmarshal([]byte(m.run(t, "fleet", "status", "--json")), status))
	return status
}

// requireProfiles requires that the process serves profiles on the socket with which it started, if
// that is given. It returns the socket.
func (m *fleetMachine) requireProfiles(t *testing.T, started os.FileInfo) os.FileInfo {
	t.Helper()
	through := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.profiles)
	}}
	defer through.CloseIdleConnections()
	answer, err := (&http.Client{Transport: through}).Get("http://localhost/debug/pprof/goroutine?debug=1")
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	socket, err := os.Stat(m.profiles)
	require.NoError(t, err)
	if started != nil {
		require.True(t, os.SameFile(started, socket), "the socket was replaced")
	}
	return socket
}

// join makes the machine a member.
func (m *fleetMachine) join(t *testing.T, first *fleetMachine) {
	t.Helper()
	text, err := m.command("fleet", "join", first.address, "--data-dir", m.dir, "--name", m.name).CombinedOutput()
	require.NoError(t, err, "%s", text)
	m.start(t)
	require.False(t, m.status(t).Leader)
}

// install begins the installation of a cluster, and returns when a host writes its image to its
// disk. The function that it returns waits for the end, and checks that the appliance never took a
// host for silent.
func (s *fleetSite) install(t *testing.T, first *fleetMachine) (finish func()) {
	t.Helper()
	s.in = &crashTest{applianceProcess: &applianceProcess{address: first.address}, site: s.site, number: 1,
		copies: true}
	s.in.create(t)
	s.verifyImage(t, first)
	ctx, cancel := context.WithTimeout(t.Context(), installationLimit)
	t.Cleanup(cancel)
	groupEnded, operatorEnded := s.in.begin(ctx, 80)
	for writing := false; !writing; {
		select {
		case event := <-s.in.groupEvents:
			s.in.recordEvent(event)
			writing = event.Kind == simulate.EventStage && event.Stage == models.HostStageWritingImageToDisk
		case err := <-groupEnded:
			t.Fatalf("the installation ended before the fleet changed: %v", err)
		}
	}
	return func() {
		t.Logf("the fleet changed until the phase %v", s.in.phase.Load())
		require.NoError(t, <-operatorEnded)
		require.NoError(t, <-groupEnded)
		s.in.drain()
		s.in.verifyAnswers(t)
		s.verifyImage(t, first)
		listed, err := s.in.api.Events.V2ListEvents(t.Context(), &events.V2ListEventsParams{ClusterID: &s.in.clusterID})
		require.NoError(t, err)
		for _, event := range listed.Payload {
			require.NotContains(t, strings.ToLower(*event.Message), models.HostStatusDisconnected)
		}
	}
}

// verifyImage checks that a machine serves the image that was downloaded first.
func (s *fleetSite) verifyImage(t *testing.T, m *fleetMachine) {
	t.Helper()
	got, err := s.in.api.Installer.GetInfraEnvDownloadURL(t.Context(),
		&installer.GetInfraEnvDownloadURLParams{InfraEnvID: s.in.envID})
	require.NoError(t, err)
	address, err := url.Parse(*got.Payload.URL)
	require.NoError(t, err)
	sum := sha256.Sum256(fetched(t, m.address+address.RequestURI()))
	if s.image == [sha256.Size]byte{} {
		s.image = sum
	}
	require.Equal(t, s.image, sum, "the image of machine %s is another one", m.name)
}

// logIn returns the status of a login with a wrong password at a name of the machine. It repeats
// the login while the fleet has no leader, as on a busy machine.
func (m *fleetMachine) logIn(t *testing.T, name string) (status int) {
	t.Helper()
	soon(t, m.name+" has a leader", func() bool {
		status = m.logInOnce(t, name)
		return status != http.StatusServiceUnavailable
	})
	return status
}

func (m *fleetMachine) logInOnce(t *testing.T, name string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.address+"/api/landfall/v1/login",
		strings.NewReader(`{"name": "ana", "password": "wrong"}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Host = name
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// TestFleetProgram builds the program twice, with two versions, and uses its commands.
func TestFleetProgram(t *testing.T) {
	dir := t.TempDir()
	older := buildVersion(t, filepath.Join(dir, "landfall-1"), "fleet-1")
	newer := buildVersion(t, filepath.Join(dir, "landfall-2"), "fleet-2")
	t.Run("from one to three and back", func(t *testing.T) {
		t.Parallel()
		fromOneToThreeAndBack(t, newFleetSite(t, older))
	})
	t.Run("a fleet again", func(t *testing.T) {
		t.Parallel()
		makeFleetAgain(t, newFleetSite(t, older))
	})
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		upgradeMembers(t, newFleetSite(t, older), newer)
	})
}

// fromOneToThreeAndBack makes a fleet of a single machine during an installation, lets others join
// and lead, and ends the fleet.
func fromOneToThreeAndBack(t *testing.T, s *fleetSite) {
	one := s.machine(t, "one")
	one.start(t)
	users := newFleetUsers(t, randtest.New(t, 0), s.release.Version, one.address)
	finish := s.install(t, one)
	change := func(what func()) {
		what()
		users.nextHistory()
		s.verifyImage(t, one)
	}
	profiles := one.requireProfiles(t, nil)
	change(func() {
		one.run(t, "fleet", "init", "--etcd", s.etcd.URL(), "--name", "one")
		one.awaitReady(t)
		require.True(t, one.status(t).Leader)
		one.requireProfiles(t, profiles)
	})
	two, three := s.machine(t, "two"), s.machine(t, "three")
	change(func() { two.join(t, one) })
	change(func() { three.join(t, one) })
	s.verifyImage(t, two)
	require.Equal(t, http.StatusUnauthorized, two.logIn(t, "two.site.test"), "the leader does not know this name")
	require.Equal(t, http.StatusMisdirectedRequest, two.logIn(t, "evil.example.net"))
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("correct horse battery"), 0o600))
	reset := []string{"user", "reset", "ana", "--password-file", password, "--data-dir"}
	one.run(t, append(reset, one.dir)...)
	text, err := two.command(append(reset, two.dir, "--url", two.address)...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(text), "run landfall user reset on the machine of one")
	change(func() {
		one.stop(t)
		one.start(t)
		status := one.status(t)
		require.Len(t, status.Members, 3)
		require.False(t, status.Leader)
		profiles = one.requireProfiles(t, nil) // of a follower
	})
	leader, other := two, three
	if three.status(t).Leader {
		leader, other = three, two
	}
	change(func() {
		leader.run(t, "fleet", "leave", "--yes")
		leader.end(t)
	})
	change(func() {
		other.run(t, "fleet", "leave", "--yes")
		other.end(t)
	})
	change(func() {
		one.awaitReady(t)
		one.run(t, "fleet", "end", "--yes")
		s.etcd.Kill()
		one.awaitReady(t)
		one.requireProfiles(t, profiles)
	})
	finish()
	users.stop()
	users.verifyCreations(t, one.address)
	users.verifyHistories(t, 7)
	t.Log(users)
}

// makeFleetAgain ends a fleet in each way, and makes another one of the machine that went on.
func makeFleetAgain(t *testing.T, s *fleetSite) {
	one := s.machine(t, "one")
	one.start(t)
	secret := filepath.Join(t.TempDir(), "pull-secret")
	require.NoError(t, os.WriteFile(secret, []byte(pullSecret), 0o600))
	var want []string
	requireData := func(m *fleetMachine) {
		require.ElementsMatch(t, want, strings.Fields(m.run(t, "infra-env", "list", "-o", "jsonpath={[*].name}")))
	}
	for _, end := range []func(){
		func() {
			one.run(t, "fleet", "end", "--yes")
			one.awaitReady(t)
		},
		func() {
			one.stop(t) // etcd is lost for ever
			text, err := one.command("fleet", "end", "--yes", "--data-dir", one.dir).CombinedOutput()
			require.NoError(t, err, "%s", text)
			one.start(t)
			s.etcd = etcdtest.Start(t, etcdtest.Options{})
		},
		func() {},
	} {
		one.run(t, "fleet", "init", "--etcd", s.etcd.URL(), "--name", "one")
		one.awaitReady(t)
		two := s.machine(t, "two")
		two.join(t, one)
		for _, m := range []*fleetMachine{one, two} {
			name := fmt.Sprintf("rack-%d", len(want))
			m.run(t, "infra-env", "create", name, "--pull-secret-file", secret)
			want = append(want, name)
		}
		requireData(one)
		requireData(two)
		two.stop(t)
		end()
		requireData(one)
	}
}

// upgradeMembers replaces the program of the members one by one during an installation, that of the
// leader last.
func upgradeMembers(t *testing.T, s *fleetSite, newer string) {
	one, two, three := s.machine(t, "one"), s.machine(t, "two"), s.machine(t, "three")
	one.start(t)
	one.run(t, "fleet", "init", "--etcd", s.etcd.URL(), "--name", "one")
	one.awaitReady(t)
	two.join(t, one)
	three.join(t, one)
	users := newFleetUsers(t, randtest.New(t, 0), s.release.Version, one.address, two.address, three.address)
	finish := s.install(t, one)
	for i, m := range []*fleetMachine{three, two, one} {
		m.stop(t)
		m.program = newer
		m.start(t)
		users.nextHistory()
		versions := make(map[string]int)
		for _, member := range m.status(t).Members {
			versions[member.Version]++
		}
		require.Equal(t, i+1, versions["fleet-2"])
		require.Equal(t, 2-i, versions["fleet-1"])
		s.verifyImage(t, m)
	}
	finish()
	users.stop()
	for _, m := range []*fleetMachine{one, two, three} {
		users.verifyCreations(t, m.address)
	}
	users.verifyHistories(t, 3)
	t.Log(users)
}
