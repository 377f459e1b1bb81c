// Package fastjson reads and writes JSON that is large or comes often, such as what agents report and what the store holds,
// with the outcome of encoding/json in a fraction of its time.
//
// The decoder behind it (goccy/go-json) gets its speed from unsafe memory access and is looser than encoding/json about
// what it accepts, so text from outside only reaches it when a strict scanner has found it to be valid (jsontext, which
// will be that of encoding/json's next version); everything else takes the long way and gets the errors that are known
// from there.
package fastjson

import (
	"encoding/json"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
	fast "github.com/goccy/go-json"
)

// Unmarshal reads JSON into what the pointer points to, which must be its zero value.
func Unmarshal(text []byte, into any) error {
	if jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) && fast.Unmarshal(text, into) == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero() // of what was read before the failure
	return json.Unmarshal(text, into)
}

// UnmarshalOwn is Unmarshal of text that this program has rendered. Other text may be read where Unmarshal returns an error.
func UnmarshalOwn(text []byte, into any) error { return fast.Unmarshal(text, into) }

// Marshal renders a value as encoding/json does.
func Marshal(value any) ([]byte, error) { return fast.Marshal(value) }
