package simulate

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// stageNames contains the stages of the four kinds of hosts in the API's documentation, without
// stages that occur only with registry data on the media.
var (
	bootstrapStages = []models.HostStage{
		"Starting installation", "Installing", "Writing image to disk", "Waiting for control plane",
		"Waiting for bootkube",
		"Waiting for controller", "Rebooting", "Configuring", "Joined", "Done",
	}
	masterStages = []models.HostStage{"Starting installation", "Installing", "Writing image to disk", "Rebooting",
		"Configuring", "Joined", "Done"}
	workerStages = []models.HostStage{
		"Starting installation", "Installing", "Writing image to disk", "Waiting for control plane", "Rebooting",
		"Waiting for ignition",
		"Configuring", "Joined", "Done",
	}
	singleStages = []models.HostStage{"Starting installation", "Installing", "Waiting for bootkube",
		"Writing image to disk", "Rebooting", "Joined", "Done"}
)

// testContext ends a test that hangs with a readable failure, before the test binary's time-out.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// recorder records a group's events.
type recorder struct {
	mu     sync.Mutex
	events []Event
	notify func(Event)
}

func (r *recorder) observe(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	if r.notify != nil {
		r.notify(e)
	}
}

func (r *recorder) count(kind EventKind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func TestHostGroup_installsClusterWithWorkers(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect, a.workers, a.olm = 5, 2, []string{"lvm"}
	var seen recorder
	group := a.group(5)
	group.Observer = seen.observe
	require.NoError(t, group.Run(testContext(t)))

	require.Equal(t, models.ClusterStatusInstalled, a.status)
	require.Equal(t, bootstrapStages, a.stages[a.order[0]])
	require.Equal(t, masterStages, a.stages[a.order[1]])
	require.Equal(t, masterStages, a.stages[a.order[2]])
	require.Equal(t, workerStages, a.stages[a.order[3]])
	require.Equal(t, workerStages, a.stages[a.order[4]])
	require.Equal(t, []models.FinalizingStage{
		"Waiting for cluster operators", "Adding router ca", "Waiting for olm operators csv initialization",
		"Applying olm manifests",
		"Waiting for olm operators csv", "Done",
	}, a.finalizing)
	for _, operator := range []string{"console", "cvo", "lvm"} {
		require.Equal(t, models.OperatorStatusAvailable, a.operators[operator], operator)
	}
	require.True(t, *a.completion.IsSuccess)
	require.Equal(t, map[string]int{"host": 5, "controller": 1}, a.logs)
	require.Equal(t, 5, seen.count(EventInstalled))
	require.Equal(t, 1, seen.count(EventCompleted))
	for _, id := range a.order {
		require.Equal(t, 1, a.registrations[id], "an installed host does not boot the discovery image again")
	}
	block, _ := pem.Decode([]byte(a.ingress))
	require.NotNil(t, block, "the ingress certificate is PEM")
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.True(t, certificate.IsCA)
}

func TestHostGroup_installsSingleNode(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect = 1
	require.NoError(t, a.group(1).Run(testContext(t)))
	require.Equal(t, singleStages, a.stages[a.order[0]])
	require.Equal(t, models.ClusterStatusInstalled, a.status)
}

func TestMedia_onlyFirstHostDownloadsAll(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	sum, err := a.image.SHA256(t.Context())
	require.NoError(t, err)
	a.digest, a.expect = sum, 4
	require.NoError(t, a.group(4).Run(testContext(t)))
	require.Greater(t, a.downloaded, a.image.Size())
	require.Less(t, a.downloaded, a.image.Size()+4*(1<<20), "the others read the ranges that lead to the config")
}

func TestMedia_digestMismatch(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.digest = hex.EncodeToString(make([]byte, 32))
	err := a.group(1).Run(testContext(t))
	require.ErrorContains(t, err, "but the appliance publishes 0000")
	require.ErrorContains(t, err, "host-1")
}

func TestHostGroup_applianceRestarts(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect, a.workers = 4, 1
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(1, 2))
	a.outage = func(*http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(5) == 0
	}
	a.refuse = func(*http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		if dice.IntN(10) == 0 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	require.NoError(t, a.group(4).Run(testContext(t)))
	require.Equal(t, models.ClusterStatusInstalled, a.status)
	require.Equal(t, bootstrapStages, a.stages[a.order[0]])
}

// TestHostGroup_continuesAfterRestart ends the group at every stage of every kind of host. A host
// that registered again during its installation would fail the test.
func TestHostGroup_continuesAfterRestart(t *testing.T) {
	t.Parallel()
	for _, stage := range append(append([]models.HostStage{}, bootstrapStages...), "Waiting for ignition") {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			a := newAppliance(t)
			a.expect, a.workers = 4, 1
			ctx, stop := context.WithCancel(testContext(t))
			a.afterStage = func(h *models.Host) {
				if h.Progress.CurrentStage == stage {
					stop()
				}
			}
			require.ErrorIs(t, a.group(4).Run(ctx), context.Canceled)
			a.mu.Lock()
			a.afterStage = nil
			a.mu.Unlock()
			require.NoError(t, a.group(4).Run(testContext(t)))
			require.Equal(t, models.ClusterStatusInstalled, a.status)
		})
	}
}

func TestHostGroup_unboundInfraEnv(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.unbound = true
	ctx, stop := context.WithCancel(testContext(t))
	group := a.group(2)
	steps := 0
	group.Observer = func(e Event) {
		if e.Kind == EventStep {
			if steps++; steps == 4 {
				stop()
			}
		}
	}
	err := group.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	var failed *HostError
	require.NotErrorAs(t, err, &failed)
	for _, h := range a.hosts {
		require.Equal(t, models.HostStatusKnown, *h.Status)
	}
}

func TestAgent_sendsOutputOnce(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	// After several polls without further output, one poll fails. Several more polls end the test.
	replies, quiet, failed := 0, 0, false
	a.refuse = func(r *http.Request) int {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/instructions") {
			return 0
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		var taken []models.StepReply
		if len(a.order) > 0 {
			taken = a.replies[a.order[0]]
		}
		if quiet++; len(taken) != replies {
			replies, quiet = len(taken), 0
		}
		switch {
		case quiet < 5:
		case !failed && replies >= 2:
			failed, quiet = true, 0
			return http.StatusInternalServerError
		case failed && replies >= 4:
			stop()
		}
		return 0
	}
	require.ErrorIs(t, a.group(1).Run(ctx), context.Canceled)
	byType := map[models.StepType]int{}
	for _, reply := range a.replies[a.order[0]] {
		byType[reply.StepType]++
	}
	require.Equal(t, map[models.StepType]int{models.StepTypeInventory: 2, models.StepTypeNtpSynchronizer: 2}, byType)
}

func TestAgent_freezesLikeRealAgent(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusConflict} {
		t.Run("registration "+http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			a := newAppliance(t)
			a.refuse = func(r *http.Request) int {
				if r.Method == http.MethodPost {
					return status
				}
				return 0
			}
			err := a.group(1).Run(testContext(t))
			var frozen *FrozenError
			require.ErrorAs(t, err, &frozen)
			require.ErrorContains(t, err, "rejected by the test")
		})
	}
	t.Run("instructions Not Found", func(t *testing.T) {
		t.Parallel()
		a := newAppliance(t)
		a.refuse = func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "/instructions") {
				return http.StatusNotFound
			}
			return 0
		}
		var frozen *FrozenError
		require.ErrorAs(t, a.group(1).Run(testContext(t)), &frozen)
	})
}

func TestHostGroup_cancelAndReset(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect = 3
	a.exitIn = map[string]bool{models.HostStatusResetting: true}
	cancelled, reset := false, false
	a.afterStage = func(*models.Host) {
		// The bootstrap host waits for the other hosts, one of which has already restarted.
		waits, restarted := false, false
		for _, other := range a.hosts {
			waits = waits || other.Bootstrap && other.Progress.CurrentStage == models.HostStageWaitingForControlPlane
			restarted = restarted || !other.Bootstrap && isAfterReboot(other.Progress.CurrentStage)
		}
		if cancelled || !waits || !restarted {
			return
		}
		cancelled = true
		a.status = models.ClusterStatusCancelled
		for _, other := range a.hosts {
			other.Status = conv.Pointer(models.HostStatusCancelled)
			if isAfterReboot(other.Progress.CurrentStage) {
				other.Progress.CurrentStage = models.HostStageRebooting // no node has joined
			}
		}
	}
	a.onReply = func(_ string, reply models.StepReply) {
		if reply.StepType != models.StepTypeInstall || reply.ExitCode != exitStopped || reset {
			return
		}
		reset = true
		a.status = models.ClusterStatusInsufficient
		a.stages = map[strfmt.UUID][]models.HostStage{}
		a.prepared = map[strfmt.UUID]map[models.StepType]bool{}
		for _, h := range a.hosts {
			h.Status = conv.Pointer(models.HostStatusResetting)
			if isAfterReboot(h.Progress.CurrentStage) {
				h.Status = conv.Pointer(models.HostStatusResettingPendingUserAction)
			}
			h.Progress, h.Bootstrap = &models.HostProgressInfo{}, false
		}
	}
	require.NoError(t, a.group(3).Run(testContext(t)))
	require.True(t, cancelled && reset)
	require.Equal(t, models.ClusterStatusInstalled, a.status)
	for _, id := range a.order {
		require.GreaterOrEqual(t, a.registrations[id], 2,
			"the exit instruction and the operator's restart may both occur")
	}
}

func TestFaults_failAtStage(t *testing.T) {
	t.Parallel()
	for _, stage := range []models.HostStage{"Starting installation", "Installing", "Writing image to disk",
		"Waiting for controller", "Rebooting"} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			a := newAppliance(t)
			a.expect = 3
			group := a.group(3)
			var err error
			group.Faults, err = ParseFaults("host=1:fail-at=" + string(stage))
			require.NoError(t, err)
			err = group.Run(testContext(t))
			require.ErrorContains(t, err, "host-1")
			require.ErrorContains(t, err, "fault fail-at")
			require.Equal(t, models.HostStageFailed, a.stages[a.order[0]][len(a.stages[a.order[0]])-1])
			require.Contains(t, gathered(a.replies[a.order[0]]), int64(0), "a host in error sends its logs")
			require.Positive(t, a.logs["host"])
		})
	}
}

// gathered returns the exit codes of log gathering.
func gathered(replies []models.StepReply) (codes []int64) {
	for _, reply := range replies {
		if reply.StepType == models.StepTypeLogsGather {
			codes = append(codes, reply.ExitCode)
		}
	}
	return codes
}

func TestController_namesNodeThatDoesNotBoot(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect = 3
	group := a.group(3)
	group.Faults = Faults{{Kind: FailAt, Host: 2, Stage: models.HostStageJoined}}
	ctx, stop := context.WithCancel(testContext(t))
	group.Observer = func(e Event) {
		if e.Kind == EventFailed {
			stop()
		}
	}
	err := group.Run(ctx)
	require.ErrorContains(t, err, "host-2")
	require.ErrorContains(t, err, `never reached the stage "Joined"`)
	require.NotContains(t, a.stages[a.order[1]], models.HostStageJoined)
}

func TestHostGroup_keepsFailedHosts(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect = 1
	group := a.group(1)
	group.KeepFailed = true
	group.Faults = Faults{{Kind: FailAt, Stage: models.HostStageInstalling}}
	reset := false
	a.onReply = func(_ string, reply models.StepReply) {
		if reply.StepType == models.StepTypeStopInstallation && !reset {
			reset = true
			a.status = models.ClusterStatusInsufficient
			a.expect = 0
			for _, h := range a.hosts {
				h.Status = conv.Pointer(models.HostStatusResetting)
			}
		}
	}
	a.exitIn = map[string]bool{models.HostStatusResetting: true}
	ctx, stop := context.WithCancel(testContext(t))
	registered := 0
	group.Observer = func(e Event) {
		if e.Kind == EventRegistered {
			if registered++; registered == 2 {
				stop()
			}
		}
	}
	require.ErrorIs(t, group.Run(ctx), context.Canceled)
	require.Equal(t, 2, registered)
}

func TestNodeInstaller_invalidIgnition(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect, a.badIgnition = 1, true
	require.ErrorContains(t, a.group(1).Run(testContext(t)),
		"the host's own ignition config from the appliance is invalid")
}

func TestController_badKubeconfig(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect, a.kubeconfig = 1, "clusters: []\n"
	err := a.group(1).Run(testContext(t))
	require.ErrorContains(t, err, "the cluster's installation failed")
	require.False(t, *a.completion.IsSuccess)
	require.Contains(t, a.completion.ErrorInfo, "kubeconfig-noingress names no server")
}

func TestAgent_wrongBootDevice(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect = 1
	ctx, stop := context.WithCancel(testContext(t))
	a.bootDevice = "/dev/nvme0n1"
	a.onReply = func(_ string, reply models.StepReply) {
		a.bootDevice = "/dev/sdz"
		if reply.StepType == models.StepTypeInstall {
			stop()
		}
		if reply.StepType == models.StepTypeInstallationDiskSpeedCheck {
			a.prepared[a.order[0]] = map[models.StepType]bool{models.StepTypeInstallationDiskSpeedCheck: true}
		}
	}
	require.ErrorIs(t, a.group(1).Run(ctx), context.Canceled)
	last := a.replies[a.order[0]][len(a.replies[a.order[0]])-1]
	require.Equal(t, models.StepTypeInstall, last.StepType)
	require.EqualValues(t, exitFailed, last.ExitCode)
	require.Contains(t, last.Error, "/dev/sdz was not found")
}

func TestHostGroup_sameSeedSameHosts(t *testing.T) {
	t.Parallel()
	group := func(seed uint64) *HostGroup {
		return &HostGroup{InfraEnvID: "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", Seed: seed, Network: DefaultNetwork()}
	}
	first, err := newMachine(group(1), 1)
	require.NoError(t, err)
	again, err := newMachine(group(1), 1)
	require.NoError(t, err)
	require.Equal(t, first, again)
	ids := map[string]bool{}
	macs := map[string]bool{}
	for seed := range uint64(3) {
		for number := 1; number <= 200; number++ {
			m, err := newMachine(group(seed), number)
			require.NoError(t, err)
			require.True(t, strfmt.IsUUID(m.id))
			require.NoError(t, m.inventory().Validate(strfmt.Default))
			ids[m.id] = true
			macs[m.nics[0].mac] = true
		}
	}
	require.Len(t, ids, 600)
	require.Len(t, macs, 600)
}

func TestHostGroup_invalidOptions(t *testing.T) {
	t.Parallel()
	good := HostGroup{URL: "http://127.0.0.1:8090", InfraEnvID: "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", Count: 1}
	for _, wrong := range []struct {
		change func(*HostGroup)
		want   string
	}{
		{func(c *HostGroup) { c.URL = "127.0.0.1:8090" }, "not the URL of an appliance"},
		{func(c *HostGroup) { c.InfraEnvID = "7" }, `"7" is not the id of an infra-env`},
		{func(c *HostGroup) { c.Count = 0 }, "a group cannot have 0 hosts"},
		{func(c *HostGroup) { c.Speed = -1 }, "speed -1 is negative"},
		{func(c *HostGroup) { c.Network = netip.MustParsePrefix("fd00::/64") }, "not an IPv4 network"},
		{func(c *HostGroup) { c.Network, c.Count = netip.MustParsePrefix("192.0.2.0/28"), 7 },
			"network 192.0.2.0/28 is too small for simulated host 6"},
	} {
		group := HostGroup{URL: good.URL, InfraEnvID: good.InfraEnvID, Count: good.Count}
		wrong.change(&group)
		require.ErrorContains(t, group.Run(t.Context()), wrong.want)
	}
}

func TestHostGroup_speedDividesWaits(t *testing.T) {
	t.Parallel()
	clock := clockwork.NewFakeClock()
	group := &HostGroup{Clock: clock, Speed: 60}
	done := make(chan error, 1)
	for _, wait := range []struct {
		wait func(context.Context, time.Duration) error
		asks time.Duration
		want time.Duration
	}{
		{group.pause, time.Minute, time.Second},
		{group.rest, time.Minute, time.Second},
		{group.rest, time.Second, pollFloor},
	} {
		go func() { done <- wait.wait(t.Context(), wait.asks) }()
		require.NoError(t, clock.BlockUntilContext(testContext(t), 1))
		clock.Advance(wait.want - time.Nanosecond)
		require.Empty(t, done)
		clock.Advance(time.Nanosecond)
		require.NoError(t, <-done)
	}
}
