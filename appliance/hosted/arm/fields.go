package arm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"landfall/appliance/fault"
)

// Document is the content of a resource as JSON values, with defaults. Whole numbers are int64,
// other numbers json.Number.
type Document map[string]any

// kind is the kind of a field's value.
type kind int

const (
	text    kind = iota
	whole        // a whole number
	flag         // true or false
	texts        // a list of texts
	textMap      // an object with texts
	list         // a list of objects; their fields have paths with []
	free         // any value
)

// when says when a field may be written.
type when int

const (
	always   when = iota
	onCreate      // a change is refused
	never         // the appliance writes it; a request may repeat the present value
	ignored       // the appliance writes it; a value in a request has no effect
)

// field is a row of the table of a resource's fields.
type field struct {
	path     string // "properties.version.id", "properties.taints[].key"
	kind     kind
	when     when
	required bool
	byItself any      // the default; nil: none
	values   []string // permitted texts
	form     *regexp.Regexp
	formHint string
	min, max int64 // of a number, if max is not 0
	network  bool  // each text is a network in CIDR notation
}

// node is a field or an object in the tree of fields.
type node struct {
	field    *field
	children map[string]*node
	order    []string
}

// Kind describes a type of resources.
type Kind struct {
	fields []field
	root   *node
	check  func(Document) []*Error
}

func newKind(check func(Document) []*Error, fields ...field) *Kind {
	k := &Kind{fields: fields, root: &node{children: map[string]*node{}}, check: check}
	for i := range fields {
		at := k.root
		for _, name := range strings.Split(strings.ReplaceAll(fields[i].path, "[]", ".[]"), ".") {
			if at.children == nil {
				at.children = map[string]*node{}
			}
			if at.children[name] == nil {
				at.children[name] = &node{}
				at.order = append(at.order, name)
			}
			at = at.children[name]
		}
		at.field = &fields[i]
	}
	return k
}

// Writable returns the paths of the fields that a request can set.
func (k *Kind) Writable() (paths []string) {
	for i := range k.fields {
		if f := &k.fields[i]; f.when == always || f.when == onCreate {
			paths = append(paths, f.path)
		}
	}
	return paths
}

// maxDepth limits the depth of a request's body.
const maxDepth = 32

// Decode reads the body of a request. It accepts one JSON object.
func Decode(body []byte) (Document, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var document map[string]any
	err := decoder.Decode(&document)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something after the object")
		}
	}
	if err == nil && document == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, Errorf(fault.Invalid, CodeInvalidContent, "The body is not a JSON object: %s.", err)
	}
	if depth(document) > maxDepth {
		return nil, Errorf(fault.Invalid, CodeInvalidContent, "The body is nested deeper than %d levels.", maxDepth)
	}
	return document, nil
}

func depth(value any) int {
	deepest := 0
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			deepest = max(deepest, depth(inner))
		}
	case []any:
		for _, inner := range value {
			deepest = max(deepest, depth(inner))
		}
	default:
		return 0
	}
	return deepest + 1
}

// Create returns the document of a new resource: the request with defaults. shown is the ID, name
// and type, which a request may repeat.
func (k *Kind) Create(request, shown Document) (Document, error) {
	return k.complete(request, nil, shown)
}

// Replace returns the document that replaces the current one. Fields that can't change keep their
// values if the request omits them. shown is the current resource as clients see it.
func (k *Kind) Replace(current, request, shown Document) (Document, error) {
	return k.complete(request, current, shown)
}

// Patch returns the current document with the changes of a merge patch (RFC 7396). Tags are
// replaced as a whole; tags that are null stay.
func (k *Kind) Patch(current, request, shown Document) (Document, error) {
	merged := Merge(current, request)
	if request["tags"] != nil {
		merged["tags"] = request["tags"]
	} else if current["tags"] != nil {
		merged["tags"] = current["tags"]
	}
	return k.complete(merged, current, shown)
}

// Merge applies a merge patch (RFC 7396) and returns the result. It changes neither argument.
func Merge(current, patch Document) Document {
	merged := maps.Clone(current)
	if merged == nil {
		merged = Document{}
	}
	for name, value := range patch {
		object, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(merged, name)
		case isObject:
			inner, _ := merged[name].(map[string]any)
			merged[name] = map[string]any(Merge(inner, object))
		default:
			merged[name] = value
		}
	}
	return merged
}

func (k *Kind) complete(request, current, shown Document) (Document, error) {
	w := &walk{shown: shown}
	document, _ := w.object(k.root, "", map[string]any(request), map[string]any(current),
		current == nil).(map[string]any)
	if len(w.errs) > 0 {
		return nil, join(w.errs)
	}
	for i := range k.fields {
		if f := &k.fields[i]; f.required && lookup(document, f.path) == nil && !strings.Contains(f.path, "[]") {
			w.errs = append(w.errs, Fieldf(f.path, "The field %s is missing.", f.path))
		}
	}
	if len(w.errs) == 0 && k.check != nil {
		w.errs = k.check(document)
	}
	return document, join(w.errs)
}

// walk checks a request.
type walk struct {
	shown Document
	errs  []*Error
}

func (w *walk) failf(path, format string, args ...any) {
	w.errs = append(w.errs, Fieldf(path, format, args...))
}

// object returns the checked object of a node with its defaults.
func (w *walk) object(n *node, path string, value, current map[string]any, create bool) any {
	result := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if n.children[name] == nil {
			w.failf(join2(path, name), "The field %s is unknown.", join2(path, name))
		}
	}
	for _, name := range n.order {
		child, at := n.children[name], join2(path, name)
		given, isGiven := value[name]
		isGiven = isGiven && given != nil
		if child.field != nil {
			if v := w.leaf(child, at, given, isGiven, current[name], create); v != nil {
				result[name] = v
			}
			continue
		}
		inner, ok := given.(map[string]any)
		if isGiven && !ok {
			w.failf(at, "The field %s is not an object.", at)
			continue
		}
		before, _ := current[name].(map[string]any)
		if o := w.object(child, at, inner, before, create).(map[string]any); len(o) > 0 {
			result[name] = o
		}
	}
	return result
}

func join2(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// leaf returns the checked value of a field, or nil if it has none.
func (w *walk) leaf(n *node, path string, given any, isGiven bool, current any, create bool) any {
	f := n.field
	switch {
	case f.when == ignored:
		return nil
	case f.when == never:
		if isGiven && !reflect.DeepEqual(normalized(given), normalized(lookup(w.shown, path))) {
			w.failf(path, "The field %s is read-only.", path)
		}
		return nil
	case !isGiven && f.when == onCreate && !create:
		return current
	case !isGiven:
		return f.byItself
	case !create && current != nil && reflect.DeepEqual(normalized(given), normalized(current)):
		return current // a former version may have accepted it
	}
	value, ok := w.value(n, path, given)
	if ok && f.when == onCreate && !create && !reflect.DeepEqual(value, normalized(current)) {
		w.failf(path, "The field %s can't change after the creation.", path)
	}
	return value
}

// value checks a value by the field's kind.
func (w *walk) value(n *node, path string, given any) (any, bool) {
	f := n.field
	mismatch := func(wanted string) (any, bool) {
		w.failf(path, "The field %s is not %s.", path, wanted)
		return nil, false
	}
	switch f.kind {
	case text:
		value, ok := given.(string)
		if !ok {
			return mismatch("a text")
		}
		return value, w.checkText(f, path, value)
	case whole:
		value, ok := normalized(given).(int64)
		if !ok {
			return mismatch("a whole number")
		}
		if f.max != 0 && (value < f.min || value > f.max) {
			w.failf(path, "The field %s is %d; it must be between %d and %d.", path, value, f.min, f.max)
			return nil, false
		}
		return value, true
	case flag:
		if value, ok := given.(bool); ok {
			return value, true
		}
		return mismatch("true or false")
	case texts:
		values, ok := given.([]any)
		if !ok {
			return mismatch("a list of texts")
		}
		for i, value := range values {
			at := fmt.Sprintf("%s[%d]", path, i)
			one, ok := value.(string)
			if !ok {
				w.failf(at, "The field %s is not a text.", at)
				return nil, false
			}
			if !w.checkText(f, at, one) {
				return nil, false
			}
		}
		return values, true
	case textMap:
		values, ok := given.(map[string]any)
		if !ok {
			return mismatch("an object with texts")
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if _, ok := values[name].(string); !ok {
				w.failf(join2(path, name), "The field %s is not a text.", join2(path, name))
				return nil, false
			}
		}
		return values, true
	case list:
		return w.list(n, path, given)
	}
	return normalized(given), true
}

func (w *walk) list(n *node, path string, given any) (any, bool) {
	values, ok := given.([]any)
	if !ok {
		w.failf(path, "The field %s is not a list.", path)
		return nil, false
	}
	before := len(w.errs)
	result := make([]any, len(values))
	for i, value := range values {
		at := fmt.Sprintf("%s[%d]", path, i)
		object, ok := value.(map[string]any)
		if !ok {
			w.failf(at, "The field %s is not an object.", at)
			continue
		}
		element := n.children["[]"]
		made := w.object(element, at, object, nil, true).(map[string]any)
		w.required(element, at, object)
		result[i] = made
	}
	return result, len(w.errs) == before
}

// required reports the fields that an element of a list lacks.
func (w *walk) required(n *node, path string, object map[string]any) {
	for _, name := range n.order {
		child, at := n.children[name], join2(path, name)
		switch {
		case child.field == nil:
			inner, _ := object[name].(map[string]any)
			w.required(child, at, inner)
		case child.field.required && object[name] == nil:
			w.failf(at, "The field %s is missing.", at)
		}
	}
}

// checkText checks a text by the rules of its field.
func (w *walk) checkText(f *field, path, value string) bool {
	switch {
	case f.values != nil && !slices.Contains(f.values, value):
		w.failf(path, "The field %s is %q; it must be one of %s.", path, value, strings.Join(f.values, ", "))
		return false
	case f.form != nil && !f.form.MatchString(value):
		w.failf(path, "The field %s is %q; it must be %s.", path, value, f.formHint)
		return false
	case f.network:
		if prefix, err := netip.ParsePrefix(value); err != nil || prefix != prefix.Masked() {
			w.failf(path, "The field %s is %q, which is not a network in CIDR notation, such as 10.128.0.0/14.", path,
				value)
			return false
		}
	}
	return true
}

// normalized returns a JSON value with int64 for whole numbers. Other numbers stay as they are.
func normalized(value any) any {
	switch value := value.(type) {
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		if _, err := value.Float64(); err != nil { // too large for the readers of JSON
			return value.String()
		}
	case float64:
		if n := int64(value); float64(n) == value {
			return n
		}
	case map[string]any:
		result := make(map[string]any, len(value))
		for name, inner := range value {
			result[name] = normalized(inner)
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, inner := range value {
			result[i] = normalized(inner)
		}
		return result
	}
	return value
}

// lookup returns the value at a path of names, or nil.
func lookup(document map[string]any, path string) any {
	var at any = map[string]any(document)
	for name := range strings.SplitSeq(path, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[name]
	}
	return at
}

// Set sets the value at a path of names, and makes the objects on the way.
func (d Document) Set(path string, value any) {
	at := map[string]any(d)
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		inner, ok := at[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	at[names[len(names)-1]] = value
}

// Has reports whether there is a value other than null at a path of names.
func (d Document) Has(path string) bool { return lookup(d, path) != nil }

// Text returns the text at a path of names, or "".
func (d Document) Text(path string) string {
	value, _ := lookup(d, path).(string)
	return value
}

// Clone returns a deep copy.
func (d Document) Clone() Document {
	clone, _ := normalized(map[string]any(d)).(map[string]any)
	return clone
}

// Into converts a document to its Go type.
func (d Document) Into(into any) error {
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// UnmarshalJSON implements json.Unmarshaler. Whole numbers become int64.
func (d *Document) UnmarshalJSON(content []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	*d, _ = normalized(value).(map[string]any)
	return nil
}

// Settable reports whether Set can write a path: nothing on the way is other than an object.
func (d Document) Settable(path string) bool {
	var at any = map[string]any(d)
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		object, ok := at.(map[string]any)
		if !ok {
			return at == nil
		}
		at = object[name]
	}
	_, ok := at.(map[string]any)
	return ok || at == nil
}
