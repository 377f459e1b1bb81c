package etcd

import (
	"bytes"
	"hash/maphash"
	"io"
	goruntime "runtime"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// sharedCodec decodes watched objects. While a caller holds a decoded object, other callers that
// decode the same bytes get the same object, with its encoded forms. Objects that no watcher holds
// are freed.
//
// A codec serves one resource in one version. Encoders with the same identifier therefore produce
// the same result.
type sharedCodec struct {
	runtime.Codec
	seed maphash.Seed

	mu      sync.Mutex
	decoded map[uint64]weak.Pointer[decoded] // objects by the hash of their encoded form
}

func newSharedCodec(codec runtime.Codec) *sharedCodec {
	return &sharedCodec{Codec: codec, seed: maphash.MakeSeed(), decoded: map[uint64]weak.Pointer[decoded]{}}
}

// Decode returns a shared object, unless the caller passes an object to decode into.
func (c *sharedCodec) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if defaults != nil || into != nil {
		return c.Codec.Decode(data, defaults, into)
	}
	d := c.of(data)
	d.decode.Do(func() {
		if d.object, d.kind, d.err = c.Codec.Decode(data, nil, nil); d.err != nil {
			c.drop(d.at) // so that the next caller can retry
		}
	})
	if d.err != nil {
		return nil, d.kind, d.err
	}
	return &sharedObject{decoded: d}, d.kind, nil
}

func (c *sharedCodec) of(data []byte) *decoded {
	hash := maphash.Bytes(c.seed, data)
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.decoded[hash].Value(); d != nil && bytes.Equal(d.data, data) {
		return d
	}
	d := &decoded{data: data}
	d.at = place{hash, weak.Make(d)}
	c.decoded[hash] = d.at.decoded
	goruntime.AddCleanup(d, c.drop, d.at)
	return d
}

func (c *sharedCodec) drop(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decoded[at.hash] == at.decoded {
		delete(c.decoded, at.hash)
	}
}

// place identifies a decoded object.
type place struct {
	hash    uint64
	decoded weak.Pointer[decoded]
}

// decoded is the shared result of decoding. It is never modified.
type decoded struct {
	data []byte
	at   place

	decode sync.Once
	object runtime.Object // without a resource version
	kind   *schema.GroupVersionKind
	err    error

	mu       sync.Mutex
	versions map[uint64]*version
}

// version returns the object with the resource version of its last change or of its deletion.
func (d *decoded) version(revision uint64) (*version, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.versions[revision]; v != nil {
		return v, nil
	}
	object := d.object.DeepCopyObject()
	if err := (storage.APIObjectVersioner{}).UpdateObject(object, revision); err != nil {
		return nil, err
	}
	if d.versions == nil {
		d.versions = map[uint64]*version{}
	}
	v := &version{object: object, encoded: map[runtime.Identifier]*encoded{}}
	d.versions[revision] = v
	return v, nil
}

// version is an object with a resource version, and with all encodings that watchers have
// requested. The object is never modified.
type version struct {
	object runtime.Object

	mu       sync.Mutex
	encoded  map[runtime.Identifier]*encoded
	variants map[any]*variant
}

// variant is a version that was changed for some watchers. It is the version itself if it needed no
// change.
type variant struct {
	change sync.Once
	*version
	err error
}

type encoded struct {
	encode sync.Once
	text   []byte
	err    error
}

func (v *version) as(id runtime.Identifier) *encoded {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.encoded[id]
	if e == nil {
		e = new(encoded)
		v.encoded[id] = e
	}
	return e
}

func (v *version) variant(key any, change func(runtime.Object) (bool, error)) (*version, error) {
	v.mu.Lock()
	found := v.variants[key]
	if found == nil {
		if v.variants == nil {
			v.variants = map[any]*variant{}
		}
		found = new(variant)
		v.variants[key] = found
	}
	v.mu.Unlock()
	found.change.Do(func() {
		found.version = v
		object := v.object.DeepCopyObject()
		var changed bool
		if changed, found.err = change(object); changed {
			found.version = &version{object: object, encoded: map[runtime.Identifier]*encoded{}}
		}
	})
	return found.version, found.err
}

// Variant returns an object of a watch as change changes it. Watchers that use the same key share
// the result and its encodings. change reports whether it has changed the object.
func Variant(object runtime.Object, key any, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	s, ok := object.(*sharedObject)
	if !ok || s.version == nil {
		object = object.DeepCopyObject()
		_, err := change(object)
		return object, err
	}
	version, err := s.version.variant(key, change)
	if err != nil {
		return nil, err
	}
	return &sharedObject{decoded: s.decoded, version: version}, nil
}

// sharedObject is a watcher's view of a shared object. Access to the object returns a copy.
type sharedObject struct {
	decoded *decoded
	version *version // nil until the resource version is set
}

var _ runtime.CacheableObject = (*sharedObject)(nil)

// read returns the object, which callers must not modify.
func (s *sharedObject) read() runtime.Object {
	if s.version == nil {
		return s.decoded.object
	}
	return s.version.object
}

func (s *sharedObject) GetObject() runtime.Object { return s.read().DeepCopyObject() }

func (s *sharedObject) DeepCopyObject() runtime.Object { return s.GetObject() }

func (s *sharedObject) GetObjectKind() schema.ObjectKind {
	kind := new(metav1.TypeMeta)
	kind.SetGroupVersionKind(s.read().GetObjectKind().GroupVersionKind())
	return kind
}

// CacheEncode encodes the object once for all callers that need this form. The encoder gets a copy,
// because some encoders modify the object temporarily.
func (s *sharedObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error,
	w io.Writer) error {
	if s.version == nil {
		return encode(s.GetObject(), w)
	}
	e := s.version.as(id)
	e.encode.Do(func() {
		var text bytes.Buffer
		e.err = encode(s.GetObject(), &text)
		e.text = text.Bytes()
	})
	if e.err != nil {
		return e.err
	}
	if splice, ok := w.(runtime.Splice); ok {
		splice.Splice(e.text)
		return nil
	}
	_, err := w.Write(e.text)
	return err
}

// sharedVersioner sets the resource version that shared objects share.
type sharedVersioner struct{ storage.APIObjectVersioner }

func (v sharedVersioner) UpdateObject(object runtime.Object, revision uint64) (err error) {
	if s, ok := object.(*sharedObject); ok {
		s.version, err = s.decoded.version(revision)
		return err
	}
	return v.APIObjectVersioner.UpdateObject(object, revision)
}

// unshared gives attribute functions access to the object itself.
func unshared(attributes storage.AttrFunc) storage.AttrFunc {
	return func(object runtime.Object) (labels.Set, fields.Set, error) {
		if s, ok := object.(*sharedObject); ok {
			object = s.read()
		}
		return attributes(object)
	}
}
