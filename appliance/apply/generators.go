package apply

import (
	"encoding/base64"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"landfall/appliance/objects"
)

// generator makes a ConfigMap or a Secret of files and values.
type generator struct {
	Name      string           `yaml:"name"`
	Namespace string           `yaml:"namespace"`
	Behavior  string           `yaml:"behavior"` // create, merge, replace
	Files     []string         `yaml:"files"`    // "path" or "key=path"
	Literals  []string         `yaml:"literals"` // "key=value"
	Envs      []string         `yaml:"envs"`     // files with lines of key=value
	Env       string           `yaml:"env"`      // an old form of envs
	Type      string           `yaml:"type"`     // of a Secret
	Options   generatorOptions `yaml:"options"`
}

type generatorOptions struct {
	Labels                map[string]string `yaml:"labels"`
	Annotations           map[string]string `yaml:"annotations"`
	Immutable             bool              `yaml:"immutable"`
	DisableNameSuffixHash bool              `yaml:"disableNameSuffixHash"`
}

func (b *building) generate(field string, kind objects.Kind, generators []generator) {
	for _, g := range generators {
		if g.Name == "" {
			b.problem(b.at(field), "a generator has no name")
			continue
		}
		values, ok := b.values(field, g)
		if !ok {
			continue
		}
		if !g.Options.DisableNameSuffixHash && !b.spec.GeneratorOptions.DisableNameSuffixHash {
			b.note(b.at(field), "%s keeps its name: no hash is put behind it", g.Name)
		}
		b.place(field, g, b.generated(field, kind, g, values))
	}
}

// place adds what was generated, or lets it go over what is there, as its behaviour says.
func (b *building) place(field string, g generator, made *Object) {
	var known *Object
	for _, o := range b.list {
		if o.Kind == made.Kind && o.group() == "" && o.Name == made.Name && (made.Namespace == "" || o.Namespace == made.Namespace) {
			known = o
		}
	}
	switch {
	case g.Behavior == "" || g.Behavior == "create":
		b.list = append(b.list, made)
	case g.Behavior != "merge" && g.Behavior != "replace":
		b.problem(b.at(field), "behavior of %s is %q; expected create, merge or replace", g.Name, g.Behavior)
	case known == nil:
		b.problem(b.at(field), "there is no %s %s whose values could be changed; leave out its behavior", made.Kind, g.Name)
	case g.Behavior == "replace":
		made.Namespace = known.Namespace
		if known.Namespace != "" {
			b.metadata(made)["namespace"] = known.Namespace
		}
		*known = *made
	default:
		for _, place := range []string{"data", "binaryData"} {
			if values, ok := made.Content[place].(map[string]any); ok {
				merge(child(known.Content, place), values)
			}
		}
		merge(child(known.Content, "metadata"), map[string]any{"labels": made.at("metadata", "labels"), "annotations": made.at("metadata", "annotations")})
	}
}

// child is a field that is an object, made if there is none.
func child(of map[string]any, field string) map[string]any {
	values, ok := of[field].(map[string]any)
	if !ok {
		values = map[string]any{}
		of[field] = values
	}
	return values
}

func (b *building) generated(field string, kind objects.Kind, g generator, values map[string][]byte) *Object {
	metadata := map[string]any{"name": g.Name}
	if g.Namespace != "" {
		metadata["namespace"] = g.Namespace
	}
	for _, options := range []generatorOptions{b.spec.GeneratorOptions, g.Options} {
		setAll(metadata, "labels", options.Labels)
		setAll(metadata, "annotations", options.Annotations)
	}
	content := map[string]any{"apiVersion": "v1", "kind": kind.Kind, "metadata": metadata}
	if g.Options.Immutable || b.spec.GeneratorOptions.Immutable {
		content["immutable"] = true
	}
	secret := kind == objects.Secrets
	if secret {
		content["type"] = "Opaque"
		if g.Type != "" {
			content["type"] = g.Type
		}
	}
	for key, value := range values {
		switch {
		case secret:
			child(content, "data")[key] = base64.StdEncoding.EncodeToString(value)
		case utf8.Valid(value):
			child(content, "data")[key] = string(value)
		default:
			child(content, "binaryData")[key] = base64.StdEncoding.EncodeToString(value)
		}
	}
	return &Object{APIVersion: "v1", Kind: kind.Kind, Name: g.Name, Namespace: g.Namespace, Content: content, Source: b.at(field)}
}

// values are what a generator's files, lines and literals say.
func (b *building) values(field string, g generator) (map[string][]byte, bool) {
	values, good := map[string][]byte{}, true
	add := func(key string, value []byte) {
		if _, twice := values[key]; twice || key == "" {
			b.problem(b.at(field), "%s has the key %q twice or without a name", g.Name, key)
			good = false
		}
		values[key] = value
	}
	for _, name := range g.Files {
		key, file, named := strings.Cut(name, "=")
		if !named {
			key, file = path.Base(name), name
		}
		data, ok := b.inside(field, file)
		good = good && ok
		add(key, data)
	}
	lines := append([]string(nil), g.Literals...)
	for _, name := range append(append([]string(nil), g.Envs...), oneOf(g.Env)...) {
		data, ok := b.inside(field, name)
		good = good && ok
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	for _, line := range lines {
		key, value, found := strings.Cut(line, "=")
		if !found {
			b.problem(b.at(field), "%s", fmt.Sprintf("a line of %s has no =; expected key=value", g.Name))
			good = false
			continue
		}
		add(key, []byte(unquoted(value)))
	}
	return values, good
}

// unquoted drops the quotes around a literal.
func unquoted(value string) string {
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		return value[1 : len(value)-1]
	}
	return value
}

func oneOf(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}
