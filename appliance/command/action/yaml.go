package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// Decode decodes YAML or JSON. what names the text in the error. Unknown fields are an error.
func Decode(what string, text []byte, into any) error {
	err := yaml.UnmarshalStrict(text, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field != "" {
			what += ": the field " + wrong.Field
		}
		return fmt.Errorf("%s is %s; expected %s", what, kindOf(wrong.Value), expected(wrong.Type))
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause // those around it say only that YAML was decoded
	}
	if err != nil {
		return fmt.Errorf("%s can't be read: %w", what, err)
	}
	return nil
}

// kindOf describes the kind of a JSON value, such as "array" or "number 3.5".
func kindOf(value string) string {
	word, _, _ := strings.Cut(value, " ")
	kinds := map[string]string{"array": "a list", "object": "an object with fields", "string": "a text",
		"number": "a number", "bool": "true or false"}
	if kind, ok := kinds[word]; ok {
		return kind
	}
	return value
}

// expected describes the values of a type.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Map, reflect.Struct:
		return kindOf("object")
	case reflect.Slice, reflect.Array:
		return kindOf("array")
	case reflect.String:
		return kindOf("string")
	case reflect.Bool:
		return kindOf("bool")
	}
	return kindOf("number")
}
