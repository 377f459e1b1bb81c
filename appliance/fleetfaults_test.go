//go:build etcd

package appliance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/appliance/fleet"
	"landfall/appliance/fleet/etcdtest"
	"landfall/appliance/fleet/membership"
	"landfall/porttest"
	"landfall/randtest"
	"landfall/store"
	"landfall/web/console"
)

// These tests check the answers to clients of a fleet in which something is broken.

// reply is what a client gets.
type reply struct {
	status int
	after  string // the header Retry-After
	body   string
}

func ask(t *testing.T, method, url string, body any) (got reply) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(text))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return reply{answer.StatusCode, answer.Header.Get("Retry-After"), string(content)}
}

// addInfraEnv adds an infra-env through a member.
func (f *fleetTest) addInfraEnv(t *testing.T, through *fleetMember, name string) reply {
	t.Helper()
	return ask(t, http.MethodPost, through.address+infraEnvsPath, f.site.newInfraEnv(name))
}

// requireInfraEnvs requires that all members soon have certain infra-envs.
func (f *fleetTest) requireInfraEnvs(t *testing.T, names ...string) {
	t.Helper()
	for _, m := range f.members {
		var found []string
		soon(t, fmt.Sprintf("member %s has %v", m.name, names), func() bool {
			got := ask(t, http.MethodGet, m.address+infraEnvsPath, nil)
			var listed []struct{ Name string }
			if got.status != http.StatusOK || json.Unmarshal([]byte(got.body), &listed) != nil {
				return false
			}
			found = nil
			for _, one := range listed {
				found = append(found, one.Name)
			}
			slices.Sort(found)
			return slices.Equal(found, names)
		})
	}
}

// requireUnavailable requires an answer that lets a client try again.
func requireUnavailable(t *testing.T, got reply, sentence string) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
	require.NotEmpty(t, got.after, "the header Retry-After")
	require.Contains(t, got.body, sentence)
}

func same(*site) {}

func (f *fleetTest) followers(t *testing.T) (leader *fleetMember, followers []*fleetMember) {
	t.Helper()
	leader = f.leader(t)
	return leader, slices.DeleteFunc(slices.Clone(f.members), func(m *fleetMember) bool { return m == leader })
}

func TestFleetFaults_etcdIsAway(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader, followers := f.followers(t)
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "before").status)
	f.requireReads(t, leader)
	f.requireCaughtUp(t)
	f.requireMetrics(t, leader)
	f.server.Kill()
	requireUnavailable(t, f.addInfraEnv(t, leader, "unknown"), "")
	requireUnavailable(t, f.addInfraEnv(t, followers[0], "lost"), "the fleet has no leader now")
	f.requireInfraEnvs(t, "before") // from the copies
	for _, m := range []*fleetMember{leader, followers[0]} {
		f.requireReads(t, m)
		requireUnavailable(t, ask(t, http.MethodGet, m.address+console.BasePath+"/settings", nil), "no leader")
	}
	f.requireMetrics(t, nil)
	f.server.Run(t)
	f.leader(t)
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, followers[1], "later").status)
	f.requireInfraEnvs(t, "before", "later")
	f.stop(t)
}

// scrape returns the values that a member shows to Prometheus, by their names with labels. It
// returns none without an answer.
func (m *fleetMember) scrape(t *testing.T) map[string]string {
	t.Helper()
	values := make(map[string]string)
	answer, err := http.Get(m.address + console.MetricsPath)
	if err != nil {
		return values // it changes its role
	}
	text, err := io.ReadAll(answer.Body)
	if errors.Join(err, answer.Body.Close()) == nil && answer.StatusCode == http.StatusOK {
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			values[name] = value
		}
	}
	return values
}

// requireMetrics requires that each member soon shows metrics of its own, and who leads; nil:
// nobody, because etcd is away.
func (f *fleetTest) requireMetrics(t *testing.T, leader *fleetMember) {
	t.Helper()
	one := func(is bool) string {
		if is {
			return "1"
		}
		return "0"
	}
	starts := make(map[string]bool)
	for _, m := range f.members {
		want := map[string]string{
			"landfall_fleet_leads": one(m == leader), "landfall_fleet_has_leader": one(leader != nil),
			fmt.Sprintf("landfall_fleet_etcd_healthy{server=%q}", "http://"+m.line.Address): one(leader != nil),
		}
		for _, other := range f.members {
			label := fmt.Sprintf("{member=%q}", other.name)
			want["landfall_fleet_member_missing_records"+label] = "0"
			want["landfall_fleet_member_missing_contents"+label] = "0"
			want["landfall_fleet_member_connected"+label] = "1"
			if leader == nil {
				want["landfall_fleet_member_connected"+label] = "" // not known
			}
		}
		soon(t, m.name+" shows its metrics", func() bool {
			got := m.scrape(t)
			for name, value := range want {
				if got[name] != value {
					return false
				}
			}
			starts[got["process_start_time_seconds"]] = true
			return true
		})
	}
	require.Len(t, starts, len(f.members), "each member shows its own process")
}

// requireReads requires that a member soon answers reads of the only infra-env.
func (f *fleetTest) requireReads(t *testing.T, m *fleetMember) {
	t.Helper()
	soon(t, "the member lists the infra-env, and has its image", func() bool {
		var envs []struct{ ID, Name string }
		got := ask(t, http.MethodGet, m.address+infraEnvsPath, nil)
		return got.status == http.StatusOK && json.Unmarshal([]byte(got.body), &envs) == nil && len(envs) == 1 &&
			envs[0].Name == "before" && ask(t, http.MethodGet,
			m.address+"/byid/"+envs[0].ID+"/4.20/x86_64/full.iso", nil).status == http.StatusOK
	})
}

func TestFleetFaults_etcdIsSlow(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader, followers := f.followers(t)
	for i, m := range []*fleetMember{leader, followers[0]} {
		require.NoError(t, f.server.Stop())
		time.AfterFunc(500*time.Millisecond, func() { _ = f.server.Continue() })
		require.Equal(t, http.StatusCreated, f.addInfraEnv(t, m, fmt.Sprint(i)).status, "a change waits")
	}
	require.Equal(t, leader, f.leader(t))
	f.requireInfraEnvs(t, "0", "1")
	f.stop(t)
}

func TestFleetFaults_etcdIsFull(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same, "--quota-backend-bytes", "16000000")
	leader, followers := f.followers(t)
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "before").status)
	var err error
	for i := 0; err == nil; i++ {
		_, err = f.etcd.Put(t.Context(), fmt.Sprint("/others/", i), strings.Repeat("x", 900_000))
	}
	for _, m := range []*fleetMember{leader, followers[0]} {
		requireUnavailable(t, f.addInfraEnv(t, m, "refused"), "etcd has no space left")
		require.Equal(t, http.StatusOK, ask(t, http.MethodGet, m.address+infraEnvsPath, nil).status, "reads go on")
	}
	require.Equal(t, leader, f.leader(t), "the leader goes on")

	removed, err := f.etcd.Delete(t.Context(), "/others/", clientv3.WithPrefix())
	require.NoError(t, err)
	_, err = f.etcd.Compact(t.Context(), removed.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	soon(t, "etcd has space", func() bool { // it frees the space in the background
		_, err := f.etcd.Defragment(t.Context(), f.server.URL())
		require.NoError(t, err)
		_, err = f.etcd.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
		require.NoError(t, err)
		return f.addInfraEnv(t, followers[0], "later").status == http.StatusCreated
	})
	f.requireInfraEnvs(t, "before", "later")
	f.stop(t)
}

func TestFleetFaults_etcdIsCompactedByOthers(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader, followers := f.followers(t)
	var names []string
	for i := range 3 {
		followers[0].line.Cut()
		names = append(names, fmt.Sprint(i))
		require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, names[i]).status)
		head, err := f.etcd.Get(t.Context(), "/landfall/head")
		require.NoError(t, err)
		_, err = f.etcd.Compact(t.Context(), head.Header.Revision, clientv3.WithCompactPhysical())
		require.NoError(t, err)
		followers[0].line.Mend()
	}
	f.requireInfraEnvs(t, names...)
	f.requireCaughtUp(t)
	f.stop(t)
}

// requireCaughtUp requires that the copies of all members soon have all records.
func (f *fleetTest) requireCaughtUp(t *testing.T) {
	t.Helper()
	soon(t, "all members have all records", func() bool {
		status, err := f.leader(t).status()
		return err == nil && len(status.Members) == len(f.members) && !slices.ContainsFunc(status.Members,
			func(m membership.Member) bool { return m.Behind > 0 })
	})
}

// TestFleetFaults_etcdIsRestored restores an older snapshot of etcd, and then the newer data.
func TestFleetFaults_etcdIsRestored(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader := f.leader(t)
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "before").status)
	keep := func() (dir string) {
		f.server.Kill()
		dir = t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(f.server.DataDir)))
		return dir
	}
	restore := func(dir string) {
		require.NoError(t, os.RemoveAll(f.server.DataDir))
		require.NoError(t, os.CopyFS(f.server.DataDir, os.DirFS(dir)))
		require.NoError(t, os.Chmod(f.server.DataDir, 0o700))
	}
	older := keep()
	f.server.Run(t)
	leader = f.leader(t)
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "after").status)
	f.requireCaughtUp(t)
	newer := keep()
	restore(older)
	f.server.Run(t)
	for _, m := range f.members {
		require.Error(t, m.process.Wait(), "the process ends")
		m.process = nil
		require.Contains(t, m.tail(t), "etcd was restored from an older snapshot; restore a newer one")
	}
	f.server.Kill()
	restore(newer)
	f.server.Run(t)
	for _, m := range f.members {
		m.start(t)
	}
	f.requireInfraEnvs(t, "after", "before")
	f.stop(t)
}

// startFails starts a member that can't be one, and returns what it says.
func (m *fleetMember) startFails(t *testing.T) string {
	t.Helper()
	m.launch(t)
	require.Error(t, m.process.Wait())
	m.process = nil
	return m.tail(t)
}

// changeConfig changes a value below fleet in the configuration of a member.
func (m *fleetMember) changeConfig(t *testing.T, key string, value any) {
	t.Helper()
	text, err := os.ReadFile(m.config)
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(text, &config))
	config["Fleet"].(map[string]any)[key] = value
	text, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(m.config, text, 0o600))
}

func TestFleetFaults_etcdOfAnotherFleet(t *testing.T) {
	t.Parallel()
	f, other := newFleetTest(t, nil, same), newFleetTest(t, nil, same)
	_, followers := f.followers(t)
	m := followers[0]
	m.kill(t)
	m.changeConfig(t, "Etcd", []string{other.server.URL()})
	require.Contains(t, m.startFails(t), "correct fleet.etcd or fleet.prefix")
	m.changeConfig(t, "Etcd", []string{"http://" + m.line.Address})
	m.start(t)
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, m, "later").status)
	f.requireInfraEnvs(t, "later")
	f.stop(t)
	other.stop(t)
}

// TestFleetFaults_certificateOfAnother gives a member an authority that did not sign the
// certificate of etcd.
func TestFleetFaults_certificateOfAnother(t *testing.T) {
	t.Parallel()
	authority, another := etcdtest.NewAuthority(t), etcdtest.NewAuthority(t)
	later := time.Now().AddDate(0, 1, 0)
	cert, key := authority.Issue(t, "server", later)
	server := etcdtest.Start(t, etcdtest.Options{CertFile: cert, KeyFile: key, ClientCAFile: authority.CAFile})
	s := newSite(t)
	s.config.TLS.Enabled = true
	s.config.Fleet.Etcd, s.config.Fleet.Name = []string{server.URL()}, "one"
	s.config.Fleet.CertFile, s.config.Fleet.KeyFile = authority.Issue(t, "member", later)
	s.config.Fleet.CAFile, s.config.BootListen = another.CAFile, porttest.Reserve(t)
	m := &fleetMember{applianceProcess: newApplianceProcess(t, s), name: "one"}
	require.Contains(t, m.startFails(t), "check fleet.ca_file, fleet.cert_file and fleet.key_file")
	m.changeConfig(t, "CAFile", authority.CAFile)
	m.start(t)
	soon(t, "the member leads", func() bool {
		status, err := m.status()
		return err == nil && status.Leader
	})

	// The same error in a member of a fleet that exists: it waits, because etcd's may be mended.
	m.kill(t)
	m.changeConfig(t, "CAFile", another.CAFile)
	m.start(t)
	soon(t, "the log names the keys of the configuration", func() bool {
		return strings.Contains(m.tail(t), "check fleet.ca_file, fleet.cert_file and fleet.key_file")
	})
	requireUnavailable(t, ask(t, http.MethodPost, m.address+infraEnvsPath, s.newInfraEnv("lost")),
		"the fleet has no leader now")
	m.kill(t)
}

// TestFleetFaults_cutOffFromEtcd cuts the way of each member to etcd, but not to hosts.
func TestFleetFaults_cutOffFromEtcd(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader, followers := f.followers(t)
	m := followers[0]
	m.line.Cut()
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, m, "through a follower").status, "it knows the leader")
	f.requireForwardsReads(t, m, leader)
	m.line.Mend()
	f.requireCaughtUp(t)

	leader.line.Cut()
	next := f.leaderBesides(t, leader)
	f.leader(t)
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, next, "at the next leader").status)
	requireUnavailable(t, f.addInfraEnv(t, leader, "lost"), "the fleet has no leader now")
	leader.line.Mend()
	f.requireInfraEnvs(t, "at the leader", "at the next leader", "through a follower")
	f.stop(t)
}

// requireForwardsReads requires that a follower that has lost etcd still gives clients what the
// leader has, and not its copy.
func (f *fleetTest) requireForwardsReads(t *testing.T, m, leader *fleetMember) {
	t.Helper()
	soon(t, "etcd does not tell the member who leads", func() bool {
		text, err := os.ReadFile(m.log)
		return err == nil && strings.Contains(string(text), "It is not known which member leads.")
	})
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "at the leader").status)
	soon(t, "the member asks the leader whether it leads", func() bool {
		return strings.HasPrefix(ask(t, http.MethodGet, m.address+"/readyz", nil).body, "ok")
	})
	got := ask(t, http.MethodGet, m.address+infraEnvsPath, nil)
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, "at the leader")
}

// TestFleetFaults_cutOffFromMembers cuts the way of the other members to the leader, which etcd
// still reaches. It goes on leading while its own hosts reach it; the others say that they do not
// reach it. When no host reaches it, another member takes over.
func TestFleetFaults_cutOffFromMembers(t *testing.T) {
	t.Parallel()
	ways := make(map[string]*etcdtest.Line)
	f := newFleetTest(t, nil, same)
	for _, m := range f.members {
		ways[m.name] = etcdtest.NewLine(t, strings.TrimPrefix(m.address, "http://"))
		m.kill(t)
		m.changeConfig(t, "URL", "https://"+ways[m.name].Address)
		m.start(t)
	}
	leader, followers := f.followers(t)
	ways[leader.name].Cut()
	requireUnavailable(t, f.addInfraEnv(t, followers[0], "lost"), "")
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "at the leader").status)
	require.Equal(t, leader, f.leader(t))
	ways[leader.name].Mend()
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, followers[0], "later").status)

	ways[leader.name].Cut()
	soon(t, "another member takes over", func() bool {
		return f.addInfraEnv(t, followers[0], "at the next leader").status == http.StatusCreated
	})
	require.NotEqual(t, leader, f.leader(t))
	ways[leader.name].Mend()
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "through the former leader").status)
	f.requireInfraEnvs(t, "at the leader", "at the next leader", "later", "through the former leader")
	f.stop(t)
}

// TestFleetFaults_twoFleetsOnOnePrefix lets a second appliance make a fleet where one is.
func TestFleetFaults_twoFleetsOnOnePrefix(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	s := newSite(t)
	s.config.TLS.Enabled, s.config.BootListen = true, porttest.Reserve(t)
	s.config.Fleet.Etcd, s.config.Fleet.Name = []string{f.server.URL()}, "other"
	m := &fleetMember{applianceProcess: newApplianceProcess(t, s), name: "other"}
	require.Contains(t, m.startFails(t), "or choose another fleet.prefix")
	require.NoFileExists(t, filepath.Join(s.config.DataDir, "fleet.json"))
	m.changeConfig(t, "Prefix", "/other/")
	m.start(t)
	soon(t, "it leads its own fleet", func() bool {
		status, err := m.status()
		return err == nil && status.Leader
	})
	m.kill(t)
	f.stop(t)
}

// TestFleetFaults_damagedDatabase damages the database of a follower that is down.
func TestFleetFaults_damagedDatabase(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader, followers := f.followers(t)
	m := followers[0]
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "before").status)
	f.requireCaughtUp(t)
	for name, damage := range map[string]func(path string) error{
		"missing":   os.Remove,
		"cut off":   func(path string) error { return os.Truncate(path, 5000) },
		"zeros":     func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
		"not bbolt": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("text", 5000)), 0o600) },
	} {
		m.kill(t)
		require.NoError(t, damage(filepath.Join(m.dir, store.FileName)))
		m.start(t)
		f.requireCaughtUp(t)
		require.Equal(t, http.StatusCreated, f.addInfraEnv(t, m, "z "+name).status)
	}
	f.requireInfraEnvs(t, "before", "z cut off", "z missing", "z not bbolt", "z zeros")
	f.stop(t)
}

// TestFleetFaults_damagedAfterTheEnd damages the database of a leader that has ended the fleet and
// was killed before it got the answer of etcd. No other member has a snapshot for it.
func TestFleetFaults_damagedAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader := f.leader(t)
	f.stop(t)
	state, err := fleet.ReadState(leader.dir)
	require.NoError(t, err)
	_, err = f.etcd.Txn(t.Context()).Then(clientv3.OpDelete("/landfall/fleet"),
		clientv3.OpPut("/landfall/ended/"+state.Fleet, state.ID)).Commit()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(leader.dir, store.FileName), make([]byte, 1<<20), 0o600))
	require.Contains(t, leader.startFails(t), membership.ErrChanged.Error())
	state, err = fleet.ReadState(leader.dir)
	require.NoError(t, err)
	require.True(t, state.Ended)
}

// TestFleetFaults_diskOfLeaderIsFull fills the disk of the leader. Another member takes over.
func TestFleetFaults_diskOfLeaderIsFull(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	if os.Getenv(smallDisksEnv) == "limit" {
		t.Log("the members are other processes, which a limit of this one does not reach")
		return
	}
	f := newFleetTest(t, nil, same)
	leader := f.leader(t)
	leader.kill(t)
	kept := filepath.Join(t.TempDir(), "data")
	copyAll := func(from, to string) {
		require.NoError(t, exec.CommandContext(t.Context(), "cp", "-a", from, to).Run())
	}
	copyAll(leader.dir, kept)
	d := smallDisk(t, leader.dir, "64m")
	copyAll(kept+"/.", leader.dir)
	leader.start(t)
	soon(t, "the member with the small disk leads", func() bool {
		if elected := f.leader(t); elected != leader {
			elected.kill(t)
			f.resign(t)
			elected.start(t)
		}
		return f.leader(t) == leader
	})
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, leader, "before").status)
	d.fill(t, 0)
	users := newFleetUsers(t, randtest.New(t, 0), f.site.release.Version, f.addresses()...)
	next := f.leaderBesides(t, leader)
	f.leader(t)
	require.Equal(t, http.StatusCreated, f.addInfraEnv(t, next, "later").status)
	users.stop()
	users.verifyCreations(t, next.address)
	d.free(t)
	f.requireCaughtUp(t)
	users.verifyCreations(t, leader.address)
	f.stop(t)
}

// TestFleetFaults_pausedLeader pauses the leader while it has requests. When it wakes, it answers
// none of them with what it knew.
func TestFleetFaults_pausedLeader(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader := f.leader(t)
	var paths []string
	for _, name := range []string{"read", "written"} {
		made := f.addInfraEnv(t, leader, name)
		require.Equal(t, http.StatusCreated, made.status)
		var env infraEnvAnswer
		require.NoError(t, json.Unmarshal([]byte(made.body), &env))
		paths = append(paths, infraEnvsPath+"/"+env.ID)
	}
	read, written := leader.connect(t), leader.connect(t)
	leader.stop(t)
	body := `{"additional_ntp_sources": "late.test"}`
	fmt.Fprintf(read, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", paths[0])
	fmt.Fprintf(written, "PATCH %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", paths[1], len(body), body)
	next := f.leaderBesides(t, leader)
	soon(t, "the next leader changes the infra-env", func() bool {
		return ask(t, http.MethodPatch, next.address+paths[0], map[string]string{
			"additional_ntp_sources": "new.test"}).status == http.StatusCreated
	})
	require.NoError(t, leader.process.Process.Signal(syscall.SIGCONT))
	// A former leader may close its connections.
	if answer, err := io.ReadAll(read); err == nil && strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		require.Contains(t, string(answer), "new.test")
	}
	answer, err := io.ReadAll(written)
	f.requireCaughtUp(t)
	switch status, _, _ := strings.Cut(string(answer), "\r\n"); {
	case err == nil && strings.Contains(status, "201"):
		require.Contains(t, ask(t, http.MethodGet, next.address+paths[1], nil).body, "late.test")
	case err == nil && status != "":
		require.Contains(t, status, "503")
		require.Contains(t, string(answer), "Retry-After: ")
	}
	f.requireInfraEnvs(t, "read", "written")
	f.stop(t)
}

// connect opens a connection to the member, which accepts it.
func (m *fleetMember) connect(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(m.address, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A follower shows a change before the leader learns that etcd has it. A client that has seen the
// change there does not get an older value from the leader.
func TestFleetFaults_lateAnswersOfEtcd(t *testing.T) {
	t.Parallel()
	f := newFleetTest(t, nil, same)
	leader, followers := f.followers(t)
	var env infraEnvAnswer
	created := f.addInfraEnv(t, leader, "changed")
	require.NoError(t, json.Unmarshal([]byte(created.body), &env))
	users := &fleetUsers{http: &http.Client{}, refusals: make(map[string]int)}
	seen := new(uint64)
	read := func(through *fleetMember) (status int, value string) {
		var got infraEnvAnswer
		status, err := users.send(seen, http.MethodGet, through.address+infraEnvsPath+"/"+env.ID, nil, &got)
		require.NoError(t, err)
		return status, got.Value
	}
	for _, m := range f.members {
		status, value := read(m)
		require.Equal(t, http.StatusOK, status)
		require.Empty(t, value)
	}

	// While another change of the leader has no answer, this one waits: then it is repeated.
	changed := make(chan reply, 1)
	value := ""
	for attempt := 1; ; attempt++ {
		require.Less(t, attempt, 20)
		value = fmt.Sprintf("late-%d.test", attempt)
		leader.line.Silence(false, true)
		go func() {
			changed <- ask(t, http.MethodPatch, leader.address+infraEnvsPath+"/"+env.ID,
				map[string]string{"additional_ntp_sources": value})
		}()
		found := ""
		for end := time.Now().Add(time.Second); found != value && time.Now().Before(end); {
			_, found = read(followers[0])
		}
		if found == value {
			break
		}
		leader.line.Mend()
		require.Equal(t, http.StatusCreated, (<-changed).status)
	}
	answered := make(chan string, 1)
	go func() {
		_, found := read(leader)
		answered <- found
	}()
	select {
	case found := <-answered:
		require.Equal(t, value, found, "the leader answers without the change")
	case <-time.After(300 * time.Millisecond): // it waits
		leader.line.Mend()
		require.Equal(t, value, <-answered)
	}
	require.Equal(t, http.StatusCreated, (<-changed).status)
	f.stop(t)
}
