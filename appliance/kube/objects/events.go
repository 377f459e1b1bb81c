package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/store"
)

// EventLife is the time from the last occurrence of an Event to its deletion. A hub keeps Events
// for an hour, but users often check a site the next morning.
const EventLife = 24 * time.Hour

// AgentController is the component of Events from the controllers of clusters and hosts.
const AgentController = "agent-controller"

// EventContent is the content of an Event.
type EventContent struct {
	Component string // name of the controller
	Warning   bool
	Reason    string // one word in CamelCase
	Message   string
}

// Event writes a core Event in the namespace of an object ("default" if it has none). If an Event
// with the same content exists, its count is increased.
func (o *Objects) Event(tx *store.Tx, about *unstructured.Unstructured, notice EventContent, now time.Time) error {
	namespace := about.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	name := EventName(about, notice)
	seen := metav1.NewTime(now.UTC().Truncate(time.Second))
	if err := Expiry().Set(tx, Events.Key(namespace, name), now.Add(EventLife)); err != nil {
		return err
	}
	err := o.Update(tx, Events, namespace, name, func(u *unstructured.Unstructured) error {
		count, _, err := unstructured.NestedInt64(u.Object, "count")
		if err != nil {
			return err
		}
		return errors.Join(
			unstructured.SetNestedField(u.Object, count+1, "count"),
			unstructured.SetNestedField(u.Object, seen.Format(time.RFC3339), "lastTimestamp"))
	})
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	kind := corev1.EventTypeNormal
	if notice.Warning {
		kind = corev1.EventTypeWarning
	}
	return o.Create(tx, Events, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: about.GetAPIVersion(), Kind: about.GetKind(), Namespace: about.GetNamespace(),
			Name: about.GetName(), UID: about.GetUID(), ResourceVersion: about.GetResourceVersion(),
		},
		Reason: notice.Reason, Message: notice.Message, Type: kind, Count: 1,
		Source:         corev1.EventSource{Component: notice.Component},
		FirstTimestamp: seen, LastTimestamp: seen,
		ReportingController: notice.Component,
	}, now)
}

// EventOnce writes an Event about an object, given by its name. It does nothing if the object does
// not exist or already has the same Event.
func (o *Objects) EventOnce(tx *store.Tx, kind Kind, namespace, name string, notice EventContent, now time.Time) error {
	about, err := o.Metadata(tx, kind, namespace, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || o.Exists(tx, Events, namespace, EventName(about, notice)) {
		return err
	}
	return o.Event(tx, about, notice, now)
}

// EventName returns the name of an Event, which is derived from its object and its content.
func EventName(about *unstructured.Unstructured, notice EventContent) string {
	digest := sha256.Sum256([]byte(string(about.GetUID()) + "\x00" + notice.Component + "\x00" + notice.Reason +
		"\x00" + notice.Message))
	return about.GetName() + "." + hex.EncodeToString(digest[:8])
}

// EnsureNamespace creates a namespace if it does not exist. A new namespace gets the labels with
// the value "true".
func (o *Objects) EnsureNamespace(tx *store.Tx, name string, now time.Time, labels ...string) error {
	if o.Exists(tx, Namespaces, "", name) {
		return nil
	}
	all := map[string]string{corev1.LabelMetadataName: name}
	for _, label := range labels {
		all[label] = "true"
	}
	return o.Create(tx, Namespaces, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}, now)
}
