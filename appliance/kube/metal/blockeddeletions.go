package metal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// blockedDeletions checks objects of all kinds that are being deleted. It releases Secrets of BMCs
// that no host uses. If finalizers block a deletion, it writes an Event that names the finalizers
// and the command that removes them.
type blockedDeletions struct{ *Controllers }

const (
	blockedAfter    = 2 * time.Minute // delay of the first Event
	blockedInterval = time.Hour       // interval of further Events
)

// blockedDeletion is the kind of the keys that the loop queues for these objects. The name of a key
// is "<kind>|<name>". No objects of this kind are stored.
var blockedDeletion = objects.Kind{Group: "landfall", Version: "v1", Kind: "Leftover", Resource: "leftovers",
	Namespaced: true}

// Kind implements controller.Reconciler.
func (l blockedDeletions) Kind() objects.Kind { return blockedDeletion }

// Watches implements controller.Reconciler.
func (l blockedDeletions) Watches() []controller.Watch {
	var watches []controller.Watch
	for _, kind := range objects.Kinds() {
		if kind == objects.Events {
			continue
		}
		watches = append(watches, controller.Watch{Kind: kind, Map: func(tx *store.Tx, namespace,
			name string) ([]controller.Key, error) {
			deleting, err := l.Objects.Deleting(tx, kind, namespace, name)
			if err != nil || !deleting {
				return nil, err
			}
			return []controller.Key{blockedDeletionKey(kind, namespace, name)}, nil
		}})
	}
	return watches
}

func blockedDeletionKey(kind objects.Kind, namespace, name string) controller.Key {
	return controller.Key{Kind: blockedDeletion, Namespace: namespace, Name: kind.String() + "|" + name}
}

// Reconcile implements controller.Reconciler. For an empty name, it checks all objects.
func (l blockedDeletions) Reconcile(ctx context.Context, namespace, name string) (again time.Duration, err error) {
	if name == "" {
		return 0, l.DB.View(l.findAll)
	}
	resource, name, _ := strings.Cut(name, "|")
	kinds := objects.Kinds()
	at := slices.IndexFunc(kinds, func(k objects.Kind) bool { return k.String() == resource })
	if at < 0 {
		return 0, fmt.Errorf("unknown kind %s", resource)
	}
	err = l.DB.Update(ctx, func(tx *store.Tx) error {
		again = 0
		if kinds[at] == objects.Secrets {
			if err := l.releaseUnusedSecret(tx, namespace, name); err != nil {
				return err
			}
		}
		u := &unstructured.Unstructured{}
		err := l.Objects.Get(tx, kinds[at], namespace, name, u)
		if err != nil || u.GetDeletionTimestamp() == nil || len(u.GetFinalizers()) == 0 {
			return objects.IgnoreNotFound(err)
		}
		if again = u.GetDeletionTimestamp().Add(blockedAfter).Sub(l.now()); again > 0 {
			return nil
		}
		again = blockedInterval
		return l.Objects.Event(tx, u, objects.EventContent{
			Component: "landfall", Warning: true, Reason: "DeletionWaits", Message: blockedMessage(kinds[at], u),
		}, l.now())
	})
	return again, err
}

// releaseUnusedSecret removes the finalizer of a BMC's Secret that no host uses. The pass of the
// last host removes it, but older versions did not if a namespace was deleted with two hosts of one
// Secret.
func (l blockedDeletions) releaseUnusedSecret(tx *store.Tx, namespace, name string) error {
	if err := l.index.load(tx); err != nil {
		return err
	}
	return l.releaseSecret(tx, ref{namespace: namespace}, name)
}

func (l blockedDeletions) findAll(tx *store.Tx) error {
	var errs []error
	for _, kind := range objects.Kinds() {
		if kind == objects.Events {
			continue
		}
		errs = append(errs, objects.Names(tx, kind, "", func(namespace, name string) error {
			deleting, err := l.Objects.Deleting(tx, kind, namespace, name)
			if deleting {
				l.Loop.Enqueue(blockedDeletionKey(kind, namespace, name))
			}
			return err
		}))
	}
	return errors.Join(errs...)
}

// blockedMessage returns the text of the Event: the finalizers that block the deletion of an
// object, and the command that removes them.
func blockedMessage(kind objects.Kind, u *unstructured.Unstructured) string {
	var foreign, own []string
	for _, finalizer := range u.GetFinalizers() {
		if removedHere(finalizer) {
			own = append(own, finalizer)
		} else {
			foreign = append(foreign, finalizer)
		}
	}
	since := u.GetDeletionTimestamp().UTC().Format(time.RFC3339)
	what := fmt.Sprintf("The deletion of %s %s has been waiting since %s", kind.Kind, u.GetName(), since)
	switch {
	case len(foreign) == 0:
		what += fmt.Sprintf(" for the finalizer %s; its conditions and other events show the reason.",
			strings.Join(own, ", "))
	default:
		what += fmt.Sprintf(" for the finalizer %s, which nothing at this site removes.", strings.Join(foreign, ", "))
	}
	scope := ""
	if kind.Namespaced {
		scope = "-n " + u.GetNamespace() + " "
	}
	left := "null"
	if len(own) > 0 && len(foreign) > 0 {
		left = `["` + strings.Join(own, `","`) + `"]`
	}
	return what +
		fmt.Sprintf(
			` To delete it anyway: kubectl %spatch %s %s --type=merge -p '{"metadata":{"finalizers":%s}}'`,
			scope, kind, u.GetName(), left)
}

// removedHere reports whether the appliance itself removes a finalizer.
func removedHere(finalizer string) bool {
	switch finalizer {
	case hostFinalizer, agentHostFinalizer, secretFinalizer, imageFinalizer, agentImageFinalizer,
		"hive.openshift.io/deprovision", "kubernetes", metav1.FinalizerDeleteDependents,
		metav1.FinalizerOrphanDependents:
		return true
	}
	group, name, _ := strings.Cut(finalizer, "/")
	return name == "ai-deprovision" && strings.HasSuffix(group, ".agent-install.openshift.io") ||
		strings.HasPrefix(finalizer, "agentclassification.agent-install.openshift.io")
}
