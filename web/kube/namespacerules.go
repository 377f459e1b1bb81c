package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/access"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// namespaceRules rejects what would let an operator delete, with a namespace, objects that only
// administrators may write: its deletion, and owners with which the garbage collector would delete
// it.
type namespaceRules struct {
	db      *store.DB
	objects *objects.Objects
}

func (namespaceRules) Handles(operation admission.Operation) bool {
	return operation != admission.Connect
}

// Validate implements admission.ValidationInterface.
func (n namespaceRules) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if resource.Group != "" || resource.Resource != objects.Namespaces.Resource || roleOf(a.GetUserInfo()) !=
		access.Operator {
		return nil
	}
	var refusal error
	var err error
	name := a.GetName()
	if a.GetOperation() == admission.Delete {
		refusal, err = n.checkDeletion(name)
	} else {
		refusal, err = checkOwners(a)
	}
	if err != nil {
		return err
	}
	if refusal != nil {
		return apierrors.NewForbidden(resource, name, refusal)
	}
	return nil
}

// checkOwners refuses new owners of a namespace.
func checkOwners(a admission.Attributes) (refusal, err error) {
	var owners []metav1.OwnerReference
	if held, err := meta.Accessor(a.GetOldObject()); err == nil {
		owners = held.GetOwnerReferences()
	}
	fresh, err := meta.Accessor(a.GetObject())
	if err != nil {
		return nil, err
	}
	if len(fresh.GetOwnerReferences()) == 0 || equality.Semantic.DeepEqual(owners, fresh.GetOwnerReferences()) {
		return nil, nil
	}
	return errors.New("only administrators may set the owners of a namespace, which is deleted with them"), nil
}

// checkDeletion refuses the deletion of a namespace with an object that an operator may not delete.
func (n namespaceRules) checkDeletion(namespace string) (refusal, err error) {
	err = n.db.View(func(tx *store.Tx) error {
		keys, err := keysIn(tx, namespace)
		if err != nil {
			return err
		}
		for _, key := range keys {
			at := parseKey(key)
			secret := at.kind.Group == "" && at.kind.Resource == objects.Secrets.Resource
			if !secret && !ofAdministrators(at.kind.Group, at.kind.Resource) {
				continue
			}
			if secret {
				held, err := n.objects.Metadata(tx, at.kind, at.namespace, at.name)
				if err != nil {
					return err
				}
				if goesWithCluster(held) {
					continue
				}
			}
			refusal = fmt.Errorf("it holds %s %q, which only administrators may delete; ask one to delete the "+
				"namespace", at.kind.Resource, at.name)
			return store.ErrStop
		}
		return nil
	})
	if errors.Is(err, store.ErrStop) {
		err = nil
	}
	return refusal, err
}

// goesWithCluster reports whether the appliance made a Secret for a cluster or an infra-env, and
// deletes it with these, which operators may do. Only administrators can write this metadata.
func goesWithCluster(secret *unstructured.Unstructured) bool {
	labels := secret.GetLabels()
	return labels[objects.MadeForCluster] == "true" || labels[objects.MadeForInfraEnv] == "true" ||
		slices.ContainsFunc(secret.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
			return o.Kind == objects.ClusterDeployments.Kind && o.APIVersion == objects.ClusterDeployments.APIVersion()
		})
}
