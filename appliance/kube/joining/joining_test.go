package joining_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/kube/joining"
	"landfall/appliance/kube/spoke"
	"landfall/appliance/simulate"
)

const apiName = "api.one.example.com"

// site is a fake engine with joining hosts only, and the simulated cluster that they join.
type site struct {
	*testing.T
	spokes  *simulate.Spokes
	cluster *simulate.Spoke
	changed chan struct{}

	mu       sync.Mutex
	hosts    map[string]*engine.AwaitedHost
	problems map[string][]string // reasons of problems by host, in order
	access   joining.Cluster
	missing  error
	broken   error // why the hosts can't be read
}

func newSite(t *testing.T, names ...string) *site {
	spokes, err := simulate.NewSpokes(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spokes.Close()) })
	s := &site{
		T: t, spokes: spokes, cluster: spokes.Cluster(apiName), changed: make(chan struct{}, 1),
		hosts: map[string]*engine.AwaitedHost{}, problems: map[string][]string{},
		access: joining.Cluster{Access: spoke.Access{Kubeconfig: spokes.Kubeconfig(apiName), From: "the test",
			Names: map[string]string{"*": spokes.Addr()}}},
	}
	now := time.Now()
	for _, name := range names {
		s.hosts[name] = &engine.AwaitedHost{
			Key: name, Cluster: "one", Name: name, Stage: models.HostStageRebooting,
			Joining: record.Joining{Started: now.Add(-time.Minute), Restarted: now},
		}
	}
	return s
}

func (s *site) Awaited() (awaited []engine.AwaitedHost, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range s.hosts {
		if host.Stage != models.HostStageDone {
			copied := *host
			copied.Joining.Approved = slices.Clone(host.Joining.Approved)
			awaited = append(awaited, copied)
		}
	}
	return awaited, s.broken
}

func (s *site) AwaitedChanged() <-chan struct{} { return s.changed }

func (s *site) UpdateJoining(_ context.Context, key string, seen engine.JoiningUpdate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	host := s.hosts[key]
	for _, request := range seen.Approved {
		if !slices.ContainsFunc(host.Joining.Approved,
			func(r record.CertificateRequest) bool { return r.Name == request.Name }) {
			host.Joining.Approved = append(host.Joining.Approved, request)
		}
	}
	if host.Joining.Problem != seen.Problem {
		host.Joining.Problem = seen.Problem
		s.problems[key] = append(s.problems[key], seen.Problem.Reason)
	}
	if seen.Stage != "" {
		host.Stage = seen.Stage
	}
	return nil
}

func (s *site) host(name string) engine.AwaitedHost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.hosts[name]
}

func (s *site) reasons(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems[name])
}

func (s *site) clusterAccess() (joining.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.access, s.missing
}

func (s *site) alter(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// follow runs a follower until the function it returns is called, or the test ends.
func (s *site) follow(clock clockwork.Clock, alter func(*joining.Options)) (stop func()) {
	options := joining.Options{
		Engine: s, Cluster: func(string) (joining.Cluster, error) { return s.clusterAccess() },
		Interval: 5 * time.Millisecond,
		Clock:    clock, Logger: slog.New(slog.DiscardHandler),
	}
	if alter != nil {
		alter(&options)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- joining.New(options).Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(s, <-ended)
	})
	s.Cleanup(stop)
	return stop
}

// live runs simulated kubelets until the hosts have reached a stage.
func (s *site) live(stage models.HostStage, names ...string) {
	s.Helper()
	for _, name := range names {
		kubelet := simulate.Kubelet{Cluster: s.cluster, Hostname: name, Addresses: []string{"192.168.1.20"}}
		require.Eventually(s, func() bool {
			_, err := kubelet.Tick()
			require.NoError(s, err)
			return s.host(name).Stage == stage
		}, time.Minute, 5*time.Millisecond)
	}
}

func TestFollower_untilNodesAreReady(t *testing.T) {
	s := newSite(t, "worker-1", "worker-2")
	s.follow(clockwork.NewRealClock(), nil)
	s.live(models.HostStageDone, "worker-1", "worker-2")
	require.Len(t, s.host("worker-1").Joining.Approved, 2)
	require.Empty(t, s.reasons("worker-1"))
}

func TestFollower_restart(t *testing.T) {
	s := newSite(t, "worker-1")
	kubelet := simulate.Kubelet{Cluster: s.cluster, Hostname: "worker-1", Addresses: []string{"192.168.1.20"}}
	_, err := kubelet.Tick()
	require.NoError(t, err)
	stop := s.follow(clockwork.NewRealClock(), nil)
	require.Eventually(t, func() bool { return len(s.host("worker-1").Joining.Approved) == 1 }, time.Minute,
		time.Millisecond)
	stop()
	// the appliance was killed before it recorded the approval
	s.alter(func() { s.hosts["worker-1"].Joining.Approved = nil })
	_, err = kubelet.Tick()
	require.NoError(t, err)
	s.follow(clockwork.NewRealClock(), nil)
	s.live(models.HostStageDone, "worker-1")
	require.Len(t, s.host("worker-1").Joining.Approved, 2)
}

func TestFollower_laterHost(t *testing.T) {
	s := newSite(t, "worker-1")
	late := *s.hosts["worker-1"]
	delete(s.hosts, "worker-1")
	s.follow(clockwork.NewRealClock(), nil)
	s.alter(func() { s.hosts["worker-1"] = &late })
	s.changed <- struct{}{}
	s.live(models.HostStageDone, "worker-1")
}

func TestFollower_clusterApprovesItself(t *testing.T) {
	s := newSite(t, "worker-1")
	s.follow(clockwork.NewRealClock(), func(o *joining.Options) {
		o.ApprovedThere = func(string) (bool, error) { return true, nil }
	})
	s.cluster.Put("api/v1/nodes", map[string]any{"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": "worker-1"}})
	require.Eventually(t, func() bool { return s.host("worker-1").Stage == models.HostStageJoined }, time.Minute,
		time.Millisecond)
	require.Empty(t, s.host("worker-1").Joining.Approved)
}

func TestFollower_backoffUnreachableCluster(t *testing.T) {
	s := newSite(t, "worker-1")
	requests := make(chan struct{}, 64)
	s.cluster.Answer(func(*http.Request) int { requests <- struct{}{}; return http.StatusForbidden })
	clock := clockwork.NewFakeClock()
	s.alter(func() { s.hosts["worker-1"].Joining.Restarted = clock.Now() })
	s.follow(clock, nil)
	for _, wait := range []time.Duration{5, 10, 20, 40, 60, 60} {
		<-requests
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
		clock.Advance(wait*time.Second - time.Millisecond)
		require.Empty(t, requests)
		clock.Advance(time.Millisecond)
	}
	<-requests
	require.Equal(t, []string{spoke.ReasonRefused}, s.reasons("worker-1"))
	require.Equal(t, models.HostStageRebooting, s.host("worker-1").Stage, "the host is still awaited")
}

func TestFollower_hostsCannotBeReadAtStart(t *testing.T) {
	s := newSite(t, "worker-1")
	s.broken = errors.New("the disk does not answer")
	clock := clockwork.NewFakeClockAt(time.Now())
	s.follow(clock, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, clock.BlockUntilContext(ctx, 1), "the follower waits")
	s.alter(func() { s.broken, s.missing = nil, &spoke.MissingError{Where: "there is no kubeconfig"} })
	clock.Advance(5 * time.Second)
	require.Eventually(t, func() bool { return len(s.reasons("worker-1")) == 1 }, time.Minute, time.Millisecond)
}

func TestFollower_kubeconfigErrors(t *testing.T) {
	s := newSite(t, "worker-1")
	s.missing = &spoke.MissingError{Where: "the Secret site/one-admin-kubeconfig does not exist"}
	clock := clockwork.NewFakeClockAt(time.Now())
	s.follow(clock, nil)
	next := func(reason string) {
		require.Eventually(t, func() bool {
			reasons := s.reasons("worker-1")
			return len(reasons) > 0 && reasons[len(reasons)-1] == reason
		}, time.Minute, time.Millisecond)
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	}
	next(spoke.ReasonMissing)
	require.Contains(t, s.host("worker-1").Joining.Problem.Message, "the Secret site/one-admin-kubeconfig")
	good := s.access.Kubeconfig
	s.alter(func() { s.missing, s.access.Kubeconfig = nil, []byte("{") })
	clock.Advance(time.Minute)
	next(spoke.ReasonKubeconfig)
	s.alter(func() { s.access.Kubeconfig = good })
	clock.Advance(time.Minute)
	next("")
	require.Equal(t, []string{spoke.ReasonMissing, spoke.ReasonKubeconfig, ""}, s.reasons("worker-1"))
}

func TestFollower_lenientHostGivesUp(t *testing.T) {
	s := newSite(t, "worker-1")
	clock := clockwork.NewFakeClockAt(time.Now())
	s.access.Lenient, s.access.Names = true, map[string]string{"*": "127.0.0.1:1"}
	s.hosts["worker-1"].Joining.Restarted = clock.Now()
	s.follow(clock, nil)
	require.Eventually(t, func() bool { return len(s.reasons("worker-1")) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	require.Equal(t, models.HostStageRebooting, s.host("worker-1").Stage)
	clock.Advance(20 * time.Minute)
	require.Eventually(t, func() bool { return s.host("worker-1").Stage == models.HostStageDone }, time.Minute,
		time.Millisecond)
	require.Equal(t, spoke.ReasonUnreachable, s.host("worker-1").Joining.Problem.Reason,
		"the problem is kept")
}

func TestParseNames(t *testing.T) {
	names, err := joining.ParseNames([]string{"API.one.example.com=10.0.0.5", "*.example.com = 10.0.0.6:6443"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"api.one.example.com": "10.0.0.5", "*.example.com": "10.0.0.6:6443"}, names)
	for _, wrong := range []string{"api.one.example.com", "=10.0.0.5", "api="} {
		_, err := joining.ParseNames([]string{wrong})
		require.ErrorContains(t, err, "is not a NAME=ADDRESS pair")
	}
}
