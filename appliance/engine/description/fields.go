package description

import (
	"fmt"
	"reflect"
	"slices"
)

// Field is a field of a description of type D. Requests to create and to update the object have the
// field under the same Go name. A request without the field, or with null, does not change it. An
// empty text or list is a value.
type Field[D any] struct {
	// Name is the Go name of the field in the models of requests.
	Name string
	// check checks a value on its own. It may be nil.
	check func(value any) error
	// set sets the value in a description. It is nil for fields that are set together with others.
	set func(description *D, value any) error
	// get returns the value of a description in the type of requests. It returns nil if there is no
	// value.
	get func(description *D) (any, error)
	// changeOnly excludes the field from [create]: the constructor sets it for new objects.
	changeOnly bool
	// inObject is set for a field that the Kubernetes controllers copy from and to the text of the
	// same name in the spec of the object. An empty text in the spec clears the field.
	inObject bool
}

// inObject returns a field that the Kubernetes controllers copy from and to the object's spec.
func inObject[D any](f Field[D]) Field[D] {
	f.inObject = true
	return f
}

// text returns a field that holds a text.
func text[D any](name string, at func(*D) *string, check func(string) error) Field[D] {
	f := value(name, at)
	if check != nil {
		f.check = func(value any) error { return check(value.(string)) }
	}
	return f
}

// value returns a field whose description holds the value itself: a text, or a list or struct of
// the API.
func value[D, T any](name string, at func(*D) *T) Field[D] {
	return Field[D]{
		Name: name,
		set:  func(d *D, value any) error { *at(d) = value.(T); return nil },
		get:  func(d *D) (any, error) { return *at(d), nil },
	}
}

// pointer returns a field whose description holds a pointer to a scalar.
func pointer[D, T any](name string, at func(*D) **T) Field[D] {
	return Field[D]{
		Name: name,
		set: func(d *D, given any) error {
			value := given.(T)
			*at(d) = &value
			return nil
		},
		get: func(d *D) (any, error) {
			if held := *at(d); held != nil {
				return *held, nil
			}
			return nil, nil
		},
	}
}

// given returns the value of a field in a request, or nil if the request lacks it. The request is a
// pointer to a struct. Pointers to scalars are dereferenced. An empty text that is not a pointer
// counts as absent; [Cleared] clears such a text.
func given(request any, name string) any {
	field := reflect.ValueOf(request).Elem().FieldByName(name)
	if !field.IsValid() || field.IsZero() {
		return nil
	}
	if field.Kind() == reflect.Pointer && field.Type().Elem().Kind() != reflect.Struct {
		field = field.Elem()
	}
	return field.Interface()
}

// give sets a field of a request to a value from [given]. A request that lacks the field stays the
// same.
func give(request any, name string, value any) {
	field := reflect.ValueOf(request).Elem().FieldByName(name)
	if !field.IsValid() || value == nil {
		return
	}
	from := reflect.ValueOf(value)
	if field.Kind() == reflect.Pointer && field.Type() != from.Type() {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	if !from.CanConvert(field.Type()) {
		panic(fmt.Sprintf("a request's field %s takes %s, not %s", name, field.Type(), from.Type()))
	}
	field.Set(from.Convert(field.Type()))
}

// create sets the fields of a new object to the values of a request.
func create[D any](fields []Field[D], d *D, request any) error {
	return setAll(slices.DeleteFunc(slices.Clone(fields), func(f Field[D]) bool { return f.changeOnly }), d, request)
}

// setAll sets the fields that a request has. It returns the first error.
func setAll[D any](fields []Field[D], d *D, request any) error {
	for _, f := range fields {
		value := given(request, f.Name)
		if value == nil || f.set == nil {
			continue
		}
		if err := f.set(d, value); err != nil {
			return err
		}
	}
	return nil
}

// state copies the values of a description to a request.
func state[D any](fields []Field[D], request any, d *D) error {
	for _, f := range fields {
		if f.get == nil {
			continue
		}
		value, err := f.get(d)
		if err != nil {
			return err
		}
		give(request, f.Name, value)
	}
	return nil
}

// checkAll checks the fields that a request has. It returns the first error.
func checkAll[D any](fields []Field[D], request any) error {
	for _, f := range fields {
		value := given(request, f.Name)
		if value == nil || f.check == nil {
			continue
		}
		if err := f.check(value); err != nil {
			return err
		}
	}
	return nil
}

// copyFields copies the values of one request to another.
func copyFields[D any](fields []Field[D], to, from any) {
	for _, f := range fields {
		give(to, f.Name, given(from, f.Name))
	}
}
