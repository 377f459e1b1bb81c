package metal

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine/record"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/spoke"
	"landfall/store"
)

// Spokes connects to installed clusters. A call starts a task in the background, and returns done =
// false until the task has finished. Then requeue is called, and the next call with the same task
// name returns the result. A deployment is the <namespace>/<name> of a ClusterDeployment.
type Spokes interface {
	// EnsureMachine creates a Machine and a BareMetalHost for a server in a cluster; see
	// [spoke.Client.EnsureMachine].
	EnsureMachine(task, deployment string, server spoke.Server, requeue func()) (done bool, err error)
	// ServerCA returns the certificate authority of the cluster's machine config server, in PEM.
	ServerCA(task, deployment string, requeue func()) (bundle string, done bool, err error)
	// DrainNode drains a node. The caller repeats the call until drained is true.
	DrainNode(task, deployment, node string, requeue func()) (drained, done bool, err error)
}

const (
	retrySpoke    = time.Minute      // delay after a failed call of a cluster
	drainInterval = 20 * time.Second // interval of checks of a node that is being drained
)

// drainOutcome is the last result of draining a node.
type drainOutcome struct {
	drained bool
	fault   string
}

// Machines finds the Machines of hosts in their clusters.
type Machines struct {
	DB      *store.DB
	Objects *objects.Objects
}

// Has reports whether a host's cluster has a Machine for the host, by the host's key. It reports
// false for a host that was deleted in the meantime.
func (m Machines) Has(key string) (has bool, err error) {
	err = m.DB.View(func(tx *store.Tx) error {
		_, host, err := objectsOf(tx, m.Objects, key)
		if host != nil {
			_, has = host.Annotations[spokeCreatedAnnotation]
		}
		return err
	})
	return has, err
}

// objectsOf returns the Agent of a host, by the host's key, and the Agent's BareMetalHost. Both are
// nil if the host has none.
func objectsOf(tx *store.Tx, o *objects.Objects, key string) (*agentinstall.Agent, *metal3.BareMetalHost, error) {
	row, err := record.Hosts.Get(tx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Object.Key == "" {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	namespace, name := objects.SplitKey(row.Object.Key)
	agent, err := objects.Find[agentinstall.Agent](o, tx, objects.Agents, namespace, name)
	if err != nil || agent == nil || agent.Labels[agentHostLabel] == "" {
		return nil, nil, err
	}
	host, err := objects.Find[metal3.BareMetalHost](o, tx, objects.BareMetalHosts, namespace,
		agent.Labels[agentHostLabel])
	if err != nil || host == nil {
		return nil, nil, err
	}
	return agent, host, nil
}

// callSpoke sends the requests of a pass to the cluster that the host belongs to.
func (c *Controllers) callSpoke(ctx context.Context, s *pass) error {
	if c.Spokes == nil || s.agent == nil || s.agent.Spec.ClusterDeploymentName == nil {
		return nil
	}
	if s.drainNode {
		return c.drain(s)
	}
	if s.host.DeletionTimestamp == nil && s.agent.Status.Kind == models.HostKindAddToExistingClusterHost &&
		!busy(s.agent) && s.agent.Status.DebugInfo.State != "" {
		return c.trustServer(ctx, s)
	}
	if s.host.DeletionTimestamp != nil || s.annotated(spokeCreatedAnnotation) ||
		s.agent.Status.Kind != models.HostKindAddToExistingClusterHost ||
		!slices.Contains([]string{models.HostStatusInstalling, models.HostStatusInstallingInProgress},
			s.agent.Status.DebugInfo.State) {
		return nil
	}
	return c.makeMachine(ctx, s)
}

// makeMachine creates a Machine for a host that joins a cluster, unless the cluster does not
// manage bare-metal Machines.
func (c *Controllers) makeMachine(ctx context.Context, s *pass) error {
	fits, err := c.managesMachines(*s.agent.Spec.ClusterDeploymentName)
	if err != nil || !fits {
		return err
	}
	spec, err := general(s.host.Spec)
	if err != nil {
		return err
	}
	hardware, err := json.Marshal(hardwareOf(s.agent))
	if err != nil {
		return err
	}
	ref := s.agent.Spec.ClusterDeploymentName
	done, err := c.Spokes.EnsureMachine(string(s.host.UID), ref.Namespace+"/"+ref.Name, spoke.Server{
		Name: s.host.Name, Cluster: ref.Name, Role: string(s.agent.Status.Role), Spec: spec, Hardware: string(hardware),
	}, c.requeue(s.host))
	switch {
	case !done:
		c.Loop.RepeatAtStart(keyOf(s.host))
		return nil
	case errors.Is(err, spoke.ErrNoMachines):
		return nil
	case err != nil:
		s.requeue(retrySpoke)
		return c.eventOnce(ctx, s, "SpokeMachineNotMade", err.Error())
	}
	return c.DB.Update(ctx, func(tx *store.Tx) error {
		return objects.IgnoreNotFound(c.Objects.Update(tx, objects.BareMetalHosts, s.host.Namespace, s.host.Name,
			func(u *unstructured.Unstructured) error {
				annotations := u.GetAnnotations()
				if annotations == nil {
					annotations = map[string]string{}
				}
				annotations[spokeCreatedAnnotation] = c.now().String()
				u.SetAnnotations(annotations)
				return nil
			}))
	})
}

// managesMachines reports whether a cluster manages its own servers. It does not if users manage
// its network.
func (c *Controllers) managesMachines(ref agentinstall.ClusterReference) (fits bool, err error) {
	err = c.DB.View(func(tx *store.Tx) error {
		cd, err := objects.Find[hivev1.ClusterDeployment](c.Objects, tx, objects.ClusterDeployments, ref.Namespace,
			ref.Name)
		if err != nil || cd == nil || cd.Spec.ClusterInstallRef == nil {
			return err
		}
		aci, err := objects.Find[hiveext.AgentClusterInstall](c.Objects, tx, objects.AgentClusterInstalls,
			ref.Namespace,
			cd.Spec.ClusterInstallRef.Name)
		if err != nil || aci == nil {
			return err
		}
		byPeople := aci.Spec.Networking.UserManagedNetworking
		fits = (byPeople == nil || !*byPeople) && aci.Spec.PlatformType != hiveext.NonePlatformType
		return nil
	})
	return fits, err
}

// drain drains the node of a host that is deleted with its Agent, and stores the result for the
// next pass.
func (c *Controllers) drain(s *pass) error {
	ref, id := s.agent.Spec.ClusterDeploymentName, string(s.host.UID)
	node := s.agent.Spec.Hostname
	if node == "" {
		node = s.agent.Status.Inventory.Hostname
	}
	drained, done, err := c.Spokes.DrainNode(id, ref.Namespace+"/"+ref.Name, node, c.requeue(s.host))
	if !done {
		c.Loop.RepeatAtStart(keyOf(s.host))
		return nil
	}
	outcome := drainOutcome{drained: drained && err == nil}
	if err != nil {
		outcome.fault = err.Error()
	}
	c.mu.Lock()
	before := c.drains[id]
	c.drains[id] = outcome
	c.mu.Unlock()
	if outcome != before {
		c.requeue(s.host)()
	} else {
		s.requeue(drainInterval)
	}
	return nil
}

func (c *Controllers) drained(id string) drainOutcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drains[id]
}

// requeue returns a function that queues a host.
func (c *Controllers) requeue(host *metal3.BareMetalHost) func() {
	key := keyOf(host)
	return func() { c.Loop.Enqueue(key) }
}

func keyOf(host *metal3.BareMetalHost) controller.Key {
	return controller.Key{Kind: objects.BareMetalHosts, Namespace: host.Namespace, Name: host.Name}
}

// eventOnce writes an Event about a host unless the last Event has the same message.
func (c *Controllers) eventOnce(ctx context.Context, s *pass, reason, message string) error {
	id := string(s.host.UID)
	c.mu.Lock()
	known := c.lastEvents[id] == message
	c.lastEvents[id] = message
	c.mu.Unlock()
	if known {
		return nil
	}
	return c.DB.Update(ctx, func(tx *store.Tx) error {
		u := &unstructured.Unstructured{}
		if err := c.Objects.Get(tx, objects.BareMetalHosts, s.host.Namespace, s.host.Name, u); err != nil {
			return objects.IgnoreNotFound(err)
		}
		return c.Objects.Event(tx, u, objects.EventContent{Component: agentComponent, Warning: true, Reason: reason,
			Message: message}, c.now())
	})
}
