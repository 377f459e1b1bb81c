package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"landfall/store"
	"landfall/store/fastjson"
)

// typedObject is the Go type of an object. Its encoding is stored without a conversion to the
// unstructured form, which takes several times as long.
type typedObject interface {
	metav1.Object
	GetObjectKind() schema.ObjectKind
}

// UpdateAs is [Objects.Update] with the object's Go type. It writes only the fields that fn has
// changed, because the stored object may have fields that the Go type lacks. The caller must not
// keep what it gets.
func UpdateAs[T any](o *Objects, tx *store.Tx, kind Kind, namespace, name string, fn func(*T) error) error {
	e, err := Edit[T](o, tx, kind, namespace, name)
	if err != nil {
		return err
	}
	if err := fn(e.Object); err != nil {
		return err
	}
	_, err = e.Save(o, tx, time.Time{})
	return err
}

// Editing is an object that several steps change before it is written once.
type Editing[T any] struct {
	Object *T // the object's Go type; the steps change it until Save

	kind            Kind
	namespace, name string
	before          *T // nil for a new object; shared with other readers
	text            []byte
	exact           bool // the text is the encoding of before
}

// Draft returns a new object that is created by Save. It sets the uid, which other objects may
// need. The pointer to T is the object's Go type.
func Draft[T any, P interface {
	*T
	metav1.Object
}](o *Objects, kind Kind, object P) (*Editing[T], error) {
	id, err := o.newUID()
	if err != nil {
		return nil, err
	}
	object.SetUID(id)
	return &Editing[T]{Object: object, kind: kind, namespace: object.GetNamespace(), name: object.GetName()}, nil
}

// Edit reads an object to change it. It returns store.ErrNotFound if the object does not exist.
func Edit[T any](o *Objects, tx *store.Tx, kind Kind, namespace, name string) (*Editing[T], error) {
	key := kind.Key(namespace, name)
	value, revision, err := read(tx, key)
	if err != nil {
		return nil, err
	}
	e := &Editing[T]{kind: kind, namespace: namespace, name: name}
	if e.text, err = o.open(key, value); err != nil {
		return nil, err
	}
	if value.sealed() {
		value = newRow(e.text, nil)
	}
	typed, exact, err := value.typed(key, revision, reflect.TypeFor[*T]())
	if err != nil {
		return nil, err
	}
	e.before, e.exact = typed.(*T), exact
	own, ok := copyTyped(typed).(*T)
	if !ok {
		return nil, fmt.Errorf("change %s: a %T can't be copied", key, typed)
	}
	e.Object = own
	return e, nil
}

// Save writes the object once, and returns its generation. It writes only the fields that have
// changed since Edit, because the stored object may have fields that the Go type lacks. now is the
// creation time of a new object. The object must not be changed afterwards, because readers share
// it.
func (e *Editing[T]) Save(o *Objects, tx *store.Tx, now time.Time) (generation int64, err error) {
	object, ok := any(e.Object).(typedObject)
	if !ok {
		return 0, fmt.Errorf("write %s %s/%s: a %T is not an object", e.kind, e.namespace, e.name, e.Object)
	}
	if e.before == nil {
		return 1, o.createTyped(tx, e.kind, object, now)
	}
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && e.kind != Namespaces {
		return 0, o.remove(tx, e.kind, e.namespace, e.name)
	}
	before := *e.before
	was := any(&before).(typedObject)
	u := typedUpdate{kind: e.kind, stored: e.text, before: e.text}
	if !e.exact {
		if u.before, err = encodeTyped(e.kind, was); err != nil {
			return 0, err
		}
	}
	generation = was.GetGeneration()
	if err := u.encode(object); err != nil || bytes.Equal(u.before, u.after) {
		return generation, err
	}
	if e.kind.Group != "" && !sameMembers(u.stored, u.text, sameValue, "metadata", "status") {
		generation++
		object.SetGeneration(generation)
		if err := u.encode(object); err != nil {
			return 0, err
		}
	}
	if managed, err := o.fieldManagers.updateTyped(&u, was, object); err != nil {
		return 0, err
	} else if managed {
		if err := u.encode(object); err != nil {
			return 0, err
		}
	}
	return generation, o.putTyped(tx, e.kind, object, u.text, bytes.Equal(u.text, u.after))
}

// typedUpdate holds the texts of an object that is changed.
type typedUpdate struct {
	kind          Kind
	stored        []byte // the stored text, which may have fields that the Go type lacks
	before, after []byte // the encodings of the Go type
	text          []byte // the text to store: the stored text with the changed fields
}

// encode encodes the changed object.
func (u *typedUpdate) encode(object typedObject) (err error) {
	if u.after, err = encodeTyped(u.kind, object); err != nil {
		return err
	}
	u.text = u.after
	if !bytes.Equal(u.before, u.stored) && !bytes.Equal(u.before, u.after) {
		u.text = merge(u.stored, u.before, u.after)
	}
	return nil
}

// encodeTyped returns the stored form of an object, and removes its resourceVersion.
func encodeTyped(kind Kind, object typedObject) ([]byte, error) {
	object.SetResourceVersion("")
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version,
		Kind: kind.Kind})
	text, err := fastjson.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	return text, nil
}

// createTyped writes a new object that has its uid. Nothing changes the object afterwards.
func (o *Objects) createTyped(tx *store.Tx, kind Kind, object typedObject, now time.Time) error {
	if err := o.initMetadata(tx, kind, object, now); err != nil {
		return err
	}
	u := typedUpdate{kind: kind}
	if err := u.encode(object); err != nil {
		return err
	}
	if managed, err := o.fieldManagers.updateTyped(&u, nil, object); err != nil {
		return err
	} else if managed {
		if err := u.encode(object); err != nil {
			return err
		}
	}
	return o.putTyped(tx, kind, object, u.text, true)
}

// putTyped writes the text of an object. exact reports whether it is the encoding of the Go type.
func (o *Objects) putTyped(tx *store.Tx, kind Kind, object typedObject, text []byte, exact bool) error {
	held := &decodedForms{typed: object, exact: exact}
	if !exact {
		held.typed = nil // it may differ in the fields that its Go type lacks
	}
	if kind == Secrets {
		sealed, err := Seal(o.box, text)
		if err != nil {
			return fmt.Errorf("seal %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
		}
		text, held = sealed, new(decodedForms)
	}
	return rows.Put(tx, kind.Key(object.GetNamespace(), object.GetName()), &row{text, held})
}

// merge returns the stored text with the fields of the metadata, the spec and the status that
// differ between before and after.
func merge(stored, before, after []byte) []byte {
	had, is := members(before), members(after)
	parts := members(stored)
	for _, part := range []string{"metadata", "spec", "status"} {
		was, now := memberOf(had, part), memberOf(is, part)
		if now == nil || bytes.Equal(was, now) {
			continue
		}
		held := members(memberOf(parts, part))
		from := members(was)
		to := members(now)
		for _, m := range to {
			if !bytes.Equal(memberOf(from, m.name), m.value) {
				held = setMember(held, m)
			}
		}
		held = slices.DeleteFunc(held, func(m member) bool {
			return memberOf(from, m.name) != nil && memberOf(to, m.name) == nil
		})
		parts = setMember(parts, member{part, join(held)})
	}
	return join(parts)
}

func setMember(list []member, m member) []member {
	if at := slices.IndexFunc(list, func(other member) bool { return other.name == m.name }); at >= 0 {
		list[at] = m
		return list
	}
	return append(list, m)
}

// join returns the JSON object with the given members.
func join(list []member) []byte {
	text := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = append(text, m.name...)
		text = append(text, `":`...)
		text = append(text, m.value...)
	}
	return append(text, '}')
}

// sameMembers reports whether two JSON objects have the same members, apart from certain ones.
func sameMembers(a, b []byte, same func(a, b []byte) bool, except ...string) bool {
	from, to := members(a), members(b)
	differs := func(m member, others []member) bool {
		return !slices.Contains(except, m.name) && !same(m.value, memberOf(others, m.name))
	}
	return !slices.ContainsFunc(from, func(m member) bool { return differs(m, to) }) &&
		!slices.ContainsFunc(to, func(m member) bool { return differs(m, from) })
}

// sameValue reports whether two texts are the same JSON value. A missing value is nil.
func sameValue(a, b []byte) bool {
	if a == nil || b == nil || bytes.Equal(a, b) {
		return bytes.Equal(a, b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && equality.Semantic.DeepEqual(x, y)
}
