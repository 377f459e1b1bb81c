// Package fastjson decodes and encodes large or frequent JSON, such as the reports of agents and
// the rows of the store. It is several times as fast as encoding/json, with the same results.
//
// The decoder is goccy/go-json. Since version 0.12 it accepts the same input as encoding/json and
// decodes it to the same values. The tests of this package check that. Older versions differ.
package fastjson

import (
	"encoding/json"
	"io"
	"reflect"
	"unsafe"

	fast "github.com/goccy/go-json"
)

// Unmarshal decodes JSON into a zero value. Its errors are those of encoding/json.
func Unmarshal(text []byte, into any) error {
	if fast.Unmarshal(text, into) == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero() // discard the values decoded before the failure
	return json.Unmarshal(text, into)
}

// UnmarshalText decodes a string. See Unmarshal.
func UnmarshalText(text string, into any) error { return Unmarshal(bytesOf(text), into) }

// UnmarshalOwn decodes JSON that this program encoded. Its errors are those of goccy/go-json, not
// of encoding/json.
func UnmarshalOwn(text []byte, into any) error { return fast.Unmarshal(text, into) }

// Marshal returns the same JSON as encoding/json.
func Marshal(value any) ([]byte, error) { return fast.Marshal(value) }

// MarshalText returns the JSON of a value as a string.
func MarshalText(value any) (string, error) {
	text, err := Marshal(value)
	return unsafe.String(unsafe.SliceData(text), len(text)), err // the bytes are not referenced elsewhere
}

// bytesOf returns the bytes of a string without copying them. The bytes must not be changed.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// Write writes the JSON of a value and a line feed in one call. It writes nothing if the value
// cannot be encoded. The writer must not keep the bytes.
func Write(to io.Writer, value any) error { return fast.NewEncoder(to).Encode(value) }
