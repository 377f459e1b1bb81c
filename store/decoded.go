package store

import (
	"container/list"
	"reflect"
	"sync"
)

// decodedLimit bounds the encoded size in bytes of the values that are remembered decoded; in
// memory they take about twice that.
const decodedLimit = 8 << 20

// decoded remembers values of rows as they were decoded last, so that a row which is read often is
// decoded once a change. An entry counts only for the revision that it was decoded at, and only
// what updates have left behind gets in, so what is remembered can't be wrong: a row that was
// changed, or one that was taken back, simply is not found.
type decodedCache struct {
	mu    sync.Mutex
	size  int
	order *list.List // of *decodedRow, the latest used first
	byKey map[string]*list.Element
}

type decodedRow struct {
	key      string
	revision uint64
	size     int
	value    any // shared by all readers, who get copies
}

func newDecodedCache() *decodedCache {
	return &decodedCache{order: list.New(), byKey: make(map[string]*list.Element)}
}

// get finds the value of a row that was last changed at the revision.
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

// put remembers a value. A view that is slow may bring an older one than is there: it is of no use
// to others.
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

// copier makes a shallow copy of a value of one type a deep one, in place: what the copy points to
// becomes its own. A nil copier is that of a type for which a shallow copy is enough.
type copier func(v reflect.Value)

// copiers builds copiers; it remembers those under construction, for types that contain themselves.
type copiers map[reflect.Type]*copier

func (c copiers) of(t reflect.Type) copier {
	if held, ok := c[t]; ok {
		if *held != nil {
			return *held
		}
		return func(v reflect.Value) { (*held)(v) }
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
		*built = copyPointer(c.of(t.Elem()))
	case reflect.Slice:
		*built = copySlice(c.of(t.Elem()))
	case reflect.Map:
		*built = copyMap(c.of(t.Elem()))
	case reflect.Interface:
		*built = copyInterface
	case reflect.Array:
		*built = copyArray(c.of(t.Elem()))
	case reflect.Struct:
		*built = c.structure(t)
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
	if deepen := (copiers{}).of(own.Type()); deepen != nil {
		deepen(own)
	}
	v.Set(own)
}

// structure copies the fields that JSON fills, which are the exported ones; what a time.Time points
// to within does not change.
func (c copiers) structure(t reflect.Type) copier {
	type field struct {
		index  int
		deepen copier
	}
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		if deepen := c.of(t.Field(i).Type); deepen != nil {
			fields = append(fields, field{i, deepen})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.deepen(v.Field(f.index))
		}
	}
}
