//go:build etcd

package appliance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/appliance/fleet"
	"landfall/appliance/fleet/etcdtest"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/simulate"
	"landfall/randtest"
	"landfall/web/console"
)

const (
	// fleetFaults is the number of faults of leaders during the installations.
	fleetFaults = 200
	// slowFaults of them make the others wait until a lease has ended, which takes seconds.
	slowFaults = 9
)

// fleetMember is a member in a process of its own, with a line of its own to etcd.
type fleetMember struct {
	*applianceProcess
	name string
	line *etcdtest.Line
}

// fleetTest is a fleet of three members.
type fleetTest struct {
	site    *site
	members []*fleetMember
	etcd    *clientv3.Client
	chance  *rand.Rand
	slow    int
}

// newFleetTest starts the first member, and lets two others join it.
func newFleetTest(t *testing.T, chance *rand.Rand) *fleetTest {
	t.Helper()
	server := etcdtest.Start(t, etcdtest.Options{})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.URL()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	f := &fleetTest{site: newSite(t), etcd: client, chance: chance}
	f.site.config.TLS.Enabled = true
	f.site.config.Fleet.Takeover = 4 * time.Second
	for _, name := range []string{"one", "two", "three"} {
		line := etcdtest.NewLine(t, server.Address)
		f.site.config.Fleet.Etcd, f.site.config.Fleet.Name = []string{"http://" + line.Address}, name
		f.site.config.DataDir = filepath.Join(t.TempDir(), "data")
		f.site.config.BootListen = freeAddress(t)
		member := &fleetMember{newApplianceProcess(t, f.site), name, line}
		if len(f.members) > 0 {
			f.join(t, f.site.config.DataDir, name)
		} else {
			f.useURL(t, member)
		}
		f.members = append(f.members, member)
		member.start(t)
		f.leader(t)
	}
	return f
}

// useURL gives all members the URL of the first one for hosts. Images contain it, so otherwise
// those of one infra-env would differ with the leader.
func (f *fleetTest) useURL(t *testing.T, first *fleetMember) {
	t.Helper()
	f.site.config.URL = []string{"https://" + f.site.config.Listen}
	text, err := json.Marshal(f.site.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(first.config, text, 0o600))
}

// join makes the data directory of a member, like landfall fleet join.
func (f *fleetTest) join(t *testing.T, dir, name string) {
	t.Helper()
	from := f.members[0].address
	var invitation membership.Invitation
	require.NoError(t, json.Unmarshal(fetched(t, from+console.FleetInvitationRoute), &invitation))
	snapshot := fetched(t, from+console.BackupRoute+"?key=true")
	require.NoError(t, membership.Unpack(t.Context(), strings.NewReader(string(snapshot)), dir, &fleet.State{
		Fleet: invitation.Fleet, Etcd: invitation.Etcd, Prefix: invitation.Prefix, Member: name}))
}

func fetched(t *testing.T, url string) []byte {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", url, text)
	return text
}

// leader waits until a member leads, and returns it.
func (f *fleetTest) leader(t *testing.T) *fleetMember {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for {
		for _, m := range f.members {
			var status membership.Status
			answer, err := http.Get(m.address + console.FleetRoute)
			if err != nil {
				continue
			}
			err = errors.Join(json.NewDecoder(answer.Body).Decode(&status), answer.Body.Close())
			if err != nil || status.Leading == "" {
				continue
			}
			for _, leading := range f.members {
				if leading.name == status.Leading {
					return leading
				}
			}
		}
		require.True(t, time.Now().Before(end), "no member leads")
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
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

// fault stops the leader in one of several ways.
func (f *fleetTest) fault(t *testing.T, byKind map[string]int) {
	t.Helper()
	leader := f.leader(t)
	kind := "kill"
	if f.slow < slowFaults && f.chance.IntN(fleetFaults/slowFaults) == 0 {
		f.slow++
		kind = []string{"stop", "cut", "kill and wait"}[f.slow%3]
	}
	byKind[kind]++
	switch kind {
	case "kill", "kill and wait":
		leader.kill(t)
		if kind == "kill" {
			f.resign(t)
		}
		f.site.config.Fleet.Name = leader.name
		leader.start(t)
	case "stop":
		leader.stop(t)
		f.leaderBesides(t, leader)
		require.NoError(t, leader.process.Process.Signal(syscall.SIGCONT))
	case "cut":
		leader.line.Cut()
		f.leaderBesides(t, leader)
		leader.line.Mend()
	}
}

// leaderBesides waits until another member leads.
func (f *fleetTest) leaderBesides(t *testing.T, former *fleetMember) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for {
		first, err := f.etcd.Get(t.Context(), "/landfall/leader/", clientv3.WithFirstCreate()...)
		require.NoError(t, err)
		if len(first.Kvs) > 0 && !strings.Contains(string(first.Kvs[0].Value), fmt.Sprintf("%q", former.name)) {
			return
		}
		require.True(t, time.Now().Before(end), "no other member leads")
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// writer creates infra-envs through all members, and remembers which were acknowledged.
type writer struct {
	addresses []string
	version   string

	mu    sync.Mutex
	acked map[string]string // ID of each by name
	sent  int
}

func (w *writer) run(ctx context.Context, t *testing.T) {
	for n := 0; ctx.Err() == nil; n++ {
		api := upstream(t, w.addresses[n%len(w.addresses)])
		name := fmt.Sprintf("written-%d", n)
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		created, err := api.Installer.RegisterInfraEnv(limited,
			&installer.RegisterInfraEnvParams{InfraenvCreateParams: &models.InfraEnvCreateParams{
				Name: conv.Pointer(name), PullSecret: conv.Pointer(pullSecret), OpenshiftVersion: w.version}})
		cancel()
		w.mu.Lock()
		w.sent++
		if err == nil {
			w.acked[name] = created.Payload.ID.String()
		}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// verify checks that each acknowledged infra-env is there, and that none is there twice.
func (w *writer) verify(t *testing.T, address string) {
	t.Helper()
	listed, err := upstream(t, address).Installer.ListInfraEnvs(t.Context(), &installer.ListInfraEnvsParams{})
	require.NoError(t, err)
	found := make(map[string]string)
	for _, env := range listed.Payload {
		require.NotContains(t, found, *env.Name, "it is there twice")
		found[*env.Name] = env.ID.String()
	}
	for name, id := range w.acked {
		require.Equal(t, id, found[name], "%s was acknowledged", name)
	}
}

// TestFleet_survivesEveryFault kills, pauses and cuts off the leaders of a fleet of three members
// at random times during installations. The hosts use the address of one member all the time.
func TestFleet_survivesEveryFault(t *testing.T) {
	chance := randtest.New(t, 0)
	f := newFleetTest(t, chance)
	t.Cleanup(func() {
		for _, m := range f.members {
			if t.Failed() {
				t.Logf("the end of the log of member %s:\n%s", m.name, m.tail(t))
			}
		}
	})
	w := &writer{version: f.site.release.Version, acked: map[string]string{}}
	for _, m := range f.members {
		w.addresses = append(w.addresses, m.address)
	}
	writing, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.run(writing, t) })
	byKind, faults := make(map[string]int), 0
	for number := 1; faults < fleetFaults; number++ {
		require.LessOrEqual(t, number, 30, "%v", byKind)
		in := &crashTest{applianceProcess: f.members[number%len(f.members)].applianceProcess, site: f.site,
			number: number, chance: chance}
		in.installOnFleet(t, func() { f.fault(t, byKind) })
		faults = 0
		for n := range maps.Values(byKind) {
			faults += n
		}
	}
	stop()
	running.Wait()
	f.leader(t)
	for _, m := range f.members {
		w.verify(t, m.address)
	}
	t.Logf("%d faults: %v; %d of %d writes were acknowledged", faults, byKind, len(w.acked), w.sent)
	for _, m := range f.members {
		m.kill(t)
	}
}

// installOnFleet installs a cluster. It calls fault at random times.
func (in *crashTest) installOnFleet(t *testing.T, fault func()) {
	t.Helper()
	in.create(t)
	ctx, cancel := context.WithTimeout(t.Context(), installationLimit)
	defer cancel()
	in.groupEvents, in.stages, in.steps = make(chan simulate.Event, 4096), make(map[string][]string),
		make(map[string]bool)
	group := &simulate.HostGroup{
		URL: in.address, InfraEnvID: in.envID.String(), Count: crashHosts, Speed: 600, Seed: uint64(in.number),
		Observer: func(event simulate.Event) { in.groupEvents <- event },
	}
	groupEnded, operatorEnded := make(chan error, 1), make(chan error, 1)
	go func() { groupEnded <- group.Run(ctx) }()
	go func() { operatorEnded <- in.runOperator(ctx) }()
	for !in.runUntilKill(t, groupEnded, operatorEnded) {
		fault()
	}
	require.NoError(t, <-operatorEnded)
	in.verifyAnswers(t)
}
