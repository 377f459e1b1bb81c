package release

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Patch changes one manifest: a list of operations as in RFC 6902 (JSON Patch), written as YAML or
// JSON.
type Patch []PatchOperation

// PatchOperation is one step of a [Patch].
type PatchOperation struct {
	Op    string    `yaml:"op"`   // add, remove, replace, move, copy, test
	Path  *string   `yaml:"path"` // a JSON pointer (RFC 6901), such as /spec/mastersSchedulable
	From  string    `yaml:"from,omitempty"`
	Value yaml.Node `yaml:"value,omitempty"`
}

// ParsePatch parses a patch. It rejects a patch that cannot apply to any manifest; the error names
// the invalid operation.
func ParsePatch(text []byte) (Patch, error) {
	var patch Patch
	if err := yaml.Unmarshal(text, &patch); err != nil {
		return nil, fmt.Errorf("the patch is not a list of operations with op, path and value (RFC 6902): %w", err)
	}
	if len(patch) == 0 {
		return nil, errors.New("the patch has no operation")
	}
	for i, operation := range patch {
		if err := operation.check(); err != nil {
			return nil, fmt.Errorf("operation %d %w", i+1, err)
		}
	}
	return patch, nil
}

func (o PatchOperation) check() error {
	if o.Path == nil {
		return errors.New("has no path")
	}
	if err := checkPointer(*o.Path); err != nil {
		return err
	}
	switch o.Op {
	case "remove":
	case "add", "replace", "test":
		if o.Value.IsZero() {
			return fmt.Errorf("(%s) has no value", o.Op)
		}
	case "move", "copy":
		return checkPointer(o.From)
	default:
		return fmt.Errorf("has the op %q; expected one of add, remove, replace, move, copy, test", o.Op)
	}
	return nil
}

func checkPointer(pointer string) error {
	if pointer != "" && pointer[0] != '/' {
		return fmt.Errorf("has the path %q, which does not begin with a slash", pointer)
	}
	return nil
}

// Apply returns the manifest with the changes of the patch. The manifest is one YAML document.
func (p Patch) Apply(manifest []byte) ([]byte, error) {
	var document any
	decoder := yaml.NewDecoder(bytes.NewReader(manifest))
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	var more any
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the manifest has more than one document")
	}
	for i, operation := range p {
		var err error
		if document, err = operation.apply(document); err != nil {
			return nil, fmt.Errorf("operation %d (%s %s): %w", i+1, operation.Op, *operation.Path, err)
		}
	}
	return yaml.Marshal(document)
}

func (o PatchOperation) apply(document any) (any, error) {
	switch o.Op {
	case "remove":
		return edit(document, tokens(*o.Path), removed())
	case "move", "copy":
		value, err := find(document, tokens(o.From))
		if err != nil {
			return nil, err
		}
		if o.Op == "move" {
			if document, err = edit(document, tokens(o.From), removed()); err != nil {
				return nil, err
			}
		}
		return edit(document, tokens(*o.Path), added(value))
	}
	var value any
	if err := o.Value.Decode(&value); err != nil {
		return nil, err
	}
	switch o.Op {
	case "add":
		return edit(document, tokens(*o.Path), added(value))
	case "replace":
		return edit(document, tokens(*o.Path), replaced(value))
	}
	actual, err := find(document, tokens(*o.Path))
	if err == nil && !reflect.DeepEqual(actual, value) {
		err = fmt.Errorf("the value is %v", actual)
	}
	return document, err
}

// tokens splits a JSON pointer.
func tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(pointer[1:], "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts
}

func find(value any, path []string) (any, error) {
	for _, token := range path {
		switch actual := value.(type) {
		case map[string]any:
			inner, ok := actual[token]
			if !ok {
				return nil, fmt.Errorf("%q does not exist", token)
			}
			value = inner
		case []any:
			at, err := index(token, len(actual)-1)
			if err != nil {
				return nil, err
			}
			value = actual[at]
		default:
			return nil, fmt.Errorf("%q has no members", token)
		}
	}
	return value, nil
}

// editor changes one element of an object or a list, which a token selects. list returns the
// changed list; root returns the replacement of the whole document.
type editor struct {
	object func(map[string]any, string) error
	list   func([]any, string) ([]any, error)
	root   func() (any, error)
}

// edit changes the element at a path and returns the changed document.
func edit(value any, path []string, how editor) (any, error) {
	if len(path) == 0 {
		return how.root()
	}
	token := path[0]
	switch actual := value.(type) {
	case map[string]any:
		actual = maps.Clone(actual)
		if len(path) == 1 {
			return actual, how.object(actual, token)
		}
		inner, ok := actual[token]
		if !ok {
			return nil, fmt.Errorf("%q does not exist", token)
		}
		changed, err := edit(inner, path[1:], how)
		actual[token] = changed
		return actual, err
	case []any:
		actual = slices.Clone(actual)
		if len(path) == 1 {
			return how.list(actual, token)
		}
		at, err := index(token, len(actual)-1)
		if err != nil {
			return nil, err
		}
		actual[at], err = edit(actual[at], path[1:], how)
		return actual, err
	}
	return nil, fmt.Errorf("%q has no members", token)
}

func index(token string, last int) (int, error) {
	at, err := strconv.Atoi(token)
	if err != nil || at < 0 || at > last {
		return 0, fmt.Errorf("the list has no index %q", token)
	}
	return at, nil
}

func added(value any) editor {
	return editor{
		object: func(actual map[string]any, token string) error { actual[token] = value; return nil },
		list: func(actual []any, token string) ([]any, error) {
			if token == "-" {
				return append(actual, value), nil
			}
			at, err := index(token, len(actual))
			if err != nil {
				return nil, err
			}
			return slices.Insert(actual, at, value), nil
		},
		root: func() (any, error) { return value, nil },
	}
}

func replaced(value any) editor {
	return editor{
		object: func(actual map[string]any, token string) error {
			if _, ok := actual[token]; !ok {
				return fmt.Errorf("%q does not exist", token)
			}
			actual[token] = value
			return nil
		},
		list: func(actual []any, token string) ([]any, error) {
			at, err := index(token, len(actual)-1)
			if err != nil {
				return nil, err
			}
			actual[at] = value
			return actual, nil
		},
		root: func() (any, error) { return value, nil },
	}
}

func removed() editor {
	return editor{
		object: func(actual map[string]any, token string) error {
			if _, ok := actual[token]; !ok {
				return fmt.Errorf("%q does not exist", token)
			}
			delete(actual, token)
			return nil
		},
		list: func(actual []any, token string) ([]any, error) {
			at, err := index(token, len(actual)-1)
			if err != nil {
				return nil, err
			}
			return slices.Delete(actual, at, at+1), nil
		},
		root: func() (any, error) { return nil, errors.New("a patch cannot remove the whole manifest") },
	}
}

// applyPatches applies the patches in the two directories to their manifests. It then removes the
// patches, because openshift-install would read them as manifests. The patches of a manifest are
// applied in the order of their names. A manifest in openshift takes precedence over one in
// manifests.
func applyPatches(dir *workDir) error {
	for _, subdir := range []string{"openshift", "manifests"} {
		names, err := dir.names(subdir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if strings.HasPrefix(path.Ext(name), ".patch") {
				if err := applyPatch(dir, path.Join(subdir, name)); err != nil {
					return fmt.Errorf("apply the patch %s/%s: %w", subdir, name, err)
				}
			}
		}
	}
	return nil
}

func applyPatch(dir *workDir, file string) error {
	text, err := dir.read(file)
	if err != nil {
		return err
	}
	patch, err := ParsePatch(text)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(path.Base(file), path.Ext(file))
	for _, subdir := range []string{"openshift", "manifests"} {
		target := path.Join(subdir, name)
		manifest, err := dir.read(target)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		changed, err := patch.Apply(manifest)
		if err != nil {
			return err
		}
		return errors.Join(dir.write(target, changed), dir.root.Remove(file))
	}
	return fmt.Errorf("the manifest %s exists neither in the output of openshift-install nor among the added manifests",
		name)
}
