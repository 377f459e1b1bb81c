package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	bytesType    = reflect.TypeFor[Bytes]()
)

// reader converts YAML nodes into values of the configuration. It checks them against the structure
// at the same time, so that an error can name the line.
type reader struct {
	source    string
	lines     bool   // whether the nodes have meaningful line numbers
	directory string // base of relative paths; "" is the working directory
}

func (r reader) errorAt(node *yaml.Node, format string, args ...any) error {
	err := &ConfigError{Source: r.source, Problem: fmt.Sprintf(format, args...)}
	if r.lines {
		err.Line = node.Line
	}
	return err
}

// object reads a mapping into values for the fields of a structure, by their keys.
func (r reader) object(node *yaml.Node, structure reflect.Type, path string) (map[string]any, error) {
	node = resolveAlias(node)
	if node.Kind != yaml.MappingNode {
		return nil, r.errorAt(node, "%s is %s; expected keys and values (%s)", orWhole(path), describe(node),
			strings.Join(keysOf(structure), ", "))
	}
	values, lines := map[string]any{}, map[string]int{}
	for i := 0; i < len(node.Content); i += 2 {
		keyNode, valueNode := node.Content[i], resolveAlias(node.Content[i+1])
		key := keyNode.Value
		field, ok := fieldOf(structure, key)
		if !ok {
			return nil, r.errorAt(keyNode, "unknown key %q%s%s", key, within(path),
				suggestion(key, candidates(structure, key)))
		}
		if first, twice := lines[key]; twice {
			return nil, r.errorAt(keyNode, "the key %q is given twice%s, first in line %d; keep one",
				key, within(path), first)
		}
		lines[key] = keyNode.Line
		if valueNode.Tag == "!!null" {
			continue
		}
		value, err := r.value(valueNode, field, join(path, key))
		if err != nil {
			return nil, err
		}
		values[key] = value
	}
	if element, ok := reflect.Zero(structure).Interface().(interface{ problem(map[string]any) string }); ok {
		if problem := element.problem(values); problem != "" {
			return nil, r.errorAt(node, "%s %s", path, problem)
		}
	}
	return values, nil
}

func (i OSImage) problem(given map[string]any) string {
	sources := 0
	for _, key := range []string{"path", "url"} {
		if given[key] != nil {
			sources++
		}
	}
	if given["release"] == true {
		sources++
	}
	if sources != 1 {
		return "needs exactly one of path (a file), url, and release: true (from the release's payload)"
	}
	if given["release"] == true {
		return missingKey(given, "openshift_version", "cpu_architecture")
	}
	return ""
}

func (i ReleaseImage) problem(given map[string]any) string {
	return missingKey(given, "openshift_version", "cpu_architecture", "url")
}

func missingKey(given map[string]any, keys ...string) string {
	for _, key := range keys {
		if given[key] == nil {
			return "needs the key " + key
		}
	}
	return ""
}

// value reads a node into a value for a field.
func (r reader) value(node *yaml.Node, field reflect.StructField, path string) (any, error) {
	node = resolveAlias(node)
	switch {
	case field.Type.Kind() == reflect.Struct:
		return r.object(node, field.Type, path)
	case field.Type.Kind() == reflect.Slice:
		return r.list(node, field, path)
	case node.Kind != yaml.ScalarNode:
		return nil, r.errorAt(node, "%s is %s; expected %s", path, describe(node), expected(field))
	}
	value, err := r.scalar(node, field)
	if fileErr, ok := errors.AsType[*fileError](err); ok {
		return nil, r.errorAt(node, "%s names %s, %s", path, fileErr.path, fileErr.problem)
	}
	if err != nil {
		return nil, r.errorAt(node, "%s is %q; expected %s", path, node.Value, expected(field))
	}
	return value, nil
}

// list reads a sequence. A single text is accepted as a list of one text.
func (r reader) list(node *yaml.Node, field reflect.StructField, path string) (any, error) {
	element := field
	element.Type = field.Type.Elem()
	nodes := node.Content
	if node.Kind == yaml.ScalarNode && element.Type.Kind() == reflect.String {
		nodes = []*yaml.Node{node}
	} else if node.Kind != yaml.SequenceNode {
		return nil, r.errorAt(node, "%s is %s; expected a list", path, describe(node))
	}
	values := make([]any, 0, len(nodes))
	for i, item := range nodes {
		value, err := r.value(item, element, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

var errInvalid = errors.New("invalid value")

func (r reader) scalar(node *yaml.Node, field reflect.StructField) (any, error) {
	text := node.Value
	switch {
	case field.Type == durationType:
		duration, err := time.ParseDuration(text)
		if err != nil || duration <= 0 {
			return nil, errInvalid
		}
		return duration, nil
	case field.Type == bytesType:
		size, err := parseBytes(text)
		if field.Tag.Get("check") == "mebibyte" && size < 1<<20 {
			return nil, errInvalid
		}
		return size, err
	case field.Type.Kind() == reflect.Bool:
		return strconv.ParseBool(text)
	case field.Type.Kind() == reflect.Int:
		number, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, errInvalid
		}
		return int(number), nil
	}
	if choices := field.Tag.Get("oneof"); choices != "" && !slices.Contains(strings.Fields(choices), text) {
		return nil, errInvalid
	}
	check := field.Tag.Get("check")
	if check == "" {
		return text, nil
	}
	return forms[check].read(text, r.directory)
}

var byteUnits = []struct {
	name string
	size Bytes
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

func parseBytes(text string) (Bytes, error) {
	digits, unit := text, Bytes(1)
	for _, candidate := range byteUnits {
		if number, ok := strings.CutSuffix(text, candidate.name); ok {
			digits, unit = strings.TrimSpace(number), candidate.size
		}
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number <= 0 || number > math.MaxInt64/int64(unit) {
		return 0, errInvalid
	}
	return Bytes(number) * unit, nil
}

// String formats the size in the largest unit that divides it.
func (b Bytes) String() string {
	for _, unit := range slices.Backward(byteUnits) {
		if b >= unit.size && b%unit.size == 0 {
			return fmt.Sprintf("%d%s", b/unit.size, unit.name)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// expected describes the valid values of a field.
func expected(field reflect.StructField) string {
	if choices := strings.Fields(field.Tag.Get("oneof")); len(choices) > 0 {
		return "one of " + strings.Join(choices, ", ")
	}
	switch field.Type {
	case durationType:
		return "a duration above zero with its unit, such as 90s, 30m or 24h"
	case bytesType:
		if field.Tag.Get("check") == "mebibyte" {
			return "a size of at least 1MiB, such as 256MiB"
		}
		return "a size above zero in bytes, or with its unit, such as 512KiB, 4MiB or 10GiB"
	}
	switch field.Type.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number, 0 or more"
	}
	if form, ok := forms[field.Tag.Get("check")]; ok {
		return form.expected
	}
	return "a text"
}

func resolveAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", node.Value)
}

func fieldOf(structure reflect.Type, key string) (reflect.StructField, bool) {
	for _, field := range fieldsOf(structure) {
		if keyOf(field) == key {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

func keysOf(structure reflect.Type) []string {
	var keys []string
	for _, field := range fieldsOf(structure) {
		keys = append(keys, keyOf(field))
	}
	return keys
}

// candidates returns the keys that the user may have meant by an unknown key: the keys of the same
// object or, if the unknown key exists in another object, its full name.
func candidates(structure reflect.Type, key string) []string {
	keys := keysOf(structure)
	for _, s := range settings() {
		if strings.HasSuffix(s.key, "."+key) {
			return []string{s.key}
		}
	}
	return keys
}

func orWhole(path string) string {
	if path == "" {
		return "the configuration"
	}
	return path
}

func within(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// suggestion proposes the known name that is most similar to an unknown one. Without a similar
// name, it lists the known names.
func suggestion(wrong string, known []string) string {
	best, smallest := "", math.MaxInt
	for _, candidate := range known {
		if d := distance(wrong, candidate); d < smallest || strings.HasSuffix(candidate, "."+wrong) {
			best, smallest = candidate, d
		}
	}
	if best == "" || smallest > max(2, len(wrong)/3) && !strings.HasSuffix(best, "."+wrong) {
		return "; the known names are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance returns the number of inserted, deleted and replaced bytes between two texts
// (Levenshtein distance).
func distance(from, to string) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(to) {
			replaced := diagonal
			if from[i] != to[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(to)]
}
