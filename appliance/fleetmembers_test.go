//go:build etcd

package appliance_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/appliance/ams"
	"landfall/appliance/ams/amstest"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/etcdtest"
	"landfall/appliance/fleet/membership"
	"landfall/porttest"
	"landfall/web/console"
)

// fleetMember is a member in a process of its own, with a line of its own to etcd, or nil.
type fleetMember struct {
	*applianceProcess
	name string
	dir  string // its data directory
	line *etcdtest.Line

	boot       string // address of its boot listener
	registry   string // address of its registry; "": it has none
	kubernetes string // address of its listener for the Kubernetes API; "": it has none of its own
}

// fleetTest is a fleet of three members.
type fleetTest struct {
	site    *site
	server  *etcdtest.Server
	members []*fleetMember
	etcd    *clientv3.Client
	chance  *rand.Rand
	direct  bool // the members have no lines of their own to etcd, which cost time
}

// newFleetTest starts the first member, and lets two others join it. change changes their
// configuration. arguments are further arguments of etcd.
func newFleetTest(t *testing.T, chance *rand.Rand, change func(*site), arguments ...string) *fleetTest {
	t.Helper()
	s := newSite(t)
	s.config.Fleet.Takeover = 4 * time.Second
	change(s)
	f := &fleetTest{site: s, server: etcdtest.Start(t, etcdtest.Options{Arguments: arguments}), chance: chance}
	f.start(t, func() {})
	return f
}

// start starts the first member on data that fill writes, and lets two others join it.
func (f *fleetTest) start(t testing.TB, fill func()) {
	t.Helper()
	var err error
	f.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{f.server.URL()}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.etcd.Close())
		for _, m := range f.members {
			if t.Failed() {
				t.Logf("the end of the log of member %s:\n%s", m.name, m.tail(t))
			}
		}
	})
	f.site.config.TLS.Enabled = true
	for _, name := range []string{"one", "two", "three"} {
		f.add(t, name, fill)
	}
}

// add starts another member. If it is the first one, fill writes its data.
func (f *fleetTest) add(t testing.TB, name string, fill func()) {
	t.Helper()
	address, line := f.server.Address, (*etcdtest.Line)(nil)
	if !f.direct {
		line = etcdtest.NewLine(t, address)
		address = line.Address
	}
	config := &f.site.config
	config.Fleet.Etcd, config.Fleet.Name = []string{"http://" + address}, name
	config.DataDir = filepath.Join(t.TempDir(), "data")
	config.BootListen = porttest.Reserve(t)
	if config.Registry.Listen != "" {
		config.Registry.Listen = porttest.Reserve(t)
	}
	if config.Kubernetes.Listen != "" {
		config.Kubernetes.Listen = porttest.Reserve(t)
	}
	m := &fleetMember{newApplianceProcess(t, f.site), name, config.DataDir, line, config.BootListen,
		config.Registry.Listen, config.Kubernetes.Listen}
	if len(f.members) > 0 {
		f.join(t, m)
	} else {
		f.useURL(t, m)
		fill()
	}
	f.members = append(f.members, m)
	m.start(t)
	f.leader(t)
}

// useURL gives all members the URL of the first one for hosts. Images contain it, so otherwise
// those of one infra-env would differ with the leader.
func (f *fleetTest) useURL(t testing.TB, first *fleetMember) {
	t.Helper()
	f.site.config.URL = []string{"https://" + f.site.config.Listen}
	text, err := json.Marshal(f.site.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(first.config, text, 0o600))
}

// join makes the data directory of a member, like landfall fleet join.
func (f *fleetTest) join(t testing.TB, m *fleetMember) {
	t.Helper()
	from := f.members[0].address
	var invitation membership.Invitation
	require.NoError(t, json.Unmarshal(fetched(t, from+console.FleetInvitationRoute), &invitation))
	snapshot := fetched(t, from+console.BackupRoute+"?key=true")
	require.NoError(t, membership.Unpack(t.Context(), strings.NewReader(string(snapshot)), m.dir, &fleet.State{
		Fleet: invitation.Fleet, Etcd: invitation.Etcd, Prefix: invitation.Prefix, Member: m.name}))
}

func fetched(t testing.TB, url string) []byte {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", url, text)
	return text
}

// soon waits until a fleet is in a state. It calls reached in the goroutine of the test.
func soon(t testing.TB, what string, reached func() bool) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for !reached() {
		require.True(t, time.Now().Before(end), "not reached: %s", what)
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// elected returns the member that etcd has elected, or nil.
func (f *fleetTest) elected(t testing.TB) *fleetMember {
	t.Helper()
	first, err := f.etcd.Get(t.Context(), "/landfall/leader/", clientv3.WithFirstCreate()...)
	require.NoError(t, err)
	for _, kv := range first.Kvs {
		for _, m := range f.members {
			if strings.Contains(string(kv.Value), fmt.Sprintf("%q", m.name)) {
				return m
			}
		}
	}
	return nil
}

// status returns what a member says about the fleet.
func (m *fleetMember) status() (*membership.Status, error) {
	answer, err := http.Get(m.address + console.FleetRoute)
	if err != nil {
		return nil, err
	}
	status := new(membership.Status)
	return status, errors.Join(json.NewDecoder(answer.Body).Decode(status), answer.Body.Close())
}

// leader waits until a member leads and answers, and returns it.
func (f *fleetTest) leader(t testing.TB) (leader *fleetMember) {
	t.Helper()
	soon(t, "a member leads", func() bool {
		if leader = f.elected(t); leader == nil {
			return false
		}
		status, err := leader.status()
		return err == nil && status.Leading == leader.name
	})
	return leader
}

// leaderBesides waits until another member was elected, and returns it.
func (f *fleetTest) leaderBesides(t testing.TB, former *fleetMember) (leader *fleetMember) {
	t.Helper()
	soon(t, "another member than "+former.name+" leads", func() bool {
		leader = f.elected(t)
		return leader != nil && leader != former
	})
	return leader
}

// addresses returns the addresses of all members.
func (f *fleetTest) addresses() (addresses []string) {
	for _, m := range f.members {
		addresses = append(addresses, m.address)
	}
	return addresses
}

// resign removes the candidate that leads, as the end of its lease does. The process must be dead.
func (f *fleetTest) resign(t *testing.T) {
	t.Helper()
	first, err := f.etcd.Get(t.Context(), "/landfall/leader/", clientv3.WithFirstCreate()...)
	require.NoError(t, err)
	if len(first.Kvs) > 0 {
		_, err = f.etcd.Delete(t.Context(), string(first.Kvs[0].Key))
		require.NoError(t, err)
	}
}

// stop kills all members.
func (f *fleetTest) stop(t *testing.T) {
	t.Helper()
	for _, m := range f.members {
		m.kill(t)
	}
}

// amsOfFleet is a test server of AMS.
type amsOfFleet struct {
	*amstest.Server
	url       string
	authority string // path of a file
}

// newAMS runs a test server of AMS, and returns the token of its account.
func newAMS(t *testing.T) (service *amsOfFleet, offlineToken string) {
	t.Helper()
	service = &amsOfFleet{Server: amstest.New(clockwork.NewRealClock()), authority: filepath.Join(t.TempDir(),
		"ams.pem")}
	service.RepeatMakesAnother = true // so that a creation that is repeated is seen
	offlineToken = service.AddAccount(amstest.Account{ID: "2GOuAccount", Username: "site", Organization: "2GOuOurs",
		OrganizationName: "Ours"})
	server := httptest.NewTLSServer(service)
	t.Cleanup(server.Close)
	service.url = server.URL
	require.NoError(t, os.WriteFile(service.authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}), 0o600))
	return service, offlineToken
}

// use makes an appliance report to the server.
func (s *amsOfFleet) use(by *site) {
	c := &by.config.AMS
	c.URL, c.TokenURL, c.CABundle, c.Connect, c.CallInterval = s.url, s.url+amstest.TokenPath, s.authority,
		"automatic", time.Millisecond
}

// logIntoAMS gives the fleet the token of an account.
func (f *fleetTest) logIntoAMS(t *testing.T, offlineToken string) {
	t.Helper()
	body, err := json.Marshal(ams.Secret{OfflineToken: offlineToken})
	require.NoError(t, err)
	answer, err := http.Post(f.members[0].address+console.AMSPath+"/credentials", "application/json",
		strings.NewReader(string(body)))
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
}

// active reports whether the rows of all clusters are active.
func (s *amsOfFleet) active(clusters []string) bool {
	statuses := make(map[any]any)
	for _, row := range s.Rows() {
		statuses[row["cluster_id"]] = row["status"]
	}
	return !slices.ContainsFunc(clusters, func(id string) bool { return statuses[id] != "Active" })
}

// verify checks that AMS has each cluster once, and that it got the reports in order.
func (s *amsOfFleet) verify(t *testing.T) {
	t.Helper()
	known := make(map[any]bool)
	for _, row := range s.Rows() {
		require.NotContains(t, known, row["cluster_id"], "AMS has a cluster twice")
		known[row["cluster_id"]] = true
	}
	require.Empty(t, s.WrongDeletes())
	active := make(map[string]bool)
	for _, update := range s.Requests("update") {
		var sent struct{ Status string }
		require.NoError(t, json.Unmarshal(update.Body, &sent))
		active[update.Path] = active[update.Path] || sent.Status == "Active"
		if active[update.Path] {
			require.Contains(t, []string{"Active", ""}, sent.Status, "an earlier report came after a later one")
		}
	}
}
