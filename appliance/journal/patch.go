package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Edit is one operation of a JSON patch (RFC 6902): add, replace or remove.
type Edit struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"` // a JSON pointer (RFC 6901)
	Value json.RawMessage `json:"value,omitempty"`
}

const (
	opAdd     = "add"
	opReplace = "replace"
	opRemove  = "remove"
)

// diff returns the patch that converts one value into another. It replaces lists of unequal length
// as a whole.
func diff(from, to any) ([]Edit, error) {
	var edits []Edit
	err := differ{&edits}.compare("", from, to)
	return edits, err
}

type differ struct{ edits *[]Edit }

func (d differ) add(op, path string, value any) error {
	edit := Edit{Op: op, Path: path}
	if op != opRemove {
		var err error
		if edit.Value, err = canonical(value); err != nil {
			return err
		}
	}
	*d.edits = append(*d.edits, edit)
	return nil
}

func (d differ) compare(path string, from, to any) error {
	switch from := from.(type) {
	case map[string]any:
		if to, ok := to.(map[string]any); ok {
			return d.compareObjects(path, from, to)
		}
	case []any:
		if to, ok := to.([]any); ok && len(from) == len(to) {
			for i := range from {
				if err := d.compare(path+"/"+strconv.Itoa(i), from[i], to[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if reflect.DeepEqual(from, to) {
		return nil
	}
	return d.add(opReplace, path, to)
}

func (d differ) compareObjects(path string, from, to map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		at := path + "/" + escape(name)
		after, ok := to[name]
		if !ok {
			if err := d.add(opRemove, at, nil); err != nil {
				return err
			}
			continue
		}
		if err := d.compare(at, from[name], after); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		if _, ok := from[name]; ok {
			continue
		}
		if err := d.add(opAdd, path+"/"+escape(name), to[name]); err != nil {
			return err
		}
	}
	return nil
}

func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func unescape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
}

// segments returns the unescaped parts of the path.
func (e Edit) segments() []string {
	if e.Path == "" {
		return nil
	}
	parts := strings.Split(e.Path[1:], "/")
	for i, part := range parts {
		parts[i] = unescape(part)
	}
	return parts
}

var errPatch = errors.New("the patch does not fit the object")

// apply applies the edit to a value, which it may change in place. It returns the new value and the
// replaced value.
func (e Edit) apply(value any) (after, before any, err error) {
	if e.Path != "" && e.Path[0] != '/' {
		return nil, nil, fmt.Errorf("%w: %q is not a path", errPatch, e.Path)
	}
	var fresh any
	if e.Op != opRemove {
		if fresh, err = decode(e.Value); err != nil {
			return nil, nil, fmt.Errorf("%w: the value for %s: %w", errPatch, e.Path, err)
		}
	}
	path := e.segments()
	if len(path) == 0 {
		if e.Op != opReplace {
			return nil, nil, fmt.Errorf("%w: %s of the whole object", errPatch, e.Op)
		}
		return fresh, value, nil
	}
	holder := value
	for _, name := range path[:len(path)-1] {
		if holder, err = member(holder, name); err != nil {
			return nil, nil, fmt.Errorf("%w: %s: %w", errPatch, e.Path, err)
		}
	}
	before, err = e.set(holder, path[len(path)-1], fresh)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", errPatch, e.Path, err)
	}
	return value, before, nil
}

func member(holder any, name string) (any, error) {
	switch holder := holder.(type) {
	case map[string]any:
		if value, ok := holder[name]; ok {
			return value, nil
		}
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(holder) {
			return holder[i], nil
		}
	}
	return nil, fmt.Errorf("%q does not exist", name)
}

func (e Edit) set(holder any, name string, fresh any) (before any, err error) {
	before, err = member(holder, name)
	object, isObject := holder.(map[string]any)
	switch {
	case e.Op == opAdd && isObject && err != nil:
		object[name] = fresh
		return nil, nil
	case e.Op == opAdd:
		return nil, fmt.Errorf("%q exists already, or is not a member of an object", name)
	case err != nil:
		return nil, err
	case e.Op == opRemove && isObject:
		delete(object, name)
		return before, nil
	case e.Op == opReplace && isObject:
		object[name] = fresh
		return before, nil
	case e.Op == opReplace:
		i, err := strconv.Atoi(name)
		if err == nil {
			holder.([]any)[i] = fresh
		}
		return before, err
	}
	return nil, fmt.Errorf("%q is not an operation", e.Op)
}
