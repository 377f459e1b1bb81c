package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// emptyNamespace deletes all objects of a namespace that is being deleted, then the namespace.
// Objects with finalizers stay until the finalizers are removed; the conditions of the namespace
// name them.
func (k *garbageCollector) emptyNamespace(ctx context.Context, namespace string) {
	for more := true; more; {
		var err error
		if more, err = k.emptyBatch(ctx, namespace); err != nil {
			k.retryLater(ctx, namespace, err)
			return
		}
	}
}

// remaining counts the remaining objects of a namespace.
type remaining struct {
	objects    int
	finalizers map[string][]place
}

// emptyBatch deletes some objects of a namespace. When it can delete none, it finishes the
// namespace in the same transaction, so that no object is left in a namespace that does not exist.
func (k *garbageCollector) emptyBatch(ctx context.Context, namespace string) (more bool, err error) {
	err = k.db.Update(ctx, func(tx *store.Tx) error {
		more = false
		// Another namespace may have the name by now.
		if deleting, err := k.objects.Deleting(tx, objects.Namespaces, "", namespace); err != nil || !deleting {
			return err
		}
		left, removed := remaining{finalizers: map[string][]place{}}, 0
		keys, err := keysIn(tx, namespace)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if removed == purgeBatch {
				break
			}
			at := parseKey(key)
			u := &unstructured.Unstructured{}
			if err := k.objects.Get(tx, at.kind, at.namespace, at.name, u); err != nil {
				return err
			}
			if u.GetDeletionTimestamp() == nil || len(u.GetFinalizers()) == 0 {
				removed++
				if err := k.objects.Delete(tx, at.kind, at.namespace, at.name, k.clock.Now()); err != nil {
					return err
				}
				continue
			}
			left.objects++
			for _, finalizer := range u.GetFinalizers() {
				left.finalizers[finalizer] = append(left.finalizers[finalizer], at)
			}
		}
		if more = removed > 0; more {
			return nil
		}
		return k.finishNamespace(tx, namespace, left)
	})
	return more, err
}

// keysIn returns the keys of all objects in a namespace. It skips from one resource to the next.
func keysIn(tx *store.Tx, namespace string) (keys []string, err error) {
	for from := ""; ; {
		rows, _, _, err := Rows().Range(tx, store.Range{From: from, Limit: 1, KeysOnly: true})
		if err != nil || len(rows) == 0 {
			return keys, err
		}
		parts := strings.SplitN(rows[0].Key, "/", 3)
		resource := parts[0] + "/" + parts[1] + "/"
		if at := parseKey(rows[0].Key); at.kind.Namespaced {
			prefix := resource + namespace + "/"
			rows, _, _, err := Rows().Range(tx, store.Range{From: prefix, End: Rows().End(prefix), KeysOnly: true})
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				keys = append(keys, row.Key)
			}
		}
		from = Rows().End(resource)
	}
}

// finishNamespace removes an empty namespace, or writes the remaining objects into its conditions.
func (k *garbageCollector) finishNamespace(tx *store.Tx, namespace string, left remaining) error {
	return k.objects.Update(tx, objects.Namespaces, "", namespace, func(u *unstructured.Unstructured) error {
		if left.objects > 0 {
			return k.setNamespaceConditions(u, left)
		}
		var object corev1.Namespace
		if err := objects.Into(u, &object); err != nil {
			return err
		}
		finalizers := slices.DeleteFunc(object.Spec.Finalizers,
			func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		if len(finalizers) > 0 {
			// Other finalizers block the deletion.
			return unstructured.SetNestedStringSlice(u.Object, finalizerNames(finalizers), "spec", "finalizers")
		}
		unstructured.RemoveNestedField(u.Object, "spec", "finalizers")
		return nil
	})
}

func finalizerNames(finalizers []corev1.FinalizerName) []string {
	var list []string
	for _, f := range finalizers {
		list = append(list, string(f))
	}
	return list
}

// setNamespaceConditions writes the remaining objects of a namespace into its status, with the
// texts of a cluster and advice for users.
func (k *garbageCollector) setNamespaceConditions(u *unstructured.Unstructured, left remaining) error {
	var waits []string
	for _, finalizer := range slices.Sorted(maps.Keys(left.finalizers)) {
		waits = append(waits, fmt.Sprintf("%s in %d resource instances", finalizer, len(left.finalizers[finalizer])))
	}
	message := "Some content in the namespace has finalizers remaining: " + strings.Join(waits, ", ")
	for _, finalizer := range slices.Sorted(maps.Keys(left.finalizers)) {
		first := left.finalizers[finalizer][0]
		message += fmt.Sprintf("; to remove %s manually: kubectl -n %s patch %s %s --type=merge -p "+
			"'{\"metadata\":{\"finalizers\":null}}'",
			finalizer, first.namespace, first.kind, first.name)
	}
	conditions := []corev1.NamespaceCondition{
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Reason: "SomeResourcesRemain",
			Message: fmt.Sprintf("Some resources are remaining: %d", left.objects)},
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Reason: "SomeFinalizersRemain",
			Message: message},
	}
	var object corev1.Namespace
	if err := objects.Into(u, &object); err != nil {
		return err
	}
	list := make([]any, 0, len(conditions))
	for _, condition := range conditions {
		condition.LastTransitionTime = metav1.NewTime(k.clock.Now().UTC().Truncate(time.Second))
		for _, before := range object.Status.Conditions {
			if before.Type == condition.Type && before.Message == condition.Message {
				condition.LastTransitionTime = before.LastTransitionTime
			}
		}
		plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&condition)
		if err != nil {
			return err
		}
		list = append(list, plain)
	}
	return unstructured.SetNestedSlice(u.Object, list, "status", "conditions")
}
