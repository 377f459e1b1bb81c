package hive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/appliance/objects"
	"landfall/appliance/objects/agentinstall"
	"landfall/store"
)

// EventsOf returns the projector that shows the engine's events as Events of the objects that they are about, so that kubectl describe and
// kubectl events tell the story of an installation: those of a cluster at its AgentClusterInstall, of a host at its Agent, of an
// infra-env at its InfraEnv. It comes behind the projectors that write these.
func EventsOf(o *objects.Objects) engine.Projector { return eventProjector{o} }

type eventProjector struct{ objects *objects.Objects }

// componentService is who Events come from that are the engine's.
const componentService = "assisted-service"

// toldOfHosts are the events of hosts that are shown although nothing is wrong. There are many others, and many hosts; all are at the Agent's
// eventsURL.
var toldOfHosts = map[string]bool{
	"host_registration_succeeded": true, "host_status_updated": true, "host_bind_succeeded": true, "host_unbind_succeeded": true,
}

// Project implements engine.Projector.
func (p eventProjector) Project(tx *store.Tx, touched engine.Touched) error {
	for _, event := range touched.Events {
		kind, namespace, name, err := p.about(tx, touched.Rows, event)
		if engine.KindOf(err) == engine.NotFound {
			continue // it ends with this change
		}
		if err == nil && name != "" {
			err = p.tell(tx, touched, event, kind, namespace, name)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("show the event %s: %w", event.Name, err)
		}
	}
	return nil
}

// about is the object that an event is about; there is none without a name.
func (p eventProjector) about(tx *store.Tx, rows engine.Rows, event *models.Event) (kind objects.Kind, namespace, name string, err error) {
	plain := conv.Value(event.Severity) == models.EventSeverityInfo
	switch {
	case event.HostID != nil && event.InfraEnvID != nil:
		if plain && !toldOfHosts[event.Name] {
			return kind, "", "", nil
		}
		env, err := rows.InfraEnv(event.InfraEnvID.String())
		if err != nil {
			return kind, "", "", err
		}
		namespace, _ = splitKey(env.Object.Key)
		return objects.Agents, namespace, event.HostID.String(), nil
	case event.HostID == nil && event.ClusterID != nil:
		cluster, err := rows.Cluster(event.ClusterID.String())
		if err != nil {
			return kind, "", "", err
		}
		namespace, name = splitKey(cluster.Object.Key)
		var deployment struct {
			Spec struct {
				ClusterInstallRef struct {
					Name string `json:"name"`
				} `json:"clusterInstallRef"`
			} `json:"spec"`
		}
		err = p.objects.Get(tx, objects.ClusterDeployments, namespace, name, &deployment)
		return objects.AgentClusterInstalls, namespace, deployment.Spec.ClusterInstallRef.Name, err
	case event.HostID == nil && event.InfraEnvID != nil:
		env, err := rows.InfraEnv(event.InfraEnvID.String())
		if err != nil {
			return kind, "", "", err
		}
		namespace, name = splitKey(env.Object.Key)
		return objects.InfraEnvs, namespace, name, nil
	}
	return kind, "", "", nil
}

// tell writes the Event, unless its object or namespace is on its way out.
func (p eventProjector) tell(tx *store.Tx, touched engine.Touched, event *models.Event, kind objects.Kind, namespace, name string) error {
	about, err := p.objects.Metadata(tx, kind, namespace, name)
	if err != nil || about.GetDeletionTimestamp() != nil {
		return err
	}
	home, err := p.objects.Metadata(tx, objects.Namespaces, "", namespace)
	if err != nil || home.GetDeletionTimestamp() != nil {
		return err
	}
	return p.objects.Event(tx, about, objects.Notice{
		Component: componentService, Warning: conv.Value(event.Severity) != models.EventSeverityInfo, Reason: camelCase(event.Name), Message: conv.Value(event.Message),
	}, touched.Now)
}

// camelCase makes an Event's reason of an event's name: host_status_updated is HostStatusUpdated.
func camelCase(name string) string {
	var words strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if word != "" {
			words.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return words.String()
}

// refuseInstall says of a ClusterDeployment that nobody here installs it, which is a slip of the pen more often than intent.
func (c *Clusters) refuseInstall(ctx context.Context, s *situation) error {
	ref := s.cd.Spec.ClusterInstallRef
	if ref == nil || s.cd.DeletionTimestamp != nil {
		return nil
	}
	return c.update(ctx, func(tx *store.Tx) error {
		return tellOnce(tx, c.Objects, objects.ClusterDeployments, s.namespace, s.name, objects.Notice{
			Component: componentHosts, Warning: true, Reason: "UnsupportedClusterInstall", Message: fmt.Sprintf(
				"The clusterInstallRef names the kind %s of %s, and clusters are installed here by %s of %s alone. The reference can't be changed: delete the ClusterDeployment and apply it with the right one.",
				ref.Kind, ref.Group, clusterInstallKind, clusterInstallGroup),
		}, c.Clock.Now().UTC())
	})
}

// noDelay is what an InfraEnv hears that asks for a delay. Upstream's script looks for the cards once, and is delayed for those that come late.
func noDelay(spec *agentinstall.InfraEnvSpec) (objects.Notice, bool) {
	if conv.Value(spec.NetworkDiscoveryDelaySeconds) == 0 {
		return objects.Notice{}, false
	}
	return objects.Notice{
		Component: componentHosts, Reason: "NetworkDiscoveryDelayLeftOut", Message: "networkDiscoveryDelaySeconds has no effect: hosts look for the network cards that NMStateConfigs name " +
			"until all are there, for up to 30 seconds, and go on at once then.",
	}, true
}

// tellOnce writes an Event about an object, unless it is there from before.
func tellOnce(tx *store.Tx, o *objects.Objects, kind objects.Kind, namespace, name string, notice objects.Notice, now time.Time) error {
	about, err := o.Metadata(tx, kind, namespace, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || o.Exists(tx, objects.Events, namespace, objects.EventName(about, notice)) {
		return err
	}
	return o.Event(tx, about, notice, now)
}
