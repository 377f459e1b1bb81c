package kube

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// inNamespaces rejects new objects in namespaces that do not exist or are being deleted.
type inNamespaces struct {
	db      *store.DB
	objects *objects.Objects
}

func (inNamespaces) Handles(operation admission.Operation) bool { return operation == admission.Create }

// Validate implements admission.ValidationInterface.
func (n inNamespaces) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	name := a.GetNamespace()
	if name == "" || a.GetKind().Kind == "Namespace" {
		return nil
	}
	var namespace corev1.Namespace
	err := n.db.View(func(tx *store.Tx) error {
		return n.objects.Get(tx, objects.Namespaces, "", name, &namespace)
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	case err != nil:
		return admission.NewForbidden(a, err)
	case namespace.Status.Phase != corev1.NamespaceTerminating:
		return nil
	}
	refusal := admission.NewForbidden(a,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", name))
	var status *apierrors.StatusError
	if errors.As(refusal, &status) && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", name),
			Field: "metadata.namespace",
		})
	}
	return refusal
}
