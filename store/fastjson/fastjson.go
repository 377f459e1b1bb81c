// Package fastjson decodes and encodes JSON that is large or frequent, such as the reports of
// agents and the rows of the store. Its results are those of encoding/json, in a fraction of the
// time.
//
// The decoder is that of goccy/go-json. Since version 0.12 it refuses the same texts as
// encoding/json and decodes the others to the same values; the tests of this package check that.
// Older versions did neither.
package fastjson

import (
	"encoding/json"
	"io"
	"reflect"
	"unsafe"

	fast "github.com/goccy/go-json"
)

// Unmarshal decodes JSON into the value that the pointer points to. That value must be zero. The
// errors are those of encoding/json.
func Unmarshal(text []byte, into any) error {
	if fast.Unmarshal(text, into) == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero() // remove the part decoded before the failure
	return json.Unmarshal(text, into)
}

// UnmarshalText is Unmarshal for a string.
func UnmarshalText(text string, into any) error { return Unmarshal(bytesOf(text), into) }

// UnmarshalOwn is Unmarshal for text that this program has encoded. The errors are those of the
// decoder, not of encoding/json.
func UnmarshalOwn(text []byte, into any) error { return fast.Unmarshal(text, into) }

// Marshal encodes a value with the result of encoding/json.
func Marshal(value any) ([]byte, error) { return fast.Marshal(value) }

// MarshalText is Marshal with a string as its result.
func MarshalText(value any) (string, error) {
	text, err := Marshal(value)
	return unsafe.String(unsafe.SliceData(text), len(text)), err // no other reference to the bytes exists
}

// bytesOf returns the bytes of a string without a copy. They must not be changed.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// Write encodes a value and writes it, followed by a line feed, in one call. It writes nothing if
// the value cannot be encoded. The writer must not keep the bytes.
func Write(to io.Writer, value any) error { return fast.NewEncoder(to).Encode(value) }
