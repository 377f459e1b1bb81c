// Package canonical encodes values for digests. Two values have equal encodings if, and only if,
// their JSON is equal. Encoding is several times faster than JSON. Encodings are neither stored nor
// decoded.
package canonical

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"

	"landfall/store/fastjson"
)

// encoder appends the encoding of a value.
type encoder func(text []byte, v reflect.Value) []byte

// EncoderOf returns a function that appends the encoding of a value of type T.
func EncoderOf[T any]() func(text []byte, value *T) []byte {
	encode := encoders{}.of(reflect.TypeFor[T]())
	return func(text []byte, value *T) []byte { return encode(text, reflect.ValueOf(value).Elem()) }
}

// encoders creates encoders. It also holds encoders under construction, for recursive types.
type encoders map[reflect.Type]*encoder

var (
	dateTimeType  = reflect.TypeFor[strfmt.DateTime]()
	timeType      = reflect.TypeFor[time.Time]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
)

func (s encoders) of(t reflect.Type) encoder {
	if held, ok := s[t]; ok {
		return func(text []byte, v reflect.Value) []byte { return (*held)(text, v) }
	}
	made := new(encoder)
	s[t] = made
	switch t.Kind() {
	case reflect.String:
		*made = encodeString
	case reflect.Bool:
		*made = encodeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		*made = func(text []byte, v reflect.Value) []byte { return encodeNumber(text, uint64(v.Int())) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		*made = func(text []byte, v reflect.Value) []byte { return encodeNumber(text, v.Uint()) }
	case reflect.Float32, reflect.Float64:
		*made = func(text []byte, v reflect.Value) []byte { return encodeNumber(text, math.Float64bits(v.Float())) }
	case reflect.Pointer:
		*made = pointerEncoder(s.of(t.Elem()))
	case reflect.Slice:
		*made = sliceEncoder(s.of(t.Elem()))
	case reflect.Struct:
		*made = s.structEncoder(t)
	case reflect.Map:
		*made = s.mapEncoder(t)
	default:
		*made = encodeJSON
	}
	return *made
}

func encodeNumber(text []byte, number uint64) []byte {
	return binary.LittleEndian.AppendUint64(text, number)
}

func encodeString(text []byte, v reflect.Value) []byte {
	s := v.String()
	return append(binary.AppendUvarint(text, uint64(len(s))), s...)
}

func encodeBool(text []byte, v reflect.Value) []byte {
	if v.Bool() {
		return append(text, 1)
	}
	return append(text, 0)
}

func pointerEncoder(elem encoder) encoder {
	return func(text []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(text, 0)
		}
		return elem(append(text, 1), v.Elem())
	}
}

// sliceEncoder distinguishes a nil slice, which is null in JSON, from an empty slice.
func sliceEncoder(elem encoder) encoder {
	return func(text []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(text, 0)
		}
		text = binary.AppendUvarint(append(text, 1), uint64(v.Len()))
		for i := range v.Len() {
			text = elem(text, v.Index(i))
		}
		return text
	}
}

func (s encoders) mapEncoder(t reflect.Type) encoder {
	if t.Key().Kind() != reflect.String {
		return encodeJSON
	}
	elem := s.of(t.Elem())
	return func(text []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(text, 0)
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		text = binary.AppendUvarint(append(text, 1), uint64(len(keys)))
		value := reflect.New(t.Elem()).Elem() // map values are not addressable, and times are read by address
		for _, key := range keys {
			value.Set(v.MapIndex(key))
			text = elem(encodeString(text, key), value)
		}
		return text
	}
}

// encodeJSON encodes values of rare types.
func encodeJSON(text []byte, v reflect.Value) []byte {
	value, err := fastjson.Marshal(v.Interface())
	if err != nil {
		value = []byte(err.Error()) // not reached: all types of the records can be encoded
	}
	return append(binary.AppendUvarint(text, uint64(len(value))), value...)
}

func (s encoders) structEncoder(t reflect.Type) encoder {
	switch t {
	case timeType: // the JSON has nanoseconds
		return func(text []byte, v reflect.Value) []byte {
			at := v.Addr().Interface().(*time.Time)
			return encodeNumber(encodeNumber(text, uint64(at.Unix())), uint64(at.Nanosecond()))
		}
	case dateTimeType: // the JSON has milliseconds
		return func(text []byte, v reflect.Value) []byte {
			return encodeNumber(text, uint64(time.Time(*v.Addr().Interface().(*strfmt.DateTime)).UnixMilli()))
		}
	}
	if t.Implements(marshalerType) { // the type has its own encoding
		return encodeJSON
	}
	type field struct {
		index     int
		omitEmpty bool
		encode    encoder
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		empty := (f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map) &&
			slices.Contains(strings.Split(tag, ","), "omitempty")
		fields = append(fields, field{i, empty, s.of(f.Type)})
	}
	return func(text []byte, v reflect.Value) []byte {
		for _, f := range fields {
			value := v.Field(f.index)
			if f.omitEmpty && value.Len() == 0 {
				text = append(text, 0)
				continue
			}
			text = f.encode(text, value)
		}
		return text
	}
}
