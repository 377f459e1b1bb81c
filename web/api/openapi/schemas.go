package openapi

import (
	"encoding/json"
	"errors"
	"go/token"
	"reflect"
	"strings"
	"time"

	validation "github.com/go-openapi/errors"
	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/web/operation"
)

const reference = "#/components/schemas/"

// Bodies of error responses; see package problem.
type (
	errorModel       = models.Error
	infraErrorModel  = models.InfraError
	schemaErrorModel struct {
		Code    int32  `json:"code"`
		Message string `json:"message"`
	}
)

// schemas collects the schemas of Go types.
type schemas struct{ defined object }

func (s *schemas) of(value any) object {
	if _, any := value.(operation.AnyObject); any {
		return object{"type": "object"}
	}
	return s.schema(reflect.TypeOf(value))
}

// define adds the schema of a type under the given name instead of the type's name.
func (s *schemas) define(name string, value any) {
	s.defined[name] = s.structure(reflect.TypeOf(value))
}

type validator interface{ Validate(strfmt.Registry) error }

// formats returns the formats of the types that are encoded as strings.
func formats() map[reflect.Type]string {
	return map[reflect.Type]string{
		reflect.TypeFor[time.Time]():       "date-time",
		reflect.TypeFor[strfmt.DateTime](): "date-time",
		reflect.TypeFor[strfmt.UUID]():     "uuid",
		reflect.TypeFor[strfmt.URI]():      "uri",
		reflect.TypeFor[strfmt.Password](): "password",
		reflect.TypeFor[strfmt.MAC]():      "mac",
		reflect.TypeFor[strfmt.IPv4]():     "ipv4",
		reflect.TypeFor[strfmt.IPv6]():     "ipv6",
		reflect.TypeFor[strfmt.Base64]():   "byte",
	}
}

func (s *schemas) schema(t reflect.Type) object {
	if format, ok := formats()[t]; ok {
		return object{"type": "string", "format": format}
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schema(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.String:
		return s.text(t)
	case reflect.Struct:
		return s.named(t)
	}
	return object{} // any value
}

// nonsense is a text that no list of permitted values contains.
const nonsense = "\x00"

// text returns the schema of a string type, with its permitted values if they are restricted.
func (s *schemas) text(t reflect.Type) object {
	value := reflect.New(t)
	value.Elem().SetString(nonsense)
	schema := object{"type": "string"}
	model, ok := value.Elem().Interface().(validator)
	if !ok {
		return schema
	}
	for _, failed := range failures(model) {
		if failed.Code() == validation.EnumFailCode {
			schema["enum"] = union(failed.Values, newerValues(t.Name()))
		}
	}
	return schema
}

// named returns a reference to the schema of a struct. The first reference generates the schema.
func (s *schemas) named(t reflect.Type) object {
	name := t.Name()
	if !token.IsExported(name) { // not a model of the API
		return s.structure(t)
	}
	if name == "DeletedAt" {
		return object{"type": "string", "format": "date-time", "nullable": true}
	}
	if _, known := s.defined[name]; !known {
		s.defined[name] = object{} // the struct may contain itself
		s.defined[name] = s.structure(t)
	}
	return object{"$ref": reference + name}
}

func (s *schemas) structure(t reflect.Type) object {
	properties := object{}
	s.fields(t, properties)
	schema := object{"type": "object", "properties": properties}
	required, values := constraints(t)
	if len(required) > 0 {
		schema["required"] = required
	}
	for name, list := range values {
		if property, ok := properties[name].(object); ok && property["$ref"] == nil {
			property["enum"] = list
		}
	}
	return schema
}

func (s *schemas) fields(t reflect.Type, properties object) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			s.fields(inner, properties)
		case !field.IsExported() || name == "-":
		default:
			if name == "" {
				name = field.Name
			}
			properties[name] = s.schema(field.Type)
		}
	}
}

// constraints returns the required fields of a model and the permitted values of its string fields.
// It finds them with the model's Validate method.
func constraints(t reflect.Type) (required []string, values map[string][]any) {
	empty, ok := reflect.New(t).Interface().(validator)
	if !ok {
		return nil, nil
	}
	for _, failed := range failures(empty) {
		if failed.Code() == validation.RequiredFailCode && !strings.Contains(failed.Name, ".") {
			required = append(required, failed.Name)
		}
	}
	odd := reflect.New(t)
	spoil(odd.Elem())
	values = make(map[string][]any)
	model, _ := odd.Interface().(validator)
	for _, failed := range failures(model) {
		if failed.Code() == validation.EnumFailCode {
			values[failed.Name] = failed.Values
		}
	}
	return required, values
}

// spoil sets all string fields of a struct to [nonsense].
func spoil(value reflect.Value) {
	for i := range value.NumField() {
		field := value.Field(i)
		switch {
		case !field.CanSet():
		case value.Type().Field(i).Anonymous && field.Kind() == reflect.Struct:
			spoil(field)
		case field.Kind() == reflect.String:
			field.SetString(nonsense)
		case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.String:
			pointed := reflect.New(field.Type().Elem())
			pointed.Elem().SetString(nonsense)
			field.Set(pointed)
		}
	}
}

// failures returns the errors of a model's Validate method as a flat list.
func failures(model validator) []*validation.Validation {
	var found []*validation.Validation
	var visit func(error)
	visit = func(err error) {
		var composite *validation.CompositeError
		var failed *validation.Validation
		switch {
		case err == nil:
		case errors.As(err, &composite):
			for _, inner := range composite.Errors {
				visit(inner)
			}
		case errors.As(err, &failed):
			found = append(found, failed)
		}
	}
	visit(Validate(model))
	return found
}
