package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/labstack/echo/v4"

	"landfall/store/fastjson"
	"landfall/web/api/openapi"
	"landfall/web/problem"
)

// decode reads a request's body as one JSON value of type T. It is as strict as upstream's server.
// It returns a 400 for a body that is empty, is not JSON, has a wrong type or an unknown field, or
// continues after the value. It returns a 422 for a value that its model's Validate method rejects.
// The error names the field or the position.
func decode[T any](c echo.Context) (*T, error) { return read[T](c, true, nil) }

// decodeCompleted is like decode, but completes the decoded value before it is checked.
func decodeCompleted[T any](c echo.Context, complete func(*T) error) (*T, error) {
	return read(c, true, complete)
}

// decodeLeniently is like decode but ignores unknown fields. Agents and installers of other
// versions than the appliance may send such fields.
func decodeLeniently[T any](c echo.Context) (*T, error) { return read[T](c, false, nil) }

func read[T any](c echo.Context, strict bool, complete func(*T) error) (*T, error) {
	body, err := readAll(c.Request())
	if err != nil {
		return nil, fmt.Errorf("read the request body: %w", err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, problem.BadRequest("the request has no body; this operation requires a JSON object")
	}
	value := new(T)
	if !strict {
		if err := fastjson.Unmarshal(body, value); err == nil {
			return valid(value)
		}
		value = new(T) // decode again to find the error and its position
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if strict {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(value); err != nil {
		return nil, refuse(err, body, decoder.InputOffset())
	}
	if rest := bytes.TrimSpace(body[decoder.InputOffset():]); len(rest) > 0 {
		return nil,
			problem.BadRequest("the request body continues after the end of its JSON value at %s; send one value only",
				position(body, decoder.InputOffset()))
	}
	if complete != nil {
		if err := complete(value); err != nil {
			return nil, err
		}
	}
	return valid(value)
}

// presized is the largest Content-Length for which the memory of a body is allocated in advance.
const presized = 64 << 10

func readAll(r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), presized)) + bytes.MinRead)
	_, err := body.ReadFrom(r.Body)
	return body.Bytes(), err
}

// valid returns the value if none of its lists contains a null and its model's Validate method
// accepts it.
func valid[T any](value *T) (*T, error) {
	if place := nullMember(reflect.ValueOf(value)); place != "" {
		return nil, unfit("%s in body is null; remove the null from its list", strings.TrimLeft(place, "."))
	}
	model, ok := any(value).(interface{ Validate(strfmt.Registry) error })
	if !ok {
		return value, nil
	}
	if err := openapi.Validate(model); err != nil {
		return nil, problem.Schema(err)
	}
	return value, nil
}

// nullMember returns the path of a null in a list within a value, with a leading dot. It returns ""
// if there is none. Validate methods of models do not detect a null in a list.
func nullMember(value reflect.Value) string {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			return nullMember(value.Elem())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if !mayHoldList(value.Field(i).Kind()) {
				continue
			}
			field := value.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			if found := nullMember(value.Field(i)); found != "" {
				return "." + name + found
			}
		}
	case reflect.Slice:
		if !mayHoldList(value.Type().Elem().Kind()) {
			return ""
		}
		for i := range value.Len() {
			member := value.Index(i)
			if member.Kind() == reflect.Pointer && member.IsNil() {
				return fmt.Sprintf(".%d", i)
			}
			if found := nullMember(member); found != "" {
				return fmt.Sprintf(".%d%s", i, found)
			}
		}
	}
	return ""
}

// mayHoldList reports whether values of a kind can contain a list.
func mayHoldList(kind reflect.Kind) bool {
	return kind == reflect.Pointer || kind == reflect.Struct || kind == reflect.Slice
}

func refuse(err error, body []byte, offset int64) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return problem.BadRequest("the request body is not JSON: %s at %s", syntax, position(body, syntax.Offset))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return problem.BadRequest("the request body is not JSON: it ends within a value, at %s",
			position(body, int64(len(body))))
	}
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := mismatch.Field
		if field == "" {
			field = "the request body"
		}
		return problem.BadRequest("%s is a JSON %s; expected %s (%s)", field, mismatch.Value,
			jsonType(mismatch), position(body, mismatch.Offset))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return problem.BadRequest("the request body has the unknown field %s; leave it "+
			"out or correct its name", name)
	}
	return problem.BadRequest("the request body cannot be read at %s: %s", position(body, offset), err)
}

// jsonType returns the JSON name of a Go type.
func jsonType(mismatch *json.UnmarshalTypeError) string {
	kind := mismatch.Type.Kind().String()
	switch {
	case kind == "struct" || kind == "map":
		return "an object"
	case kind == "slice" || kind == "array":
		return "a list"
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	}
	return "a " + kind
}

// position returns the line and column of a byte offset in a body.
func position(body []byte, offset int64) string {
	before := body[:min(offset, int64(len(body)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
	return fmt.Sprintf("line %d, column %d", line, max(column, 1))
}
