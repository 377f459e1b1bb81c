package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// inNamespaces rejects new objects in namespaces that do not exist or are being deleted. A request
// is checked twice: early, as in a cluster, and in the transaction that writes its object.
type inNamespaces struct {
	db      *store.DB
	objects *objects.Objects
}

func (inNamespaces) Handles(operation admission.Operation) bool { return operation == admission.Create }

// Validate implements admission.ValidationInterface.
func (n inNamespaces) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	namespace, name := a.GetNamespace(), a.GetName()
	if namespace == "" || a.GetKind().Kind == "Namespace" {
		return nil
	}
	if object, err := meta.Accessor(a.GetObject()); err == nil {
		name = object.GetName() // it may have been generated
	}
	return n.db.View(func(tx *store.Tx) error {
		return n.check(tx, a.GetResource().GroupResource(), namespace, name)
	})
}

// admit checks the key of a new object.
func (n inNamespaces) admit(tx *store.Tx, key string) error {
	at := parseKey(key)
	if at.namespace == "" {
		return nil
	}
	return n.check(tx, schema.GroupResource{Group: at.kind.Group, Resource: at.kind.Resource}, at.namespace, at.name)
}

// check returns an error for a new object in a namespace that does not exist or is being deleted.
func (n inNamespaces) check(tx *store.Tx, resource schema.GroupResource, namespace, name string) error {
	if !n.objects.Exists(tx, objects.Namespaces, "", namespace) {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), namespace)
	}
	deleting, err := n.objects.Deleting(tx, objects.Namespaces, "", namespace)
	if err != nil {
		return apierrors.NewForbidden(resource, name, err)
	}
	if !deleting {
		return nil
	}
	refusal := apierrors.NewForbidden(resource, name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace",
	})
	return refusal
}
