//go:build etcd

package appliance_test

import (
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/randtest"
)

const (
	// fleetFaults is the number of faults of leaders during the installations. Some more hit
	// followers.
	fleetFaults = 200
	// slowFaults of them make the others wait until a lease has ended, which takes seconds.
	slowFaults = 9
)

// faultyFleet is a fleet whose members are disturbed.
type faultyFleet struct {
	*fleetTest
	slow   int
	byKind map[string]int
}

// leaders returns the number of faults that hit a leader.
func (f *faultyFleet) leaders() (faults int) {
	for kind, n := range f.byKind {
		if kind != "follower" {
			faults += n
		}
	}
	return faults
}

// fault stops the leader in one of several ways, or kills a follower.
func (f *faultyFleet) fault(t *testing.T) {
	leader := f.leader(t)
	kind := "kill"
	switch {
	case f.slow < slowFaults && f.chance.IntN(fleetFaults/slowFaults) == 0:
		f.slow++
		kind = []string{"stop", "cut", "kill and wait"}[f.slow%3]
	case f.chance.IntN(10) == 0:
		kind = "follower"
	}
	f.byKind[kind]++
	switch kind {
	case "follower":
		others := slices.DeleteFunc(slices.Clone(f.members), func(m *fleetMember) bool { return m == leader })
		f.restart(t, others[f.chance.IntN(len(others))], func() {})
	case "kill":
		f.restart(t, leader, func() { f.resign(t) })
	case "kill and wait":
		f.restart(t, leader, func() {})
	case "stop":
		leader.awaitReady(t)
		leader.stop(t)
		f.leaderBesides(t, leader)
		require.NoError(t, leader.process.Process.Signal(syscall.SIGCONT))
	case "cut":
		leader.line.Cut()
		f.leaderBesides(t, leader)
		leader.line.Mend()
	}
}

// restart kills a member and starts it again. It does not wait until the member listens.
func (f *faultyFleet) restart(t *testing.T, m *fleetMember, killed func()) {
	m.awaitReady(t)
	m.kill(t)
	killed()
	m.launch(t)
}

// TestFleet_survivesEveryFault kills, pauses and cuts off the leaders of a fleet of three members
// at random times during installations. The hosts of a cluster use the address of one member all
// the time. Meanwhile clients create, change and read infra-envs through all members.
func TestFleet_survivesEveryFault(t *testing.T) {
	chance := randtest.New(t, 0)
	f := &faultyFleet{byKind: make(map[string]int)}
	service, offlineToken := newAMS(t)
	f.fleetTest = newFleetTest(t, chance, service.use)
	f.logIntoAMS(t, offlineToken)
	users := newFleetUsers(t, chance, f.site.release.Version, f.addresses()...)
	var installed []string
	for number := 1; f.leaders() < fleetFaults; number++ {
		require.LessOrEqual(t, number, 60, "%v", f.byKind)
		in := &crashTest{applianceProcess: f.members[number%len(f.members)].applianceProcess, site: f.site,
			number: number, chance: chance, silence: 300 * time.Millisecond, copies: true}
		in.installWhile(t, func() {
			f.fault(t)
			users.nextHistory()
		})
		installed = append(installed, in.clusterID.String())
	}
	users.stop()
	f.leader(t)
	for _, m := range f.members {
		m.awaitReady(t)
	}
	for _, m := range f.members {
		users.verifyCreations(t, m.address)
	}
	// A leader may have ended before AMS received its request to create a subscription. The next
	// leader creates it after the quarantine of 15 minutes: a search may not find it earlier.
	require.Eventually(t, func() bool { return service.active(installed) }, 20*time.Minute, 50*time.Millisecond,
		"AMS knows the installed clusters")
	service.verify(t)
	f.stop(t)
	t.Logf("%d faults of leaders during %d installations: %v; %s", f.leaders(), len(installed), f.byKind, users)
	users.verifyHistories(t, fleetFaults)
	require.Subset(t, slices.Collect(maps.Keys(f.byKind)), []string{"kill", "stop", "cut", "kill and wait"})
}
