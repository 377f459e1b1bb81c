package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatch(t *testing.T) {
	const manifest = "spec: {names: [a, c], on: true, deep/er: {~x: 1}}\n"
	for name, example := range map[string]struct{ patch, changed string }{
		"add to an object": {"- {op: add, path: /spec/off, value: false}",
			"spec: {names: [a, c], on: true, off: false, deep/er: {~x: 1}}"},
		"add into a list": {"- {op: add, path: /spec/names/1, value: b}",
			"spec: {names: [a, b, c], on: true, deep/er: {~x: 1}}"},
		"add to a list's end": {"- {op: add, path: /spec/names/-, value: d}",
			"spec: {names: [a, c, d], on: true, deep/er: {~x: 1}}"},
		"replace": {"- {op: replace, path: /spec/on, value: null}",
			"spec: {names: [a, c], on: null, deep/er: {~x: 1}}"},
		"replace in a list": {"- {op: replace, path: /spec/names/0, value: z}",
			"spec: {names: [z, c], on: true, deep/er: {~x: 1}}"},
		"remove": {"- {op: remove, path: /spec/names/0}\n- {op: remove, path: /spec/on}",
			"spec: {names: [c], deep/er: {~x: 1}}"},
		"move": {"- {op: move, from: /spec/on, path: /on}",
			"{on: true, spec: {names: [a, c], deep/er: {~x: 1}}}"},
		"copy": {"- {op: copy, from: /spec/names/1, path: /spec/names/0}",
			"spec: {names: [c, a, c], on: true, deep/er: {~x: 1}}"},
		"escapes": {"- {op: replace, path: /spec/deep~1er/~0x, value: 2}",
			"spec: {names: [a, c], on: true, deep/er: {~x: 2}}"},
		"test that succeeds": {"- {op: test, path: /spec/on, value: true}",
			"spec: {names: [a, c], on: true, deep/er: {~x: 1}}"},
		"whole document, as JSON": {`[{"op": "replace", "path": "", "value": {"a": 1}}]`, "a: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := ParsePatch([]byte(example.patch))
			require.NoError(t, err)
			changed, err := patch.Apply([]byte(manifest))
			require.NoError(t, err)
			require.YAMLEq(t, example.changed, string(changed))
		})
	}
}

func TestParsePatch_rejectedInput(t *testing.T) {
	for patch, message := range map[string]string{
		"op: add":                         "not a list of operations",
		"[]":                              "no operation",
		"- {op: add, value: 1}":           "operation 1 has no path",
		"- {op: add, path: a, value: 1}":  `path "a", which does not begin with a slash`,
		"- {op: add, path: /a}":           "(add) has no value",
		"- {op: swap, path: /a}":          `the op "swap"`,
		"- {op: copy, path: /a, from: b}": `path "b"`,
		"- [":                             "not a list of operations",
	} {
		_, err := ParsePatch([]byte(patch))
		require.ErrorContains(t, err, message, patch)
	}
}

func TestPatch_doesNotFit(t *testing.T) {
	for patch, message := range map[string]string{
		"- {op: replace, path: /b, value: 1}": `operation 1 (replace /b): "b" does not exist`,
		"- {op: remove, path: /a/7}":          `the list has no index "7"`,
		"- {op: add, path: /a/0/x, value: 1}": `"x" has no members`,
		"- {op: add, path: /x/y, value: 1}":   `"x" does not exist`,
		"- {op: test, path: /a/0, value: 2}":  "the value is 1",
		"- {op: move, from: /x, path: /a}":    `"x" does not exist`,
		"- {op: remove, path: ''}":            "cannot remove the whole manifest",
	} {
		parsed, err := ParsePatch([]byte(patch))
		require.NoError(t, err, patch)
		_, err = parsed.Apply([]byte("a: [1]"))
		require.ErrorContains(t, err, message, patch)
	}
	patch, err := ParsePatch([]byte("- {op: remove, path: /a}"))
	require.NoError(t, err)
	_, err = patch.Apply([]byte("a: 1\n---\na: 2\n"))
	require.ErrorContains(t, err, "more than one document")
}

func FuzzPatch(f *testing.F) {
	f.Add("- {op: add, path: /a/b, value: 1}", "a: {}")
	f.Add("- {op: move, from: /a/0, path: /a/-}", "a: [1, 2]")
	f.Fuzz(func(t *testing.T, text, manifest string) {
		patch, err := ParsePatch([]byte(text))
		if err != nil {
			return
		}
		if changed, err := patch.Apply([]byte(manifest)); err == nil {
			require.NotNil(t, changed)
		}
	})
}
