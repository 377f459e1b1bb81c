package engine

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

// A summary is a value as bytes of which a digest is made. Two values have the same summary if, and
// only if, they have the same JSON; making it takes a fraction of the time of JSON. It is never
// kept or read.

// summer appends the summary of a value.
type summer func(summary []byte, v reflect.Value) []byte

// summerOf makes the summer of a type.
func summerOf[T any]() func(summary []byte, value *T) []byte {
	sum := summers{}.of(reflect.TypeFor[T]())
	return func(summary []byte, value *T) []byte { return sum(summary, reflect.ValueOf(value).Elem()) }
}

// summers makes summers; it remembers those under construction, for types that contain themselves.
type summers map[reflect.Type]*summer

var (
	dateTimeType  = reflect.TypeFor[strfmt.DateTime]()
	timeType      = reflect.TypeFor[time.Time]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
)

func (s summers) of(t reflect.Type) summer {
	if held, ok := s[t]; ok {
		return func(summary []byte, v reflect.Value) []byte { return (*held)(summary, v) }
	}
	made := new(summer)
	s[t] = made
	switch t.Kind() {
	case reflect.String:
		*made = sumString
	case reflect.Bool:
		*made = sumBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		*made = func(summary []byte, v reflect.Value) []byte { return sumNumber(summary, uint64(v.Int())) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		*made = func(summary []byte, v reflect.Value) []byte { return sumNumber(summary, v.Uint()) }
	case reflect.Float32, reflect.Float64:
		*made = func(summary []byte, v reflect.Value) []byte { return sumNumber(summary, math.Float64bits(v.Float())) }
	case reflect.Pointer:
		*made = sumPointer(s.of(t.Elem()))
	case reflect.Slice:
		*made = sumSlice(s.of(t.Elem()))
	case reflect.Struct:
		*made = s.structure(t)
	case reflect.Map:
		*made = s.mapping(t)
	default:
		*made = sumJSON
	}
	return *made
}

func sumNumber(summary []byte, number uint64) []byte {
	return binary.LittleEndian.AppendUint64(summary, number)
}

func sumString(summary []byte, v reflect.Value) []byte {
	text := v.String()
	return append(binary.AppendUvarint(summary, uint64(len(text))), text...)
}

func sumBool(summary []byte, v reflect.Value) []byte {
	if v.Bool() {
		return append(summary, 1)
	}
	return append(summary, 0)
}

func sumPointer(elem summer) summer {
	return func(summary []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(summary, 0)
		}
		return elem(append(summary, 1), v.Elem())
	}
}

// sumSlice tells a slice that is nil, null in JSON, from one that is empty.
func sumSlice(elem summer) summer {
	return func(summary []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(summary, 0)
		}
		summary = binary.AppendUvarint(append(summary, 1), uint64(v.Len()))
		for i := range v.Len() {
			summary = elem(summary, v.Index(i))
		}
		return summary
	}
}

func (s summers) mapping(t reflect.Type) summer {
	if t.Key().Kind() != reflect.String {
		return sumJSON
	}
	elem := s.of(t.Elem())
	return func(summary []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(summary, 0)
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		summary = binary.AppendUvarint(append(summary, 1), uint64(len(keys)))
		value := reflect.New(t.Elem()).Elem() // values of maps have no address, which times are read by
		for _, key := range keys {
			value.Set(v.MapIndex(key))
			summary = elem(sumString(summary, key), value)
		}
		return summary
	}
}

// sumJSON is for what is rare: values of any type.
func sumJSON(summary []byte, v reflect.Value) []byte {
	text, err := fastjson.Marshal(v.Interface())
	if err != nil {
		text = []byte(err.Error()) // none of the types that are kept fails
	}
	return append(binary.AppendUvarint(summary, uint64(len(text))), text...)
}

func (s summers) structure(t reflect.Type) summer {
	switch t {
	case timeType: // the JSON has all digits
		return func(summary []byte, v reflect.Value) []byte {
			at := v.Addr().Interface().(*time.Time)
			return sumNumber(sumNumber(summary, uint64(at.Unix())), uint64(at.Nanosecond()))
		}
	case dateTimeType: // the JSON has milliseconds
		return func(summary []byte, v reflect.Value) []byte {
			return sumNumber(summary, uint64(time.Time(*v.Addr().Interface().(*strfmt.DateTime)).UnixMilli()))
		}
	}
	if t.Implements(marshalerType) { // it has a form of its own
		return sumJSON
	}
	type field struct {
		index     int
		omitEmpty bool
		sum       summer
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
	return func(summary []byte, v reflect.Value) []byte {
		for _, f := range fields {
			value := v.Field(f.index)
			if f.omitEmpty && value.Len() == 0 {
				summary = append(summary, 0)
				continue
			}
			summary = f.sum(summary, value)
		}
		return summary
	}
}
