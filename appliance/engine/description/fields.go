package description

import (
	"fmt"
	"reflect"
	"slices"
)

// Field is a field of a description of type D. Requests to create and to change the object give the
// field under the same Go name. A request that leaves a field out, or gives null, says nothing
// about it; an empty text or list is a value.
type Field[D any] struct {
	// Name is the Go name of the field in the models of requests.
	Name string
	// check checks a value by itself. It may be nil.
	check func(value any) error
	// set sets the value of a description. It is nil for fields that are set together with others.
	set func(description *D, value any) error
	// get returns the value of a description as a request would give it, or nil if it has none.
	get func(description *D) (any, error)
	// changeOnly is set if a new object gets the value in another way than by set.
	changeOnly bool
}

// text is a field of texts.
func text[D any](name string, at func(*D) *string, check func(string) error) Field[D] {
	f := value(name, at)
	if check != nil {
		f.check = func(value any) error { return check(value.(string)) }
	}
	return f
}

// value is a field that the description holds as a value: a text, or a list or struct of the API.
func value[D, T any](name string, at func(*D) *T) Field[D] {
	return Field[D]{
		Name: name,
		set:  func(d *D, value any) error { *at(d) = value.(T); return nil },
		get:  func(d *D) (any, error) { return *at(d), nil },
	}
}

// pointer is a field that the description holds as a pointer to a scalar.
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

// given returns the value that a request, a pointer to a struct, gives for a field, or nil.
// Pointers to scalars are dereferenced. An empty text that is no pointer counts as absent.
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

// give sets a field of a request to a value that [given] returned. A request that lacks the field
// stays as it is.
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

// create sets the fields of a new object that a request gives.
func create[D any](fields []Field[D], d *D, request any) error {
	return setAll(slices.DeleteFunc(slices.Clone(fields), func(f Field[D]) bool { return f.changeOnly }), d, request)
}

// setAll sets the fields that a request gives.
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

// state gives a request the values of a description.
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

// checkAll checks the fields that a request gives.
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

// copyFields gives one request the values of another.
func copyFields[D any](fields []Field[D], to, from any) {
	for _, f := range fields {
		give(to, f.Name, given(from, f.Name))
	}
}
