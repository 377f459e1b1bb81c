package objects

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// fieldManager is the name of the controllers in metadata.managedFields. "landfall" is the name for
// users who apply manifests with "landfall apply".
const fieldManager = "landfall-controllers"

// fieldManagers records in metadata.managedFields which fields the controllers write, as the API
// server of a hub does for updates. Therefore, server-side apply reports conflicts to users.
// Statuses and Events are not recorded, because users do not apply them and they change most often.
type fieldManagers struct{ objectType typed.ParseableType }

// newManagers returns a minimal schema, in which lists are atomic, except the finalizers and the
// owner references in the metadata.
func newManagers() fieldManagers {
	name := func(name string) smd.TypeRef { return smd.TypeRef{NamedType: &name} }
	text := smd.String
	deduced := typed.DeducedParseableType
	list := func(of smd.TypeRef, keys ...string) smd.TypeRef {
		return smd.TypeRef{Inlined: smd.Atom{List: &smd.List{ElementType: of, ElementRelationship: smd.Associative,
			Keys: keys}}}
	}
	whole := smd.TypeRef{Inlined: smd.Atom{Map: &smd.Map{ElementType: deduced.TypeRef,
		ElementRelationship: smd.Atomic}}}
	types := slices.Concat(deduced.Schema.Types, []smd.TypeDef{
		{Name: "object", Atom: smd.Atom{Map: &smd.Map{ElementType: deduced.TypeRef,
			Fields: []smd.StructField{{Name: "metadata", Type: name("metadata")}}}}},
		{Name: "metadata", Atom: smd.Atom{Map: &smd.Map{ElementType: deduced.TypeRef, Fields: []smd.StructField{
			{Name: "finalizers", Type: list(smd.TypeRef{Inlined: smd.Atom{Scalar: &text}})},
			{Name: "ownerReferences", Type: list(whole, "uid")},
		}}}},
	})
	return fieldManagers{typed.ParseableType{Schema: &smd.Schema{Types: types}, TypeRef: name("object")}}
}

// update records the fields of an object that changed; before is empty for a new object.
func (m fieldManagers) update(kind Kind, before, u *unstructured.Unstructured) error {
	if kind == Events || managedByUsOnly(before.GetManagedFields()) && sameFields(before, u) {
		return nil
	}
	group := schema.GroupVersion{Group: kind.Group, Version: kind.Version}
	fields, err := managedfields.NewDefaultFieldManager(m, identityScheme{}, identityScheme{}, identityScheme{},
		group.WithKind(kind.Kind),
		group, "", nil)
	if err != nil {
		return err
	}
	noted, err := fields.Update(withoutStatus(before), withoutStatus(u), fieldManager)
	if err != nil {
		return fmt.Errorf("record the field managers of %s %s/%s: %w", kind, u.GetNamespace(), u.GetName(), err)
	}
	if is, ok := noted.(*unstructured.Unstructured); ok {
		u.SetManagedFields(is.GetManagedFields())
	}
	return nil
}

// updateTyped is update for the Go type of an object; was is nil for a new object. It reports
// whether it changed the object's metadata. The fields of most objects belong to the controllers
// alone. Then their set is read from the text, which takes a small part of the time.
func (m fieldManagers) updateTyped(u *typedUpdate, was, object typedObject) (changed bool, err error) {
	if u.kind == Events || was != nil && sameMembers(u.stored, u.text, bytes.Equal, "status") {
		return false, nil
	}
	set, ok := fieldSet(u.text)
	if ok && was == nil {
		m.record(u.kind, object, set)
		return true, nil
	}
	if entries := object.GetManagedFields(); ok && managedByUsOnly(entries) {
		if noted := entries[0].FieldsV1.GetRawBytes(); bytes.Equal(noted, set) {
			return false, nil
		} else if before, ok := fieldSet(u.stored); ok && bytes.Equal(before, set) {
			return false, nil
		} else if ok && bytes.Equal(before, noted) {
			m.record(u.kind, object, set)
			return true, nil
		}
	}
	before, now := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if was == nil {
		before.Object = map[string]any{"apiVersion": u.kind.APIVersion(), "kind": u.kind.Kind}
	} else if err := before.UnmarshalJSON(u.stored); err != nil {
		return false, err
	}
	if err := now.UnmarshalJSON(u.text); err != nil {
		return false, err
	}
	if err := m.update(u.kind, before, now); err != nil {
		return false, err
	}
	object.SetManagedFields(now.GetManagedFields())
	return true, nil
}

// record notes that the controllers own a set of fields, and that nobody else owns any.
func (fieldManagers) record(kind Kind, object typedObject, set []byte) {
	now, fields := metav1.Now().Rfc3339Copy(), &metav1.FieldsV1{}
	fields.SetRawBytes(set)
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: fieldManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: kind.APIVersion(),
		Time: &now, FieldsType: "FieldsV1", FieldsV1: fields,
	}})
}

// managedByUsOnly reports whether the controllers are the only field managers of an object.
// Together with sameFields, it is a cheap check whether a change affects only values and not the
// ownership of fields.
func managedByUsOnly(entries []metav1.ManagedFieldsEntry) bool {
	return len(entries) > 0 && !slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager != fieldManager || e.Operation != metav1.ManagedFieldsOperationUpdate
	})
}

func sameFields(a, b *unstructured.Unstructured) bool {
	return slices.Equal(a.GetFinalizers(), b.GetFinalizers()) && equality.Semantic.DeepEqual(a.GetOwnerReferences(),
		b.GetOwnerReferences()) &&
		sameKeys(withoutStatus(a).Object, withoutStatus(b).Object)
}

func sameKeys(a, b any) bool {
	from, isMap := a.(map[string]any)
	to, alsoMap := b.(map[string]any)
	if !isMap || !alsoMap {
		return isMap == alsoMap
	}
	for key, value := range from {
		if other, there := to[key]; !there || !sameKeys(value, other) {
			return false
		}
	}
	return len(from) == len(to)
}

func withoutStatus(u *unstructured.Unstructured) *unstructured.Unstructured {
	part := maps.Clone(u.Object)
	delete(part, "status")
	if metadata, ok := part["metadata"].(map[string]any); ok {
		part["metadata"] = maps.Clone(metadata)
	}
	return &unstructured.Unstructured{Object: part}
}

// ObjectToTyped and TypedToObject implement managedfields.TypeConverter.
func (m fieldManagers) ObjectToTyped(object runtime.Object,
	options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("a %T is not an unstructured object", object)
	}
	return m.objectType.FromUnstructured(u.Object, options...)
}

func (m fieldManagers) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return managedfields.NewDeducedTypeConverter().TypedToObject(value)
}

// identityScheme converts nothing and sets no defaults, because each kind has only one version.
type identityScheme struct{}

func (identityScheme) Default(runtime.Object)    {}
func (identityScheme) Convert(_, _, _ any) error { return nil }
func (identityScheme) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{}, nil
}
func (identityScheme) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (identityScheme) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
