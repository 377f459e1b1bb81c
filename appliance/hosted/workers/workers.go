// Package workers makes this appliance the assisted service for the workers of hosted clusters. It
// writes its hosts as Agents into the API of a management cluster, follows the choice that
// HyperShift's provider of node pools writes into these Agents, and reports the state of the hosts
// in them. A person chooses this for each management cluster.
//
//	record.go   what is stored about the offered hosts
//	decide.go   what happens to a host, as a function of what is known about it
//	workers.go  the loop, and one comparison of a management cluster with the rows
//	follow.go   the engine's side: clusters, binding, installation
//	agents.go   the management cluster's side: Agents
//
// The names and rules come from openshift/cluster-api-provider-agent (controllers) and
// openshift/assisted-service (internal/controller/controllers/agent_controller.go).
//
// Design: docs/design.md#workers-of-hosted-clusters.
package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"landfall/appliance/engine"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/readiness"
	"landfall/appliance/hosted/record"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/spoke"
	"landfall/appliance/sentence"
	"landfall/store"
)

// defaultInterval is the default of Options.Interval.
const defaultInterval = 10 * time.Second

// Options configures New.
type Options struct {
	DB     *store.DB
	Engine *engine.Engine
	// Connect opens the API of a cluster that the appliance installed.
	Connect func(clusterID string) (*spoke.Client, error)
	// Approved returns for each host that needs an approval, by its ID, whether it has one.
	Approved func() (map[string]bool, error)
	URL      string // base URL of the appliance's API, without a trailing slash
	// Interval is the time between two comparisons with a management cluster that answers; 0 is 10
	// seconds.
	Interval time.Duration
	Clock    clockwork.Clock
	Logger   *slog.Logger
}

// Service follows the management clusters to which hosts of this appliance are offered, with one
// goroutine for each. It is idle while there are none.
type Service struct {
	Options
	mu        sync.Mutex
	following map[string]bool // names of the management clusters with a goroutine
	group     sync.WaitGroup
}

// New returns the service. It works after Run is called.
func New(options Options) *Service {
	options.Interval = cmp.Or(options.Interval, defaultInterval)
	return &Service{Options: options, following: map[string]bool{}}
}

// Run follows management clusters until the context ends.
func (s *Service) Run(ctx context.Context) error {
	defer s.group.Wait()
	for {
		from := s.DB.Revision()
		if err := s.start(ctx); err != nil {
			return err
		}
		watcher := s.DB.Watch(ctx, from, record.ManagementPrefix())
		for range watcher.C() {
			if err := s.start(ctx); err != nil {
				return err
			}
		}
		err := watcher.Err()
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return nil
		}
		if !errors.Is(err, store.ErrCompacted) && !errors.Is(err, store.ErrFutureRevision) {
			return err
		}
	}
}

// start starts a goroutine for each management cluster that needs one and has none.
func (s *Service) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, err := s.wanted()
	for consumer := range wanted {
		if !s.following[consumer] {
			s.following[consumer] = true
			s.group.Go(func() { s.follow(ctx, consumer) })
		}
	}
	return err
}

// wanted returns the names of the management clusters that have or should have hosts of this
// appliance.
func (s *Service) wanted() (wanted map[string]bool, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		offered, err := offering(tx)
		if err != nil {
			return err
		}
		wanted = map[string]bool{}
		all, err := record.Managements(tx)
		for _, m := range all {
			if len(m.Workers) > 0 || offered[m.Consumer] {
				wanted[m.Consumer] = true
			}
		}
		return err
	})
	return wanted, err
}

// isEnded reports whether a management cluster is no longer followed. Its goroutine must end then.
func (s *Service) isEnded(consumer string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, err := s.wanted()
	if err != nil || wanted[consumer] {
		return false, err
	}
	delete(s.following, consumer)
	return true, nil
}

// follow compares a management cluster with the rows again and again.
func (s *Service) follow(ctx context.Context, consumer string) {
	backoff := s.newBackoff()
	for {
		ended, err := s.isEnded(consumer)
		if ended {
			return
		}
		if err == nil {
			err = s.Sync(ctx, consumer)
		}
		after := s.Interval
		if err != nil {
			after = backoff.Step()
		} else {
			backoff = s.newBackoff()
		}
		if err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "The workers of a management cluster could not be followed.",
				"consumer", consumer, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Clock.After(after):
		}
	}
}

func (s *Service) newBackoff() wait.Backoff {
	return wait.Backoff{Duration: s.Interval, Factor: 2, Cap: 5 * time.Minute, Steps: math.MaxInt}
}

// comparison is one comparison of a management cluster with the rows.
type comparison struct {
	*Service
	m        *record.Management
	owner    string // names this appliance in its Agents
	offers   map[string]*Offered
	hosts    map[string]*view.Host
	damaged  map[string]bool   // hosts whose rows can't be read
	profiles map[string]string // of the offered infra-envs by ID
	approved map[string]bool
	hosted   map[string]*record.Cluster // by the namespace of the control plane
	joined   map[string]string          // clusters of the engine by the ID of the hosted cluster
	hold     string                     // why nothing is done, or ""

	client   *spoke.Client
	problems map[string]string
}

// Sync compares a management cluster with the rows once. It records what keeps hosts from being
// followed. The error is one of this appliance, or says that the cluster does not answer.
func (s *Service) Sync(ctx context.Context, consumer string) error {
	c, err := s.read(consumer)
	if err != nil || c == nil {
		return err
	}
	problem, err := c.run(ctx)
	if err != nil && ctx.Err() == nil {
		problem = "The hosts are not followed: " + sentence.Close(sentence.Clause(err.Error())) + " They keep their " +
			"state, and it is tried again."
	}
	return errors.Join(err, s.note(ctx, c, problem))
}

// note stores what was found, if it differs from what is stored.
func (s *Service) note(ctx context.Context, c *comparison, problem string) error {
	if ctx.Err() != nil {
		return nil
	}
	return s.DB.Update(ctx, func(tx *store.Tx) error {
		if m, err := record.GetManagement(tx, c.m.Consumer); err != nil || m == nil {
			return err // it was removed in the meantime
		}
		held, err := GetState(tx, c.m.Consumer)
		if err != nil {
			return err
		}
		next := State{Problem: problem, Hosts: c.problems}
		if problem != "" && len(c.problems) == 0 {
			next.Hosts = held.Hosts // the hosts were not looked at
		}
		if next.Problem == held.Problem {
			next.Since = held.Since
		} else if problem != "" {
			next.Since = s.Clock.Now().UTC()
			s.Logger.WarnContext(ctx, "The workers of a management cluster are not followed.", "consumer", c.m.Consumer,
				"reason", problem)
		}
		if next.Problem == held.Problem && maps.Equal(next.Hosts, held.Hosts) {
			return nil
		}
		return states.Put(tx, c.m.Consumer, &next)
	})
}

// read reads what the appliance knows. It returns nil if there is nothing to do.
func (s *Service) read(consumer string) (c *comparison, err error) {
	approved, err := s.Approved()
	if err != nil {
		return nil, err
	}
	c = &comparison{Service: s, approved: approved, offers: map[string]*Offered{}, hosts: map[string]*view.Host{},
		profiles: map[string]string{}, hosted: map[string]*record.Cluster{}, joined: map[string]string{},
		problems: map[string]string{}, damaged: map[string]bool{}}
	err = s.DB.View(func(tx *store.Tx) (err error) {
		if c.m, err = record.GetManagement(tx, consumer); err != nil || c.m == nil {
			return err
		}
		hold, err := maestro.GetHold(tx, consumer)
		if err != nil {
			return err
		}
		if hold != nil {
			c.hold = "Nothing is done with the hosts while the management cluster is held. " + hold.Reason
		}
		return errors.Join(c.readHosts(tx), c.readClusters(tx))
	})
	if c.m == nil {
		c = nil
	}
	return c, err
}

// run compares, and returns what keeps all hosts from being followed.
func (c *comparison) run(ctx context.Context) (problem string, err error) {
	if c.hold != "" {
		return c.hold, nil
	}
	if c.client, err = c.Connect(c.m.ClusterID); err != nil {
		return "", err
	}
	defer c.client.Close()
	if problem, err = readiness.Workers(ctx, c.client); problem != "" || err != nil {
		return problem, err
	}
	var list struct {
		Items []*agentinstall.Agent `json:"items"`
	}
	if err := c.client.List(ctx, agentKind, c.m.AgentNamespace, "", &list); err != nil {
		return "", fmt.Errorf("list the Agents of the management cluster %s: %w", c.m.Consumer, err)
	}
	found := map[string]*agentinstall.Agent{}
	ids := map[string]bool{}
	for _, agent := range list.Items {
		found[agent.Name] = agent
		ids[agent.Name] = true
	}
	for id := range c.hosts {
		ids[id] = true
	}
	for id := range c.damaged {
		ids[id] = true
	}
	for id := range c.offers {
		ids[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if c.damaged[id] {
			c.problems[id] = "The stored data of the host is damaged. The host and its Agent stay untouched; " +
				"landfall check describes the ways out."
			continue
		}
		err := c.compare(ctx, id, found[id])
		if reason, refused := refusal(err); refused {
			if err = nil; reason != "" {
				c.problems[id] = reason
			}
		}
		if err != nil {
			return "", err
		}
	}
	return "", c.removeClusters(ctx)
}

// refusal returns the reason why the engine refuses a change of a host, or why somebody else
// changed an Agent first. Both concern one host only.
func refusal(err error) (reason string, refused bool) {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Conflict, fault.NotFound, fault.Unavailable:
		return sentence.New(err), true
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return "", true // the next comparison reads the Agent again
	}
	return "", false
}

// compare compares one host with its Agent.
func (c *comparison) compare(ctx context.Context, id string, agent *agentinstall.Agent) error {
	s := situation{host: c.hosts[id], row: c.offers[id], agent: agent, foreign: agent != nil && !c.isOwn(agent)}
	if s.host != nil {
		s.offered = c.profiles[s.host.InfraEnvID.String()] != ""
		approved, needed := c.approved[id]
		s.approved = approved || !needed
	}
	var of *record.Cluster
	if agent != nil && !s.foreign {
		if choice := choiceOf(agent); choice != nil {
			of = c.hosted[choice.Namespace]
		}
	}
	if of != nil {
		s.known, s.wanted = true, c.joined[of.CID]
	}
	act, reason := decide(s)
	if reason != "" {
		c.problems[id] = reason
	}
	w := &worker{comparison: c, situation: s, id: id, of: of}
	return w.perform(ctx, act)
}
