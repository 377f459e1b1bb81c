package store

import (
	"container/list"
	"reflect"
	"sync"
)

// decodedLimit limits the sum of the encoded sizes of all cached values, in bytes. The decoded
// values need about twice as much memory.
const decodedLimit = 8 << 20

// decodedCache is an LRU cache of decoded values, so that a frequently read row is decoded once per
// change. An entry is valid only for one revision of its row. Rows of running updates are not
// cached. So a cached value is never stale.
type decodedCache struct {
	mu    sync.Mutex
	size  int
	order *list.List // of *decodedRow, the most recently used first
	byKey map[string]*list.Element
}

type decodedRow struct {
	key      string
	revision uint64
	size     int
	value    any // shared: readers get copies
}

func newDecodedCache() *decodedCache {
	return &decodedCache{order: list.New(), byKey: make(map[string]*list.Element)}
}

// get returns the cached value of a row whose newest change has the given revision.
func (d *decodedCache) get(key []byte, revision uint64) (any, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held, ok := d.byKey[string(key)]
	if !ok || held.Value.(*decodedRow).revision != revision {
		return nil, false
	}
	d.order.MoveToFront(held)
	return held.Value.(*decodedRow).value, true
}

// put adds a value. It ignores a value that is older than the cached value. A view of an older
// revision may add such a value.
func (d *decodedCache) put(row *decodedRow) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if held, ok := d.byKey[row.key]; ok {
		if held.Value.(*decodedRow).revision >= row.revision {
			return
		}
		d.drop(held)
	}
	d.byKey[row.key] = d.order.PushFront(row)
	d.size += row.size
	for d.size > decodedLimit {
		d.drop(d.order.Back())
	}
}

func (d *decodedCache) drop(held *list.Element) {
	row := d.order.Remove(held).(*decodedRow)
	delete(d.byKey, row.key)
	d.size -= row.size
}

// copier turns a shallow copy of a value into a deep copy, in place. It is nil for a type for which
// a shallow copy suffices.
type copier func(v reflect.Value)

// Copier returns a function that returns a deep copy of a *T. Unexported fields of structs are
// copied shallowly.
func Copier[T any]() func(*T) *T {
	deepCopy := copiers{}.forType(reflect.TypeFor[T]())
	return func(value *T) *T {
		own := *value
		if deepCopy != nil {
			deepCopy(reflect.ValueOf(&own).Elem())
		}
		return &own
	}
}

// copiers builds copiers. It keeps unfinished copiers for types that contain themselves.
type copiers map[reflect.Type]*copier

// forType returns the copier of a type.
func (c copiers) forType(t reflect.Type) copier {
	if existing, ok := c[t]; ok {
		if *existing != nil {
			return *existing
		}
		return func(v reflect.Value) { (*existing)(v) }
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Struct, reflect.Array, reflect.Interface:
	default:
		return nil
	}
	built := new(copier)
	c[t] = built
	switch t.Kind() {
	case reflect.Pointer:
		*built = copyPointer(c.forType(t.Elem()))
	case reflect.Slice:
		*built = copySlice(c.forType(t.Elem()))
	case reflect.Map:
		*built = copyMap(c.forType(t.Elem()))
	case reflect.Interface:
		*built = copyInterface
	case reflect.Array:
		*built = copyArray(c.forType(t.Elem()))
	case reflect.Struct:
		*built = c.copyStruct(t)
	}
	if *built == nil {
		delete(c, t)
	}
	return *built
}

func copyPointer(elem copier) copier {
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		own := reflect.New(v.Type().Elem())
		own.Elem().Set(v.Elem())
		if elem != nil {
			elem(own.Elem())
		}
		v.Set(own)
	}
}

func copySlice(elem copier) copier {
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		if elem != nil {
			for i := range own.Len() {
				elem(own.Index(i))
			}
		}
		v.Set(own)
	}
}

func copyMap(elem copier) copier {
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		own := reflect.MakeMapWithSize(v.Type(), v.Len())
		for entries := v.MapRange(); entries.Next(); {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(entries.Value())
			if elem != nil {
				elem(value)
			}
			own.SetMapIndex(entries.Key(), value)
		}
		v.Set(own)
	}
}

func copyArray(elem copier) copier {
	if elem == nil {
		return nil
	}
	return func(v reflect.Value) {
		for i := range v.Len() {
			elem(v.Index(i))
		}
	}
}

func copyInterface(v reflect.Value) {
	if v.IsNil() {
		return
	}
	own := reflect.New(v.Elem().Type()).Elem()
	own.Set(v.Elem())
	if deepCopy := (copiers{}).forType(own.Type()); deepCopy != nil {
		deepCopy(own)
	}
	v.Set(own)
}

// copyStruct returns a copier of the exported fields, because JSON fills only those. Unexported
// pointers, such as the pointer in time.Time, refer to values that never change.
func (c copiers) copyStruct(t reflect.Type) copier {
	type field struct {
		index    int
		deepCopy copier
	}
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		if deepCopy := c.forType(t.Field(i).Type); deepCopy != nil {
			fields = append(fields, field{i, deepCopy})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.deepCopy(v.Field(f.index))
		}
	}
}
