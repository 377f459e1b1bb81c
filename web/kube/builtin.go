package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
)

// resource describes a built-in resource. Nil functions do nothing.
type resource struct {
	kind       schema.GroupVersionKind
	plural     string
	singular   string
	short      []string
	categories []string
	namespaced bool
	validName  validation.ValidateNameFunc
	prepare    func(object runtime.Object, old runtime.Object) // old is nil for a new object
	validate   func(object runtime.Object, old runtime.Object) field.ErrorList
	fields     func(object runtime.Object) fields.Set // field selectors besides name and namespace
	ttl        uint64                                 // lifetime in seconds; 0: unlimited
	columns    []column
}

func (r resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.kind.Group, Resource: r.plural}
}

// builtInStorage serves a built-in resource.
type builtInStorage struct {
	*registry.Store
	resource resource
}

// ShortNames and Categories are alternative names of the resource for kubectl.
func (s *builtInStorage) ShortNames() []string { return s.resource.short }

func (s *builtInStorage) Categories() []string { return s.resource.categories }

func newBuiltIn(r resource, scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*builtInStorage, error) {
	rules := strategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, resource: r}
	s := &registry.Store{
		NewFunc: func() runtime.Object {
			object, err := scheme.New(r.kind)
			if err != nil {
				panic("the scheme lacks the kind " + r.kind.Kind)
			}
			return object
		},
		NewListFunc:               listOf(scheme, r.kind),
		PredicateFunc:             matching(r),
		DefaultQualifiedResource:  r.groupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: r.kind.Group, Resource: r.singular},
		CreateStrategy:            rules, UpdateStrategy: rules, DeleteStrategy: rules,
		TableConvertor: table{r.groupResource(), r.columns},
	}
	if r.ttl > 0 {
		s.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return r.ttl, nil }
	}
	if err := s.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options, AttrFunc: attributes(r)}); err != nil {
		return nil, fmt.Errorf("serve %s: %w", r.groupResource(), err)
	}
	return &builtInStorage{s, r}, nil
}

// attributes returns the labels and fields that selectors of the resource can use.
func attributes(r resource) storage.AttrFunc {
	return func(object runtime.Object) (labels.Set, fields.Set, error) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return nil, nil, err
		}
		set := fields.Set{"metadata.name": accessor.GetName()}
		if r.namespaced {
			set["metadata.namespace"] = accessor.GetNamespace()
		}
		if r.fields != nil {
			for name, value := range r.fields(object) {
				set[name] = value
			}
		}
		return accessor.GetLabels(), set, nil
	}
}

func matching(r resource) func(labels.Selector, fields.Selector) storage.SelectionPredicate {
	return func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
		return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributes(r)}
	}
}

// strategy validates and prepares the creation, change and deletion of a built-in resource.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	resource resource
}

var _ interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.RESTDeleteStrategy
} = strategy{}

func (s strategy) NamespaceScoped() bool { return s.resource.namespaced }
func (s strategy) AllowCreateOnUpdate(context.Context) bool {
	return s.resource.kind.Kind == "Event" || s.resource.kind.Kind == "Lease"
}
func (s strategy) AllowUnconditionalUpdate(context.Context) bool { return true }
func (strategy) Canonicalize(runtime.Object)                     {}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if s.resource.prepare != nil {
		s.resource.prepare(object, nil)
	}
}

func (s strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if s.resource.prepare != nil {
		s.resource.prepare(object, old)
	}
}

func (s strategy) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	valid := s.resource.validName
	if valid == nil {
		valid = validation.NameIsDNSSubdomain
	}
	list := validation.ValidateObjectMetaAccessor(accessor, s.resource.namespaced, valid, field.NewPath("metadata"))
	if s.resource.validate != nil {
		list = append(list, s.resource.validate(object, nil)...)
	}
	return append(list, validateNewEvent(ctx, object)...)
}

func (s strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	now, err := meta.Accessor(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	before, err := meta.Accessor(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	list := validation.ValidateObjectMetaAccessorUpdate(now, before, field.NewPath("metadata"))
	if s.resource.validate != nil {
		list = append(list, s.resource.validate(object, old)...)
	}
	return list
}
