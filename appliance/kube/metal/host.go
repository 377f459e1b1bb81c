package metal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"landfall/appliance/bmc"
	"landfall/appliance/fault"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// hosts reconciles BareMetalHosts. A pass reads the host with its related objects and writes all
// changes in one transaction. Then it sends the desired state of the server to the BMC manager,
// which is idempotent.
type hosts struct{ *Controllers }

// Kind implements controller.Reconciler.
func (h hosts) Kind() objects.Kind { return objects.BareMetalHosts }

// Watches implements controller.Reconciler.
func (h hosts) Watches() []controller.Watch {
	return []controller.Watch{
		{Kind: objects.Agents, Map: h.hostsOfAgent},
		{Kind: objects.InfraEnvs, Map: h.hostsOfInfraEnv},
		{Kind: objects.Secrets, Map: h.hostsOfSecret},
		{Kind: objects.PreprovisioningImages, Map: h.hostOfImage},
		{Prefix: bmc.ServerPrefix(), Map: h.hostOfServer},
	}
}

// Reconcile implements controller.Reconciler.
func (h hosts) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	at := ref{namespace, name}
	server, err := h.serverOf(at)
	if err != nil {
		return 0, err
	}
	var s *pass
	err = h.DB.Update(ctx, func(tx *store.Tx) error {
		s = nil
		if err := h.index.load(tx); err != nil {
			return err
		}
		u := &unstructured.Unstructured{}
		if err := h.Objects.Get(tx, objects.BareMetalHosts, namespace, name, u); errors.Is(err, store.ErrNotFound) {
			return h.releaseSecret(tx, at, h.index.secretOf(at)) // a user removed the finalizer of the host
		} else if err != nil {
			return err
		}
		if s, err = h.read(tx, u, server); err != nil {
			return err
		}
		return h.run(tx, u, s)
	})
	if err != nil {
		return 0, err
	}
	if s == nil {
		return 0, h.dropHost(ctx, at, server)
	}
	h.forget(h.index.setHost(at, s.host))
	h.setRelayed(s.server)
	if s.restartHost {
		// RestartHost changes the Agent, which queues the host again.
		infraEnvID, hostID, _ := strings.Cut(s.hostKey, "/")
		err := h.RestartHost(ctx, infraEnvID, hostID)
		if kind := fault.KindOf(err); kind == fault.Conflict || kind == fault.NotFound {
			return s.requeueAfter, nil // the Agent has changed since it was read, and is reconciled again
		}
		return s.requeueAfter, err
	}
	if err := h.callSpoke(ctx, s); err != nil {
		return 0, err
	}
	changed, err := h.applyServer(ctx, s)
	if changed && err == nil {
		h.requeue(s.host)() // the next reconcile writes the error into the status
	}
	return s.requeueAfter, err
}

// serverOf returns the BMC manager's server of a host; nil if it does not exist.
func (c *Controllers) serverOf(at ref) (*bmc.Server, error) {
	server, err := c.Servers.Find(at.namespace + "/" + at.name)
	var missing *bmc.NotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	return server, err
}

// read reads the objects that are related to a host.
func (c *Controllers) read(tx *store.Tx, u *unstructured.Unstructured, server *bmc.Server) (*pass, error) {
	host := &metal3.BareMetalHost{}
	if err := objects.Into(u.DeepCopy(), host); err != nil {
		return nil, err
	}
	if host.Labels == nil {
		host.Labels = map[string]string{}
	}
	s := &pass{host: host, now: c.now(), imageAge: c.ImageSettles, hasSpokes: c.Spokes != nil,
		drain: c.drained(string(host.UID))}
	if server != nil && server.ID == string(host.UID) {
		s.server = server
		s.refusal = c.refusal(server.ID)
	} else {
		s.refusal = c.refusal(string(host.UID))
	}
	s.keepPower, _, _ = unstructured.NestedBool(u.Object, "spec", "disablePowerOff")
	var err error
	if s.flow, err = c.flow(tx); err != nil {
		return nil, err
	}
	if name := host.Labels[infraEnvLabel]; name != "" {
		if s.infraEnv, err = objects.Find[agentinstall.InfraEnv](c.Objects, tx, objects.InfraEnvs, host.Namespace,
			name); err != nil {
			return nil, err
		}
	}
	if s.infraEnv != nil {
		if s.engineID, err = c.InfraEnvID(tx, s.infraEnv.Namespace, s.infraEnv.Name); err != nil {
			return nil, err
		}
	}
	if s.agent, err = c.agentOf(tx, host); err != nil {
		return nil, err
	}
	if err := c.checkAgent(tx, s); err != nil {
		return nil, err
	}
	if s.agent != nil {
		if s.hostKey, err = c.HostKey(tx, s.agent.Namespace, s.agent.Name); err != nil {
			return nil, err
		}
	}
	// The deletion needs no credentials, because the BMC manager has its own.
	if host.Spec.BMC.CredentialsName != "" && host.DeletionTimestamp == nil {
		if s.secret, err = objects.Find[corev1.Secret](c.Objects, tx, objects.Secrets, host.Namespace,
			host.Spec.BMC.CredentialsName); err != nil {
			return nil, err
		}
	}
	s.image, err = objects.Find[metal3.PreprovisioningImage](c.Objects, tx, objects.PreprovisioningImages,
		host.Namespace,
		host.Name)
	return s, err
}

// run computes the changes of a pass and writes them.
func (c *Controllers) run(tx *store.Tx, u *unstructured.Unstructured, s *pass) error {
	before := s.host.DeepCopy()
	toAgent := s.runAgentController()
	if toAgent {
		s.annotateHardware()
	}
	s.runOperator()
	if err := c.releaseFormerSecret(tx, s.host); err != nil {
		return err
	}
	if s.released {
		s.host.Finalizers = without(s.host.Finalizers, hostFinalizer)
		if err := c.releaseSecret(tx, ref{s.host.Namespace, s.host.Name}, s.host.Spec.BMC.CredentialsName); err != nil {
			return err
		}
	} else if s.host.DeletionTimestamp == nil && s.host.Spec.BMC.CredentialsName != "" {
		if err := c.claimSecret(tx, s.host); err != nil {
			return err
		}
	}
	if s.host.DeletionTimestamp == nil && s.flow.converged && s.infraEnv != nil {
		if err := c.createImage(tx, s); err != nil {
			return err
		}
	}
	if toAgent {
		if err := c.writeAgent(tx, s); err != nil {
			return err
		}
	} else if s.host.DeletionTimestamp != nil && s.removesAgent() && s.agent != nil &&
		!hasFinalizer(s.host, agentHostFinalizer) {
		if err := c.Objects.Delete(tx, objects.Agents, s.agent.Namespace, s.agent.Name, s.now); err != nil {
			return err
		}
	}
	if err := c.writeHardware(tx, s); err != nil {
		return err
	}
	c.relayHistory(s)
	for _, notice := range s.events {
		if err := c.Objects.Event(tx, u, notice, s.now); err != nil {
			return err
		}
	}
	return c.writeHost(tx, before, s.host)
}

// writeAgent writes the values of a host's annotations into its Agent. It reports an error as an
// Event of the host.
func (c *Controllers) writeAgent(tx *store.Tx, s *pass) error {
	if err := c.writeFencingSecret(tx, s); err != nil {
		return err
	}
	return objects.IgnoreNotFound(c.Objects.Update(tx, objects.Agents, s.agent.Namespace, s.agent.Name,
		func(u *unstructured.Unstructured) error {
			if u.GetDeletionTimestamp() != nil {
				return nil
			}
			if err := editAgent(u, s.agent, s.host, s.infraEnv); err != nil {
				s.event(agentComponent, true, "AgentNotUpdated", err.Error())
			}
			return nil
		}))
}

// writeHardware writes the HardwareData object of the host.
func (c *Controllers) writeHardware(tx *store.Tx, s *pass) error {
	details := s.host.Status.HardwareDetails
	if details == nil || s.host.DeletionTimestamp != nil {
		return nil
	}
	spec, err := general(metal3.HardwareDataSpec{HardwareDetails: details})
	if err != nil {
		return err
	}
	err = c.Objects.Update(tx, objects.HardwareDatas, s.host.Namespace, s.host.Name,
		func(u *unstructured.Unstructured) error {
			u.Object["spec"] = spec
			return nil
		})
	if errors.Is(err, store.ErrNotFound) {
		return c.Objects.Create(tx, objects.HardwareDatas, &metal3.HardwareData{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.host.Namespace, Name: s.host.Name, OwnerReferences: []metav1.OwnerReference{ownedBy(s.host,
					true)},
			},
			Spec: metal3.HardwareDataSpec{HardwareDetails: details},
		}, s.now)
	}
	return err
}

// writeHost writes only the fields of a host that a pass has changed. It keeps the stored fields
// that the Go type lacks.
func (c *Controllers) writeHost(tx *store.Tx, before, host *metal3.BareMetalHost) error {
	return objects.IgnoreNotFound(c.Objects.Update(tx, objects.BareMetalHosts, host.Namespace, host.Name,
		func(u *unstructured.Unstructured) error {
			u.SetAnnotations(host.Annotations)
			if len(host.Labels) > 0 {
				u.SetLabels(host.Labels)
			}
			u.SetFinalizers(host.Finalizers)
			spec, err := general(host.Spec)
			if err != nil {
				return err
			}
			had, err := general(before.Spec)
			if err != nil {
				return err
			}
			for _, field := range []string{"image", "customDeploy", "online", "automatedCleaningMode"} {
				value, ok := spec[field]
				switch _, was := had[field]; {
				case ok:
					err = errors.Join(err, unstructured.SetNestedField(u.Object, value, "spec", field))
				case was:
					unstructured.RemoveNestedField(u.Object, "spec", field)
				}
			}
			if err != nil {
				return fmt.Errorf("write the spec of the BareMetalHost %s/%s: %w", host.Namespace, host.Name, err)
			}
			if sameStatus(before.Status, host.Status) {
				return nil
			}
			u.Object["status"], err = general(host.Status)
			return err
		}))
}

// general converts a part of an object to its unstructured form.
func general(part any) (map[string]any, error) {
	text, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	return fields, utiljson.Unmarshal(text, &fields)
}

// applyServer sends the desired state of a host's server to the BMC manager. changed reports
// whether the stored error of the last request has changed.
func (c *Controllers) applyServer(ctx context.Context, s *pass) (changed bool, err error) {
	id, wanted := string(s.host.UID), s.desiredServer()
	switch {
	case wanted.remove && s.server != nil:
		return false, c.Servers.Remove(ctx, id, wanted.powerOff)
	case wanted.desired == nil:
		return false, nil
	}
	_, err = c.Servers.Ensure(ctx, id, *wanted.desired)
	var refused *bmc.RequestError
	if errors.As(err, &refused) {
		return c.refuse(id, refused.Reason), nil
	}
	var duplicate *bmc.DuplicateError
	if errors.As(err, &duplicate) {
		s.requeue(duplicateInterval) // until the other server is removed
		return c.refuse(id, duplicate.Error()), nil
	}
	if err == nil && wanted.hardPowerOff {
		_, err = c.Servers.RequestAction(ctx, id, bmc.ActionPowerOff)
	}
	return c.refuse(id, ""), err
}

// duplicateInterval is the time between two requests for a server whose machine another server has.
const duplicateInterval = time.Minute

// dropHost removes a deleted host from memory. It also removes the server if that still exists,
// because a user removed the finalizer of the host.
func (c *Controllers) dropHost(ctx context.Context, at ref, server *bmc.Server) error {
	c.forget(c.index.setHost(at, nil))
	if server == nil {
		return nil
	}
	c.forget(server.ID)
	if server.Owner == "" {
		return nil // the server is not managed by a BareMetalHost, but has the same name
	}
	return c.Servers.Remove(ctx, server.ID, false)
}

// forget removes the notes about a host that does not exist any more.
func (c *Controllers) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refusals, id)
	delete(c.relayed, id)
	delete(c.drains, id)
	delete(c.lastEvents, id)
	delete(c.trusting, id)
}

// refusal returns the error of the last request for a server; "" if it succeeded.
func (c *Controllers) refusal(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusals[id]
}

func (c *Controllers) refuse(id, reason string) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = c.refusals[id] != reason
	if c.refusals[id] = reason; reason == "" {
		delete(c.refusals, id)
	}
	return changed
}

// relayHistory writes Events for the entries that were added to a server's history since the last
// pass, or since the start of the appliance.
func (c *Controllers) relayHistory(s *pass) {
	if s.server == nil {
		return
	}
	until := c.relayedUntil(s.server.ID)
	for _, note := range s.server.History {
		if note.At.After(until) {
			s.event(operatorComponent, note.Warning, note.Reason, note.Message)
		}
	}
}

func (c *Controllers) relayedUntil(id string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.relayed[id]; ok {
		return at
	}
	return c.started
}

// setRelayed records the time of the last history entry that was written as an Event.
func (c *Controllers) setRelayed(server *bmc.Server) {
	if server == nil || len(server.History) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.relayed[server.ID] = server.History[len(server.History)-1].At
}
