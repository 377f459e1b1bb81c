package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

func namespaces() resource {
	return resource{
		kind: corev1.SchemeGroupVersion.WithKind("Namespace"), plural: "namespaces", singular: "namespace",
		short:     []string{"ns"},
		validName: validation.ValidateNamespaceName, columns: namespaceColumns(),
		prepare: func(object, old runtime.Object) {
			namespace := object.(*corev1.Namespace)
			if old != nil {
				before := old.(*corev1.Namespace)
				namespace.Spec.Finalizers, namespace.Status = before.Spec.Finalizers, before.Status
			} else {
				namespace.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
				if !slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes) {
					namespace.Spec.Finalizers = append(namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
				}
			}
			if namespace.Labels == nil {
				namespace.Labels = map[string]string{}
			}
			namespace.Labels[corev1.LabelMetadataName] = namespace.Name
		},
		fields: func(object runtime.Object) fields.Set {
			namespace := object.(*corev1.Namespace)
			return fields.Set{"status.phase": string(namespace.Status.Phase), "name": namespace.Name}
		},
	}
}

// namespaceStorage serves namespaces. Deleting a namespace only marks it: the garbage collector
// removes it when it is empty. As in a cluster, a request can't delete several namespaces:
// registry.Store would remove them with their objects still in them.
type namespaceStorage struct {
	namespaceOperations
	store            *registry.Store
	status, finalize *registry.Store
}

// namespaceOperations are the operations that namespaces share with the other built-in resources.
type namespaceOperations interface {
	rest.StorageWithReadiness
	rest.StorageVersionProvider
	rest.Scoper
	rest.SingularNameProvider
	rest.ShortNamesProvider
	rest.CategoriesProvider
	rest.Getter
	rest.Lister
	rest.Creater
	rest.Updater
	rest.Patcher
	rest.Watcher
}

func newNamespaces(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*namespaceStorage, error) {
	s, err := newBuiltIn(namespaces(), scheme, options)
	if err != nil {
		return nil, err
	}
	s.ShouldDeleteDuringUpdate = func(ctx context.Context, key string, object, existing runtime.Object) bool {
		return len(object.(*corev1.Namespace).Spec.Finalizers) == 0 && registry.ShouldDeleteDuringUpdate(ctx,
			key, object, existing)
	}
	part := func(prepare func(object, old *corev1.Namespace)) *registry.Store {
		r := s.resource
		r.prepare = func(object, old runtime.Object) { prepare(object.(*corev1.Namespace), old.(*corev1.Namespace)) }
		store := *s.Store
		store.UpdateStrategy = strategy{ObjectTyper: scheme, resource: r}
		return &store
	}
	return &namespaceStorage{
		namespaceOperations: s,
		store:               s.Store,
		status: part(func(object, old *corev1.Namespace) {
			status := object.Status
			old.DeepCopyInto(object)
			object.Status = status
		}),
		finalize: part(func(object, old *corev1.Namespace) {
			finalizers := object.Spec.Finalizers
			old.DeepCopyInto(object)
			object.Spec.Finalizers = finalizers
		}),
	}, nil
}

// Delete marks a namespace as being deleted, or removes it if it is empty.
func (s *namespaceStorage) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	object, err := s.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	namespace := object.(*corev1.Namespace)
	if name == metav1.NamespaceDefault {
		return nil, false, apierrors.NewForbidden(corev1.Resource("namespaces"), name,
			fmt.Errorf("this namespace may not be deleted"))
	}
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	if options.Preconditions == nil {
		options.Preconditions = new(metav1.Preconditions)
	}
	if given := options.Preconditions.UID; given == nil {
		options.Preconditions.UID = &namespace.UID
	} else if *given != namespace.UID {
		return nil, false, apierrors.NewConflict(corev1.Resource("namespaces"), name,
			fmt.Errorf("the UID in the precondition is %s, that of the namespace %s", *given, namespace.UID))
	}
	if len(namespace.Spec.Finalizers) == 0 && len(namespace.Finalizers) == 0 {
		return s.store.Delete(ctx, name, validate, options)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return namespace, false, nil
	}
	return s.mark(ctx, name, validate, options)
}

// mark marks a namespace as being deleted.
func (s *namespaceStorage) mark(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	key, err := s.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, err
	}
	marked := s.New()
	preconditions := storage.Preconditions{UID: options.Preconditions.UID,
		ResourceVersion: options.Preconditions.ResourceVersion}
	err = s.store.Storage.GuaranteedUpdate(ctx, key, marked, false, &preconditions,
		storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
			namespace := existing.(*corev1.Namespace)
			if err := validate(ctx, namespace); err != nil {
				return nil, err
			}
			if namespace.DeletionTimestamp.IsZero() {
				now := metav1.Now()
				namespace.DeletionTimestamp = &now
			}
			namespace.Status.Phase = corev1.NamespaceTerminating
			return namespace, nil
		}), len(options.DryRun) > 0, nil)
	if err != nil {
		if storage.IsNotFound(err) {
			err = apierrors.NewNotFound(corev1.Resource("namespaces"), name)
		}
		return nil, false, err
	}
	return marked, false, nil
}

// namespacePart serves a subresource of namespaces, which changes only a part of the namespace.
type namespacePart struct{ store *registry.Store }

func (p namespacePart) New() runtime.Object { return p.store.New() }

// Destroy does nothing: the resource itself destroys the storage.
func (namespacePart) Destroy() {}

func (p namespacePart) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return p.store.Get(ctx, name, options)
}

func (p namespacePart) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return p.store.Update(ctx, name, info, create, update, false, options)
}
