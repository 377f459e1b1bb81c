// Package joining observes hosts that join installed clusters, from their restart until their nodes
// are ready. It approves the certificate requests of the hosts' kubelets and reports their progress
// to the engine. It is idle while no host joins a cluster.
//
// Design: docs/design.md#hosts-that-join-installed-clusters.
package joining

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"k8s.io/apimachinery/pkg/util/wait"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/kube/spoke"
)

// Defaults of [Options].
const (
	defaultInterval = 10 * time.Second
	defaultGiveUp   = 20 * time.Minute
)

// newBackoff returns the delays between attempts to check a cluster that can't be reached.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: 5 * time.Second, Factor: 2, Cap: time.Minute, Steps: math.MaxInt}
}

// Engine is the part of *engine.Engine that the follower uses.
type Engine interface {
	Awaited() ([]engine.AwaitedHost, error)
	AwaitedChanged() <-chan struct{}
	UpdateJoining(ctx context.Context, key string, seen engine.JoiningUpdate) error
}

// Cluster holds the access to a cluster and the options for its joining hosts.
type Cluster struct {
	spoke.Access
	// Lenient ends the installation of the hosts after Options.GiveUp even if the cluster can't be
	// reached. The user must then approve the hosts' certificate requests.
	Lenient bool
}

// Options configures a [Follower].
type Options struct {
	Engine Engine
	// Cluster returns the access to a cluster. The error is a *spoke.MissingError if there is no
	// kubeconfig.
	Cluster func(id string) (Cluster, error)
	// ApprovedThere reports whether the cluster itself approves the certificate requests of a
	// host's kubelet. If it is nil, the appliance always approves them.
	ApprovedThere func(hostKey string) (bool, error)
	GiveUp        time.Duration // limit for lenient hosts after their restart; 0 is 20 minutes
	Interval      time.Duration // between successful checks; 0 is 10 seconds
	Clock         clockwork.Clock
	Logger        *slog.Logger
}

// Follower observes the joining hosts of all clusters, with one goroutine per cluster.
type Follower struct {
	Options
	mu        sync.Mutex
	following map[string]bool // ids of the observed clusters
	group     sync.WaitGroup
}

// New returns a follower.
func New(options Options) *Follower {
	if options.GiveUp == 0 {
		options.GiveUp = defaultGiveUp
	}
	if options.Interval == 0 {
		options.Interval = defaultInterval
	}
	return &Follower{Options: options, following: map[string]bool{}}
}

// Run observes joining hosts until the context ends. It tries again if it can't read them.
func (f *Follower) Run(ctx context.Context) error {
	defer f.group.Wait()
	backoff := newBackoff()
	for {
		var again <-chan time.Time
		if err := f.start(ctx); err != nil {
			f.Logger.WarnContext(ctx, "The joining hosts could not be read.", "error", err)
			again = f.Clock.After(backoff.Step())
		} else {
			backoff = newBackoff()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.Engine.AwaitedChanged():
		case <-again:
		}
	}
}

// start starts observing the clusters that have awaited hosts and are not observed yet.
func (f *Follower) start(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	awaited, err := f.Engine.Awaited()
	if err != nil {
		return err
	}
	for _, host := range awaited {
		if cluster := host.Cluster; !f.following[cluster] {
			f.following[cluster] = true
			f.group.Go(func() { f.follow(ctx, cluster) })
		}
	}
	return nil
}

// follow checks a cluster repeatedly while the engine awaits hosts in this cluster.
func (f *Follower) follow(ctx context.Context, cluster string) {
	backoff := newBackoff()
	for {
		hosts, err := f.hostsOf(cluster)
		if err == nil && len(hosts) == 0 {
			return
		}
		ok := false
		if err == nil {
			ok, err = f.check(ctx, cluster, hosts)
		}
		if err != nil && ctx.Err() == nil {
			f.Logger.WarnContext(ctx, "The progress of joining hosts could not be checked.", "cluster_id", cluster,
				"error", err)
		}
		after := f.Interval
		if ok {
			backoff = newBackoff()
		} else {
			after = backoff.Step()
		}
		select {
		case <-ctx.Done():
			return
		case <-f.Clock.After(after):
		}
	}
}

// hostsOf lists the awaited hosts of a cluster. If there are none, it ends the observation of the
// cluster.
func (f *Follower) hostsOf(cluster string) ([]engine.AwaitedHost, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	awaited, err := f.Engine.Awaited()
	var hosts []engine.AwaitedHost
	for _, host := range awaited {
		if host.Cluster == cluster {
			hosts = append(hosts, host)
		}
	}
	if err == nil && len(hosts) == 0 {
		delete(f.following, cluster)
	}
	return hosts, err
}

// check checks the joining hosts of a cluster once. It returns false if the cluster could not be
// read, and records that as the problem of the hosts. The error is an error of the appliance
// itself.
func (f *Follower) check(ctx context.Context, id string, hosts []engine.AwaitedHost) (bool, error) {
	cluster, err := f.Cluster(id)
	var missing *spoke.MissingError
	if err != nil && !errors.As(err, &missing) {
		return false, err
	}
	server := ""
	if err == nil {
		var client *spoke.Client
		if client, err = spoke.Open(cluster.Access, f.Clock); err == nil {
			defer client.Close()
			server = client.Server()
			var own error
			if err, own = f.checkWith(ctx, client, hosts); own != nil || err == nil {
				return own == nil, own
			}
		}
	}
	if ctx.Err() != nil {
		return false, nil
	}
	reason, message := spoke.Explain(err, server)
	return false, f.reportProblem(ctx, hosts, cluster.Lenient, record.JoiningProblem{Reason: reason, Message: message})
}

// checkWith checks hosts with a client. failed is an error of the cluster's API; err is an error of
// the appliance itself.
func (f *Follower) checkWith(ctx context.Context, client *spoke.Client,
	hosts []engine.AwaitedHost) (failed, err error) {
	requests, failed := client.Requests(ctx)
	if failed != nil {
		return failed, nil
	}
	for _, host := range hosts {
		there := false
		if f.ApprovedThere != nil {
			if there, err = f.ApprovedThere(host.Key); err != nil {
				return nil, err
			}
		}
		sight, failed := client.Admit(ctx, spoke.Host{
			Name: host.Name, Started: host.Joining.Started, Labels: host.Labels, Approve: !there,
			Known: known(host.Joining.Approved),
		}, requests)
		if len(sight.Approved) > 0 && failed != nil { // record the approvals even if a later call failed
			err = f.Engine.UpdateJoining(ctx, host.Key, engine.JoiningUpdate{Approved: noted(sight.Approved),
				Problem: host.Joining.Problem})
		}
		if err != nil || failed != nil {
			return failed, err
		}
		seen := engine.JoiningUpdate{Approved: noted(sight.Approved),
			Problem: record.JoiningProblem{Reason: sight.Reason,
				Message: sight.Problem}}
		switch {
		case sight.Ready:
			seen.Stage = models.HostStageDone
		case sight.Node:
			seen.Stage = models.HostStageJoined
		}
		if err := f.Engine.UpdateJoining(ctx, host.Key, seen); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// reportProblem records, for each host of a cluster, why the cluster can't be read.
func (f *Follower) reportProblem(ctx context.Context, hosts []engine.AwaitedHost, lenient bool,
	problem record.JoiningProblem) error {
	for _, host := range hosts {
		seen := engine.JoiningUpdate{Problem: problem}
		if lenient && f.Clock.Since(host.Joining.Restarted) >= f.GiveUp {
			seen.Stage = models.HostStageDone
		}
		if err := f.Engine.UpdateJoining(ctx, host.Key, seen); err != nil {
			return err
		}
	}
	return nil
}

func known(approved []record.CertificateRequest) []spoke.Request {
	var requests []spoke.Request
	for _, r := range approved {
		requests = append(requests, spoke.Request{Name: r.Name, Serving: r.Serving, ApprovedAt: r.ApprovedAt})
	}
	return requests
}

func noted(approved []spoke.Request) []record.CertificateRequest {
	var requests []record.CertificateRequest
	for _, r := range approved {
		requests = append(requests, record.CertificateRequest{Name: r.Name, Serving: r.Serving,
			ApprovedAt: r.ApprovedAt})
	}
	return requests
}

// ParseNames parses NAME=ADDRESS pairs, such as api.one.example.com=10.0.0.5 or
// *.example.com=10.0.0.5:6443.
func ParseNames(pairs []string) (map[string]string, error) {
	names := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, address, ok := strings.Cut(pair, "=")
		if name, address = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(address); !ok || name == "" ||
			address == "" {
			return nil, &PairError{pair}
		}
		names[name] = address
	}
	return names, nil
}

// PairError is an invalid NAME=ADDRESS pair.
type PairError struct{ Pair string }

func (e *PairError) Error() string {
	return "joining.addresses: \"" + e.Pair + "\" is not a NAME=ADDRESS pair, such as api.one.example.com=10.0.0.5."
}
