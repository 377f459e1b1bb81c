package projection

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"

	"landfall/appliance/engine"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// EventsOf returns the projector that writes the engine's events as Kubernetes Events, for kubectl
// describe and kubectl events. Events of a cluster are about its AgentClusterInstall, those of a
// host about its Agent, and those of an infra-env about its InfraEnv. The projector must come after
// the projectors of these objects.
func EventsOf(o *objects.Objects) engine.Projector { return eventProjector{o} }

type eventProjector struct{ objects *objects.Objects }

// componentService is the component of Events from the engine.
const componentService = "assisted-service"

// normalHostEvents are the host events that are projected although they are not warnings. Other
// normal events are omitted, because a site has many hosts. The Agent's eventsURL lists all events.
var normalHostEvents = map[string]bool{
	"host_registration_succeeded": true, "host_status_updated": true, "host_bind_succeeded": true,
	"host_unbind_succeeded": true,
}

// projected reports whether an event is projected.
func projected(event *models.Event) bool {
	ofHost := event.HostID != nil && event.InfraEnvID != nil
	return !ofHost || conv.Value(event.Severity) != models.EventSeverityInfo || normalHostEvents[event.Name]
}

// Project implements engine.Projector.
func (p eventProjector) Project(tx *store.Tx, touched engine.Touched) error {
	for _, event := range touched.Events {
		kind, namespace, name, err := p.involvedObject(tx, touched.Rows, event)
		if err == nil && name != "" {
			err = p.write(tx, touched, event, kind, namespace, name)
		}
		// If this change deletes the object, or the object is damaged, its events are only in
		// the REST API. The events of other objects are shown.
		if fault.KindOf(err) == fault.NotFound || errors.Is(err, store.ErrNotFound) || store.IsDamaged(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("project the event %s: %w", event.Name, err)
		}
	}
	return nil
}

// involvedObject returns the Kubernetes object that an event is about. The name is "" if there is
// no such object.
func (p eventProjector) involvedObject(tx *store.Tx, rows view.Rows,
	event *models.Event) (kind objects.Kind, namespace, name string, err error) {
	if !projected(event) {
		return kind, "", "", nil
	}
	switch {
	case event.HostID != nil && event.InfraEnvID != nil:
		env, err := rows.InfraEnv(event.InfraEnvID.String())
		if err != nil {
			return kind, "", "", err
		}
		namespace, _ = objects.SplitKey(env.Object.Key)
		return objects.Agents, namespace, event.HostID.String(), nil
	case event.HostID == nil && event.ClusterID != nil:
		cluster, err := rows.Cluster(event.ClusterID.String())
		if err != nil {
			return kind, "", "", err
		}
		namespace, name = objects.SplitKey(cluster.Object.Key)
		deployment, err := objects.SharedAs[hivev1.ClusterDeployment](p.objects, tx, objects.ClusterDeployments,
			namespace, name)
		if err != nil || deployment == nil || deployment.Spec.ClusterInstallRef == nil {
			return kind, "", "", err
		}
		return objects.AgentClusterInstalls, namespace, deployment.Spec.ClusterInstallRef.Name, nil
	case event.HostID == nil && event.InfraEnvID != nil:
		env, err := rows.InfraEnv(event.InfraEnvID.String())
		if err != nil {
			return kind, "", "", err
		}
		namespace, name = objects.SplitKey(env.Object.Key)
		return objects.InfraEnvs, namespace, name, nil
	}
	return kind, "", "", nil
}

// write writes an Event, unless the involved object or its namespace is being deleted.
func (p eventProjector) write(tx *store.Tx, touched engine.Touched, event *models.Event, kind objects.Kind, namespace,
	name string) error {
	about, err := p.objects.Metadata(tx, kind, namespace, name)
	if err != nil || about.GetDeletionTimestamp() != nil {
		return err
	}
	home, err := p.objects.Metadata(tx, objects.Namespaces, "", namespace)
	if err != nil || home.GetDeletionTimestamp() != nil {
		return err
	}
	return p.objects.Event(tx, about, objects.EventContent{
		Component: componentService, Warning: conv.Value(event.Severity) != models.EventSeverityInfo,
		Reason: camelCase(event.Name), Message: conv.Value(event.Message),
	}, touched.Now)
}

// camelCase converts the name of an event to the reason of an Event: host_status_updated to
// HostStatusUpdated.
func camelCase(name string) string {
	var words strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if word != "" {
			words.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return words.String()
}
