// Package fastjson reads and writes JSON that is large or comes often, such as what agents report
// and what the store holds, with the outcome of encoding/json in a fraction of its time.
//
// The decoder behind it is that of goccy/go-json. Since 0.12 it refuses what encoding/json refuses
// and reads the rest alike, which the tests of this package hold it to; older ones did neither.
package fastjson

import (
	"encoding/json"
	"io"
	"reflect"
	"unsafe"

	fast "github.com/goccy/go-json"
)

// Unmarshal reads JSON into what the pointer points to, which must be its zero value. Its errors
// are those of encoding/json.
func Unmarshal(text []byte, into any) error {
	if fast.Unmarshal(text, into) == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero() // of what was read before the failure
	return json.Unmarshal(text, into)
}

// UnmarshalText is Unmarshal of a string.
func UnmarshalText(text string, into any) error { return Unmarshal(bytesOf(text), into) }

// UnmarshalOwn is Unmarshal of text that this program has rendered. Its errors are the decoder's
// own.
func UnmarshalOwn(text []byte, into any) error { return fast.Unmarshal(text, into) }

// Marshal renders a value as encoding/json does.
func Marshal(value any) ([]byte, error) { return fast.Marshal(value) }

// MarshalText is Marshal into a string.
func MarshalText(value any) (string, error) {
	text, err := Marshal(value)
	return unsafe.String(unsafe.SliceData(text), len(text)), err // the text is nobody else's, and not altered any more
}

// bytesOf is a string as bytes, without a copy, for those who only read them.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// Write renders a value with a line feed behind it and writes both at once; nothing is written of a
// value that can't be rendered. The writer must not keep the text.
func Write(to io.Writer, value any) error { return fast.NewEncoder(to).Encode(value) }
