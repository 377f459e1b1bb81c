package kube

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// ownerGraph maps owners, by uid, to their dependents.
type ownerGraph struct {
	of     map[types.UID]map[string]bool // keys of the dependents, by the owner's uid
	owners map[string][]types.UID        // uids of the owners, by an object's key
}

func newGraph() ownerGraph {
	return ownerGraph{of: map[types.UID]map[string]bool{}, owners: map[string][]types.UID{}}
}

func (g ownerGraph) set(key string, a ownership) {
	g.remove(key)
	for _, owner := range a.owners {
		if g.of[owner.UID] == nil {
			g.of[owner.UID] = map[string]bool{}
		}
		g.of[owner.UID][key] = true
		g.owners[key] = append(g.owners[key], owner.UID)
	}
}

func (g ownerGraph) remove(key string) {
	for _, owner := range g.owners[key] {
		if delete(g.of[owner], key); len(g.of[owner]) == 0 {
			delete(g.of, owner)
		}
	}
	delete(g.owners, key)
}

func (g ownerGraph) dependents(owner types.UID) []string {
	return slices.Sorted(maps.Keys(g.of[owner]))
}

// collect checks the owners and finalizers of an object. It deletes an object whose last owner was
// deleted. For an object that is being deleted, it deletes or orphans the dependents first if the
// client requested that.
func (k *garbageCollector) collect(ctx context.Context, key string) {
	at := parseKey(key)
	var follow []string
	err := k.db.Update(ctx, func(tx *store.Tx) error {
		follow = nil
		u := &unstructured.Unstructured{}
		if err := k.objects.Get(tx, at.kind, at.namespace, at.name, u); err != nil {
			return ignoreNotFound(err)
		}
		if u.GetDeletionTimestamp() != nil {
			if slices.Contains(u.GetFinalizers(), metav1.FinalizerOrphanDependents) {
				return k.orphan(tx, at, u.GetUID())
			}
			if slices.Contains(u.GetFinalizers(), metav1.FinalizerDeleteDependents) {
				var err error
				follow, err = k.deleteDependents(tx, at, u.GetUID())
				return err
			}
			return nil
		}
		return k.checkOwners(tx, at, u)
	})
	if err != nil {
		k.retryLater(ctx, key, err)
		return
	}
	for _, dependent := range follow {
		k.collect(ctx, dependent)
	}
}

// collectOwner checks an owner that may wait for the deletion of its dependents.
func (k *garbageCollector) collectOwner(ctx context.Context, namespace string, owner metav1.OwnerReference) {
	kind, ok := k.discovery.kind(owner.APIVersion, owner.Kind)
	if ok {
		k.collect(ctx, placeOf(kind, namespace, owner.Name).key())
	}
}

func placeOf(kind objects.Kind, namespace, name string) place {
	if !kind.Namespaced {
		namespace = ""
	}
	return place{kind, namespace, name}
}

// orphan removes the owner references of an object's dependents, then its finalizer.
func (k *garbageCollector) orphan(tx *store.Tx, at place, uid types.UID) error {
	for _, key := range k.graph.dependents(uid) {
		dependent := parseKey(key)
		err := k.objects.Update(tx, dependent.kind, dependent.namespace, dependent.name,
			func(u *unstructured.Unstructured) error {
				removeOwners(u, func(owner metav1.OwnerReference) bool { return owner.UID == uid })
				return nil
			})
		if ignoreNotFound(err) != nil {
			return err
		}
	}
	return k.dropFinalizer(tx, at, metav1.FinalizerOrphanDependents)
}

// deleteDependents deletes the dependents of an object with foreground deletion, and removes its
// finalizer when no blocking dependent is left. It returns the objects to check next.
func (k *garbageCollector) deleteDependents(tx *store.Tx, at place, uid types.UID) (follow []string, err error) {
	waiting := false
	for _, key := range k.graph.dependents(uid) {
		dependent := parseKey(key)
		u := &unstructured.Unstructured{}
		if err := k.objects.Get(tx, dependent.kind, dependent.namespace, dependent.name, u); errors.Is(err,
			store.ErrNotFound) {
			continue
		} else if err != nil {
			return nil, err
		}
		for _, owner := range u.GetOwnerReferences() {
			waiting = waiting || owner.UID == uid && owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion
		}
		if u.GetDeletionTimestamp() == nil {
			follow = append(follow, key)
		}
	}
	if waiting {
		return follow, nil
	}
	return nil, k.dropFinalizer(tx, at, metav1.FinalizerDeleteDependents)
}

func (k *garbageCollector) dropFinalizer(tx *store.Tx, at place, finalizer string) error {
	return ignoreNotFound(k.objects.Update(tx, at.kind, at.namespace, at.name,
		func(u *unstructured.Unstructured) error {
			objects.RemoveFinalizer(u, finalizer)
			return nil
		}))
}

// checkOwners deletes an object whose owners are all deleted or being deleted in the foreground. An
// object that still has an owner loses its references to the other owners.
func (k *garbageCollector) checkOwners(tx *store.Tx, at place, u *unstructured.Unstructured) error {
	owners := u.GetOwnerReferences()
	if len(owners) == 0 {
		return nil
	}
	existing, deleted, inForeground := 0, map[types.UID]bool{}, false
	for _, owner := range owners {
		state, err := k.stateOf(tx, at.namespace, owner)
		if err != nil {
			return err
		}
		switch state {
		case ownerExists:
			existing++
		case ownerDeletedInForeground:
			inForeground, deleted[owner.UID] = true, true
		case ownerDeleted:
			deleted[owner.UID] = true
		}
	}
	if existing == 0 {
		if inForeground && len(k.graph.dependents(u.GetUID())) > 0 {
			return k.deleteInForeground(tx, at)
		}
		return k.objects.Delete(tx, at.kind, at.namespace, at.name, k.clock.Now())
	}
	if len(deleted) == 0 {
		return nil
	}
	return k.objects.Update(tx, at.kind, at.namespace, at.name, func(u *unstructured.Unstructured) error {
		removeOwners(u, func(owner metav1.OwnerReference) bool { return deleted[owner.UID] })
		return nil
	})
}

// deleteInForeground deletes an object in the foreground: after its dependents.
func (k *garbageCollector) deleteInForeground(tx *store.Tx, at place) error {
	if err := k.objects.Update(tx, at.kind, at.namespace, at.name, func(u *unstructured.Unstructured) error {
		objects.AddFinalizer(u, metav1.FinalizerDeleteDependents)
		return nil
	}); err != nil {
		return err
	}
	return k.objects.Delete(tx, at.kind, at.namespace, at.name, k.clock.Now())
}

type ownerState int

const (
	ownerExists ownerState = iota
	ownerDeletedInForeground
	ownerDeleted
)

// stateOf returns the state of an owner. An owner of an unknown kind is assumed to exist.
func (k *garbageCollector) stateOf(tx *store.Tx, namespace string, owner metav1.OwnerReference) (ownerState, error) {
	kind, ok := k.discovery.kind(owner.APIVersion, owner.Kind)
	if !ok {
		return ownerExists, nil
	}
	row, err := Rows().Get(tx, placeOf(kind, namespace, owner.Name).key())
	if errors.Is(err, store.ErrNotFound) {
		return ownerDeleted, nil
	}
	if err != nil {
		return ownerExists, store.SkipDamaged(err) // a damaged owner keeps its dependents
	}
	its, err := k.metadata(row.Value)
	switch {
	case err != nil:
		return ownerExists, err
	case its.uid != owner.UID:
		return ownerDeleted, nil
	case its.deleting && slices.Contains(its.finalizers, metav1.FinalizerDeleteDependents):
		return ownerDeletedInForeground, nil
	}
	return ownerExists, nil
}

// removeOwners removes owner references.
func removeOwners(u *unstructured.Unstructured, which func(metav1.OwnerReference) bool) {
	left := slices.DeleteFunc(slices.Clone(u.GetOwnerReferences()), which)
	if len(left) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "ownerReferences")
		return
	}
	u.SetOwnerReferences(left)
}

func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// groupOf returns the group of an apiVersion.
func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}
